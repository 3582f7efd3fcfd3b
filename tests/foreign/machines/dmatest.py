# SPDX-License-Identifier: BSD-3-Clause
"""The kernel's test of DMA drivers, which Debian's kernels leave out: a module of Debian's newest, from its linux-source."""

import os
import shutil

from machines import cache, root as second
from machines.root import must

RECIPE = "1"
BUILD = """cd /mnt
echo 'obj-m := dmatest.o' >Makefile
make -s -C /usr/src/linux-headers-{release} M=/mnt modules >log 2>&1 || {{ tail -n 40 log; exit 1; }}
strip --strip-debug dmatest.ko"""


def name(root):
    return cache.key(RECIPE, root.facts["linux_source"], root.facts["debian_kernel"], BUILD)


def place(root, at=cache.AT):
    return os.path.join(at, "dmatest-" + name(root))


def _make(root, folder, say):
    say("dmatest: built for Debian's newest kernel, once")
    work = os.path.join(folder, "build")
    os.mkdir(work)
    archive = root.source_archive(work)
    must(second.run(["tar", "-C", work, "--strip-components=3", "--wildcards", "-xf", archive, "*/drivers/dma/dmatest.c"], 600), f"unpacking {archive}")
    must(second.inside(root.path, BUILD.format(release=root.facts["debian_kernel"]), 600, work), "building dmatest")
    os.rename(os.path.join(work, "dmatest.ko"), os.path.join(folder, "dmatest.ko"))
    shutil.rmtree(work)
    return {"source": root.facts["linux_source"], "release": root.facts["debian_kernel"]}


def get(root, say, at=cache.AT):
    """The module's file."""
    return os.path.join(cache.made(at, "dmatest", name(root), lambda folder: _make(root, folder, say), say), "dmatest.ko")
