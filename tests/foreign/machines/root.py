# SPDX-License-Identifier: BSD-3-Clause
"""The second root: Debian 13 with its backports, with the emulator, kernels and compiler that Debian 12 lacks."""

import glob
import os
import re
import shutil
import subprocess
import sys

from machines import cache

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../install"))
from debian_root import apt_as_here, inside, mirror, run  # noqa: E402

SUITE, BACKPORTS = "trixie", "trixie-backports"
# The emulator; tools that build a kernel and its tests.
PACKAGES = ("qemu-system-x86", "gcc", "make", "bc", "bison", "flex", "libelf-dev", "libc6-dev", "uuid-dev", "perl", "python3-minimal", "rsync",
            "xz-utils", "kmod", "cpio")
SOURCE = "linux-source.deb"
VERSIONS = ("qemu-system-x86", "gcc", "libc6")
RECIPE = "3"  # changed, it makes a new root although the lists above are the same


class Root:
    """A complete root."""

    def __init__(self, folder):
        self.folder, self.path = folder, os.path.join(folder, "fs")
        self.facts = cache.manifest(folder)
        self.versions = self.facts["versions"]

    def emulator(self, program=None):
        """
        QEMU of this root, or one of the same version, run by this root's loader: neither a chroot nor root is needed.
        Returns (command, environment).
        """
        libraries = [f"{self.path}/usr/lib/x86_64-linux-gnu", f"{self.path}/lib/x86_64-linux-gnu"]
        loader = f"{self.path}/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
        return ([loader, "--library-path", ":".join(libraries), program or f"{self.path}/usr/bin/qemu-system-x86_64",
                 "-L", f"{self.path}/usr/share/qemu", "-L", f"{self.path}/usr/share/seabios", "-L", f"{self.path}/usr/lib/ipxe/qemu"],
                {"QEMU_MODULE_DIR": f"{self.path}/usr/lib/x86_64-linux-gnu/qemu"})

    def debian_kernel(self):
        """(image, folder of modules) of Debian's newest kernel."""
        modules = os.path.join(self.folder, "kernel/usr/lib/modules", self.facts["debian_kernel"])
        return os.path.join(modules, "vmlinuz"), modules

    def source_archive(self, to):
        """Unpacks the package of the kernel's sources into a folder; returns the archive in it."""
        must(run(["dpkg-deb", "-x", os.path.join(self.folder, SOURCE), to], 300), "unpacking linux-source")
        return glob.glob(os.path.join(to, "usr/src/linux-source-*.tar.xz"))[0]


def recipe():
    return cache.key(RECIPE, SUITE, BACKPORTS, *PACKAGES)


def cache_folder(at=cache.AT):
    return os.path.join(at, "root-" + recipe())


def why_not():
    """The reason why the root cannot be made on this machine; None: it can."""
    if os.uname().machine != "x86_64":
        return "the second root is made for x86_64 only"
    if os.geteuid():
        return "debootstrap makes the second root, and needs root"
    for tool in ("debootstrap", "unshare", "chroot"):
        if not shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            return f"no {tool}: ./tools/packages foreign installs it"
    return None


def must(result, what, remedy=""):
    """The output of a command; raises if it failed."""
    ok, output = result
    if not ok:
        text = "\n".join(output.splitlines()[-15:])
        raise cache.CacheError(f"{what} failed{': ' + remedy if remedy else ''}\n{text}")
    return output


def site():
    for suite in ("bookworm", "trixie"):
        found = mirror(suite, None)
        if found:
            return found
    raise cache.CacheError("apt's sources name no mirror of Debian 12 or 13 (apt-get indextargets): apt-get update first")


def _quick(fs):
    with open(f"{fs}/etc/dpkg/dpkg.cfg.d/quick", "w", encoding="ascii") as f:
        f.write("force-unsafe-io\npath-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\npath-exclude=/usr/share/locale/*\n")


def _fetch(fs, packages):
    """Downloads packages that are unpacked, not installed: their scripts would make an initramfs."""
    os.makedirs(f"{fs}/fetch", exist_ok=True)
    must(inside(fs, "cd /fetch && apt-get -q download " + " ".join(packages), 900), "fetching " + ", ".join(packages))
    return sorted(glob.glob(f"{fs}/fetch/*.deb"))


def newest(fs, pattern):
    """The newest package by this name that the mirror has: (name, version)."""
    said = must(inside(fs, f"apt-cache search --names-only '{pattern}' | cut -d' ' -f1 | sort -V | tail -n 1"), "apt-cache search").split()
    if not said:
        raise cache.CacheError(f"the mirror has no package {pattern} in {SUITE} or {BACKPORTS}")
    shown = must(inside(fs, f"apt-cache madison {said[0]} | sort -t '|' -k 2 -V | tail -n 1"), "apt-cache madison")
    return said[0], shown.split("|")[1].strip()


def _debian_kernel(fs, folder):
    """Image and modules of Debian's newest kernel, which are packages of their own since Linux 6.19."""
    image, version = newest(fs, r"^linux-image-[0-9.]+\+deb[0-9]+-amd64$")
    release = image[len("linux-image-"):]
    have = must(inside(fs, f"apt-cache search --names-only '^linux-(base|binary|modules)-{re.escape(release)}$' | cut -d' ' -f1"), "apt-cache")
    for deb in _fetch(fs, [f"{name}={version}" for name in have.split() or [image]]):
        must(run(["dpkg-deb", "-x", deb, os.path.join(folder, "kernel")]), f"unpacking {deb}")
    shutil.rmtree(f"{fs}/fetch")
    for name in ("vmlinuz", "modules.builtin"):
        if not os.path.exists(os.path.join(folder, "kernel/usr/lib/modules", release, name)):
            raise cache.CacheError(f"Debian's packages of Linux {release} have no {name} where they had it before")
    return release


def _linux_source(fs, folder):
    """Saves the package: another configuration of the kernel then needs no network."""
    name, version = newest(fs, r"^linux-source-[0-9.]+$")
    os.rename(_fetch(fs, [f"{name}={version}"])[0], os.path.join(folder, SOURCE))
    return f"{name} {version}"


def _make(folder, say):
    fs, where = os.path.join(folder, "fs"), site()
    say(f"the second root: debootstrap of {SUITE} (some minutes; once)")
    must(run(["debootstrap", "--variant=minbase", SUITE, fs, where], 1200), f"debootstrap of {SUITE} from apt's mirror",
         "is the network there, and does the mirror have Debian 13?")
    apt_as_here(fs, where, (SUITE, f"{SUITE}-updates", BACKPORTS))
    _quick(fs)
    must(inside(fs, "apt-get -q update", 300), "apt-get update in the second root")
    say("the second root: QEMU, compiler, Debian's newest kernel")
    must(inside(fs, f"apt-get -q -y --no-install-recommends -t {BACKPORTS} install {' '.join(PACKAGES)} && apt-get clean", 1500),
         "installing packages in the second root")
    release, source = _debian_kernel(fs, folder), _linux_source(fs, folder)
    must(inside(fs, f"apt-get -q -y --no-install-recommends -t {BACKPORTS} install linux-headers-{release} && apt-get clean", 900),
         "installing the headers of Debian's newest kernel")
    shown = must(inside(fs, "dpkg-query -W -f '${Package} ${Version}\\n' " + " ".join(VERSIONS)), "dpkg-query").split("\n")
    return {"versions": dict(line.split() for line in shown if line), "debian_kernel": release, "linux_source": source, "suite": SUITE}


def get(say, at=cache.AT, fresh=False):
    """The root; made if there is none.  fresh: made anew from the mirror's present packages."""
    where = cache_folder(at)
    if fresh or not cache.manifest(where):
        lack = why_not()
        if lack:
            raise cache.CacheError(lack)
    return Root(cache.made(at, "root", recipe(), lambda folder: _make(folder, say), say, fresh))


def works(root):
    """The version that its emulator prints."""
    command, env = root.emulator()
    p = subprocess.run([*command, "-version"], env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=60)
    if p.returncode:
        raise cache.CacheError(f"the second root's QEMU does not start: {p.stderr}")
    return p.stdout.splitlines()[0]
