# SPDX-License-Identifier: BSD-3-Clause
"""The guest's kernel: Debian's own image and modules, installed or fetched as a package into a cache."""

import glob
import lzma
import os
import re
import subprocess


class KernelError(Exception):
    pass


class Kernel:
    def __init__(self, image, modules):
        self.image = image
        self.modules = modules
        self.release = os.path.basename(modules.rstrip("/"))


def _version_key(path):
    return [int(n) for n in re.findall(r"\d+", os.path.basename(path))]


def _in_root(root):
    """The newest 6.1 image below ROOT that has its VFIO modules."""
    for image in sorted(glob.glob(f"{root}/boot/vmlinuz-6.1.*-amd64"), key=_version_key, reverse=True):
        release = os.path.basename(image)[len("vmlinuz-"):]
        for lib in (f"{root}/lib/modules/{release}", f"{root}/usr/lib/modules/{release}"):
            if glob.glob(f"{lib}/kernel/drivers/vfio/pci/vfio-pci.ko*") and os.access(image, os.R_OK):
                return Kernel(image, lib)
    return None


def _fetch(cache):
    """Downloads the image package that linux-image-amd64 depends on; nothing on the machine changes."""
    os.makedirs(cache, exist_ok=True)
    shown = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True, check=True)
    names = re.findall(r"Depends: (linux-image-6\.1\.\S+-amd64)$", shown.stdout, re.M)
    if not names:
        raise KernelError("apt knows no linux-image-6.1.*-amd64: run apt-get update on a Debian 12")
    subprocess.run(["apt-get", "download", names[0]], cwd=cache, check=True, stdout=subprocess.DEVNULL)
    package = max(glob.glob(f"{cache}/{names[0]}_*.deb"), key=os.path.getmtime)
    subprocess.run(["dpkg-deb", "-x", package, f"{cache}/kernel"], check=True)


def find(cache):
    """An installed kernel, one from an earlier fetch, or a freshly fetched one."""
    kernel = _in_root("") or _in_root(f"{cache}/kernel")
    if kernel:
        return kernel
    try:
        _fetch(cache)
    except (OSError, subprocess.CalledProcessError) as e:
        raise KernelError(f"no Debian 6.1 kernel is installed and fetching one failed ({e}); "
                          "remedy: apt-get install linux-image-amd64") from e
    kernel = _in_root(f"{cache}/kernel")
    if not kernel:
        raise KernelError(f"the fetched kernel package in {cache} has no usable image")
    return kernel


def _plain_name(name):
    return name.replace("-", "_")


class Modules:
    """Modules by name, read from their own .modinfo, so that no depmod needs to have run."""

    def __init__(self, kernel):
        self.paths = {}
        for top, _, files in os.walk(f"{kernel.modules}/kernel"):
            for f in files:
                if ".ko" in f:
                    self.paths[_plain_name(f.split(".ko")[0])] = os.path.join(top, f)
        with open(f"{kernel.modules}/modules.builtin", encoding="utf-8") as f:
            self.builtin = {_plain_name(os.path.basename(line.strip())[:-3]) for line in f}
        self._data = {}

    def data(self, name):
        name = _plain_name(name)
        if name not in self._data:
            if name not in self.paths:
                raise KernelError(f"the kernel has no module {name}")
            with open(self.paths[name], "rb") as f:
                raw = f.read()
            self._data[name] = lzma.decompress(raw) if self.paths[name].endswith(".xz") else raw
        return self._data[name]

    def depends(self, name):
        found = re.search(rb"\0depends=([^\0]*)\0", self.data(name))
        return [d for d in found.group(1).decode().split(",") if d] if found else []

    def closure(self, names):
        """The modules and their dependencies, in the order of loading."""
        order = []

        def visit(name):
            name = _plain_name(name)
            if name in order or name in self.builtin:
                return
            for d in self.depends(name):
                visit(d)
            order.append(name)

        for n in names:
            visit(n)
        return order
