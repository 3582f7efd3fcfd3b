# SPDX-License-Identifier: BSD-3-Clause
"""A kernel built from Debian's sources, with the parts of VFIO that Debian's kernels lack, and the kernel's tests of VFIO."""

import os
import shutil

from machines import cache, root as second
from machines.root import must

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIG, LINKED = os.path.join(HERE, "linux.config"), os.path.join(HERE, "selftests.c")
SELFTESTS = "tools/testing/selftests/vfio"
RECIPE = "1"
IMAGE = "arch/x86/boot/bzImage"

# allnoconfig takes the options of the file and no others; those that it did not take are reported.
CONFIGURE = """cd /mnt/linux
make -s KCONFIG_ALLCONFIG=/mnt/config allnoconfig
grep -v '^#' /mnt/config | grep . | sort >/mnt/wanted
sort .config >/mnt/taken
comm -23 /mnt/wanted /mnt/taken >/mnt/missing
! [ -s /mnt/missing ] || { echo "the kernel did not take:"; cat /mnt/missing; exit 1; }"""

BUILD = """cd /mnt/linux
make -s -j{jobs} bzImage modules >/mnt/log 2>&1 || {{ tail -n 40 /mnt/log; exit 1; }}
make -s INSTALL_MOD_PATH=/mnt/out INSTALL_MOD_STRIP=1 modules_install
cp {image} /mnt/out/vmlinuz
make -s kernelrelease >/mnt/out/release"""

# Static: the guest has the host's libraries, which are older.
TESTS = """cd /mnt/linux
gcc -Wall -Werror -O2 -c /mnt/selftests.c -o /mnt/selftests.o
make -s headers >/mnt/log 2>&1 || {{ tail -n 40 /mnt/log; exit 1; }}
LDFLAGS="-static -Wl,--wrap=poll" LDLIBS=/mnt/selftests.o make -s -C {selftests} -j{jobs} >/mnt/log 2>&1 || {{ tail -n 40 /mnt/log; exit 1; }}
for f in {selftests}/*_test; do [ -x $f ] && cp $f /mnt/out/; done"""


class Linux:
    """An image and its modules."""

    def __init__(self, folder):
        self.facts = cache.manifest(folder)
        self.release = self.facts["release"]
        self.image = os.path.join(folder, "vmlinuz")
        self.modules = os.path.join(folder, "lib/modules", self.release)


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def name(root):
    return cache.key(RECIPE, root.facts["linux_source"], text(CONFIG), CONFIGURE, BUILD)


def tests_name(root):
    return cache.key(RECIPE, root.facts["linux_source"], text(LINKED), TESTS)


def cache_folder(root, at=cache.AT):
    return os.path.join(at, "linux-" + name(root))


def tests_cache_folder(root, at=cache.AT):
    return os.path.join(at, "selftests-" + tests_name(root))


def _step(root, work, what, script, deadline):
    return must(second.inside(root.path, script, deadline, work), what)


# Sources that the tests do not need, which are most. They include headers of drivers/dma and drivers/net.
NOT_FOR_TESTS = ("drivers/[!dn]*", "drivers/net/[!e]*", "sound", "fs", "net", "Documentation", "kernel", "mm", "lib", "rust", "samples", "crypto", "security")


def _unpacked(root, folder, without=()):
    """A folder with the sources in linux, and an empty folder out."""
    work = os.path.join(folder, "build")
    os.makedirs(os.path.join(work, "out"))
    os.mkdir(os.path.join(work, "linux"))
    archive = root.source_archive(work)
    left_out = ["--anchored", "--no-wildcards-match-slash", *(f"--exclude=*/{w}" for w in without)]
    must(second.run(["tar", "-C", os.path.join(work, "linux"), *left_out, "--strip-components=1", "-xf", archive], 900), f"unpacking {archive}")
    return work


def _save_output(work, folder):
    """Moves what was built into the cache's folder; deletes the sources."""
    out = os.path.join(work, "out")
    for n in os.listdir(out):
        os.rename(os.path.join(out, n), os.path.join(folder, n))
    shutil.rmtree(work)


def _make(root, folder, say):
    say(f"linux: {root.facts['linux_source']}, built once (ten to twenty minutes on two cores)")
    work = _unpacked(root, folder)
    with open(os.path.join(work, "config"), "w", encoding="utf-8") as f:
        f.write(text(CONFIG))
    _step(root, work, "configuring the kernel (tests/foreign/linux.config)", CONFIGURE, 300)
    _step(root, work, "building the kernel", BUILD.format(jobs=os.cpu_count() or 1, image=IMAGE), 7200)
    _save_output(work, folder)
    with open(os.path.join(folder, "release"), encoding="ascii") as f:
        release = f.read().strip()
    if not os.path.isdir(os.path.join(folder, "lib/modules", release, "kernel")):
        raise cache.CacheError(f"the kernel's build made no modules for release {release!r}")
    return {"release": release, "source": root.facts["linux_source"]}


def _make_tests(root, folder, say):
    say("the kernel's tests of VFIO, built once (some minutes)")
    work = _unpacked(root, folder, NOT_FOR_TESTS)
    shutil.copy(LINKED, work)
    _step(root, work, "building the kernel's VFIO tests",
          TESTS.format(jobs=os.cpu_count() or 1, selftests=SELFTESTS), 1800)
    _save_output(work, folder)
    found = sorted(os.listdir(folder))
    if not found:
        raise cache.CacheError(f"{SELFTESTS} of {root.facts['linux_source']} has no tests")
    return {"tests": found, "source": root.facts["linux_source"]}


def get(root, say, at=cache.AT):
    return Linux(cache.made(at, "linux", name(root), lambda folder: _make(root, folder, say), say))


def selftests(root, say, at=cache.AT):
    """The kernel's own tests: paths by name."""
    where = cache.made(at, "selftests", tests_name(root), lambda folder: _make_tests(root, folder, say), say)
    return {n: os.path.join(where, n) for n in cache.manifest(where)["tests"]}
