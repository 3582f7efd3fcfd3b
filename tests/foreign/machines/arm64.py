# SPDX-License-Identifier: BSD-3-Clause
"""
Machines of arm64: the emulator that belongs to the second root's QEMU, Debian's kernels, and our programs by the cross build.
They are a separate part of the cache: the second root is not changed.
"""

import glob
import os
import re
import shutil
import sys

from machines import cache
from machines.root import BACKPORTS, SUITE, must, site
from machines.suites import SOME, TOOLS

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, folder) for folder in ("../../vm", "../../arm64")]
import sysroot  # noqa: E402
from debian_root import run  # noqa: E402
from guests import initramfs  # noqa: E402

RECIPE = "2"
STABLE = f"linux-image-arm64/{SUITE}"  # names the package of the release's own kernel
TARGETS = (*TOOLS, *(f"tests/integration/integration-{name}" for name in SOME), "tests/vm/vm-edu-kernel")


class Arm64:
    """QEMU's options for arm64, and the tools that pack its programs on this machine."""

    # The oldest CPU with LSE atomics; the CPU "max" has pointer authentication, which is slow to emulate.
    machine, cpu, console, patience = "virt,gic-version=3", "neoverse-n1", "ttyAMA0", 4

    def __init__(self, folder, libraries):
        self.fs = os.path.join(folder, "fs")
        self.releases = cache.manifest(folder)["releases"]
        self.tools = initramfs.Tools(libraries, [sysroot.QEMU, "-L", libraries], f"{sysroot.TRIPLET}-strip", f"{self.fs}/usr/bin/busybox")

    def emulator(self, root):
        return root.emulator(f"{self.fs}/usr/bin/qemu-system-aarch64")

    def kernel(self, name):
        """(release, image, folder of modules)"""
        modules = os.path.join(self.fs, "usr/lib/modules", self.releases[name])
        inside = os.path.join(modules, "vmlinuz")
        return self.releases[name], inside if os.path.exists(inside) else f"{self.fs}/boot/vmlinuz-{self.releases[name]}", modules


def newest(root):
    return root.facts["debian_kernel"].replace("amd64", "arm64")


def packages(root):
    """The packages, of the same versions as those of the second root."""
    return [f"qemu-system-arm:amd64={root.versions['qemu-system-x86']}", "busybox-static", STABLE,
            *(f"linux-{part}-{newest(root)}" for part in ("base", "binary", "modules"))]


def _download(apt, folder, names):
    must(run([*apt, "download", *names], 900, cwd=folder), "download of arm64 packages",
         "a mirror with newer ones needs a newer root: tests/foreign/run --refresh")


def _make(root, folder, say):
    say("arm64: QEMU's emulator, two kernels, busybox: downloads 210 MB, once")
    keys, from_where = f"{root.path}/usr/share/keyrings/debian-archive-keyring.pgp", site()
    with open(f"{folder}/sources.list", "w", encoding="utf-8") as f:
        f.write("".join(f"deb [signed-by={keys}] {from_where} {suite} main\n" for suite in (SUITE, f"{SUITE}-updates", BACKPORTS)))
    apt = sysroot.apt(folder, **{"APT::Architectures": "arm64,amd64", "Dir::Etc::sourcelist": f"{folder}/sources.list", "Dir::Etc::sourceparts": "/dev/null"})
    must(run([*apt, "update"], 300), "apt-get update for arm64")
    _download(apt, f"{folder}/archives", packages(root))
    depends = must(run(["dpkg-deb", "-f", *glob.glob(f"{folder}/archives/linux-image-arm64_*.deb"), "Depends"]), "reading the name of the release's kernel")
    stable = re.match(r"linux-image-(\S+)", depends).group(1)
    _download(apt, f"{folder}/archives", [f"linux-image-{stable}"])
    for deb in glob.glob(f"{folder}/archives/*.deb"):
        must(run(["dpkg-deb", "-x", deb, f"{folder}/fs"]), f"unpacking {deb}")
    for name in ("lists", "archives", "fs/usr/share/doc", "fs/usr/share/man"):
        shutil.rmtree(os.path.join(folder, name))
    return {"releases": {"newest": newest(root), "stable": stable}}


def get(root, say, at=cache.AT):
    folder = cache.made(at, "arm64", cache.key(RECIPE, *packages(root)), lambda part: _make(root, part, say), say)
    return Arm64(folder, sysroot.get(say))


def build(build_dir, say):
    """Builds our programs for arm64."""
    say(f"arm64: cross build in {build_dir}")
    must(run([os.path.join(HERE, "../../arm64/run"), "--build-dir", build_dir, "--build-only", *TARGETS], 4 * 3600), "cross build for arm64")
