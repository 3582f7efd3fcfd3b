# SPDX-License-Identifier: BSD-3-Clause
"""Modules that Debian's kernels leave out, built for Debian's newest from its linux-source: the kernel's test of DMA drivers, HiSilicon's driver."""

import os
import shutil

from machines import cache, root as second
from machines.root import must

RECIPE = "1"
MODULES = ("dmatest", "hisi_dma")
SOURCES = ("dmatest.c", "hisi_dma.c", "virt-dma.h", "dmaengine.h")
BUILD = """cd /mnt
echo 'obj-m := {objects}' >Makefile
make -s -C /usr/src/linux-headers-{release} M=/mnt modules >log 2>&1 || {{ tail -n 40 log; exit 1; }}
strip --strip-debug *.ko"""


def name(root):
    return cache.key(RECIPE, root.facts["linux_source"], root.facts["debian_kernel"], BUILD, *MODULES, *SOURCES)


def _make(root, folder, say):
    say(f"{', '.join(MODULES)}: built for Debian's newest kernel, once")
    work, release = os.path.join(folder, "build"), root.facts["debian_kernel"]
    os.mkdir(work)
    archive = root.source_archive(work)
    wanted = [f"*/drivers/dma/{s}" for s in SOURCES]
    must(second.run(["tar", "-C", work, "--strip-components=3", "--wildcards", "-xf", archive, *wanted], 600), f"unpacking {archive}")
    objects = " ".join(f"{m}.o" for m in MODULES)
    must(second.inside(root.path, BUILD.format(release=release, objects=objects), 600, work), f"building {objects}")
    for m in MODULES:
        os.rename(os.path.join(work, f"{m}.ko"), os.path.join(folder, f"{m}.ko"))
    shutil.rmtree(work)
    return {"source": root.facts["linux_source"], "release": release}


def get(root, say, at=cache.AT):
    """{module: its file}"""
    where = cache.made(at, "modules", name(root), lambda folder: _make(root, folder, say), say)
    return {m: os.path.join(where, f"{m}.ko") for m in MODULES}
