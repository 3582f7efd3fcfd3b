# SPDX-License-Identifier: BSD-3-Clause
"""The kernels that machines boot, with their modules, and the guest's file system for each."""

import os
import re
import sys

from machines import arm64, linux

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../vm"))
from guests import initramfs, kernel  # noqa: E402

BASE = ["virtio_pci", "virtio_console", "vfio", "vfio_iommu_type1", "vfio_pci"]
MORE = {"virtio": ["virtio_iommu"]}


class Amd64:
    """QEMU's options for the architecture, and the tools that pack its programs."""

    machine, cpu, console, patience, tools = "q35", "max", "ttyS0", 1, initramfs.HERE

    @staticmethod
    def emulator(root):
        return root.emulator()


class KernelChoice:
    """A kernel, with its name in docs/compatibility.md."""

    def __init__(self, name, release, image, modules, transports, noiommu=False, arch=Amd64):
        self.name, self.release, self.transports, self.noiommu, self.arch = name, release, transports, noiommu, arch
        self.image, self.modules = image, modules


def version(release):
    return ".".join(re.findall(r"\d+", release)[:2])


def own(root, say, at):
    """The kernel built from source with all of VFIO."""
    built = linux.get(root, say, at)
    return KernelChoice(f"{version(built.release)}, all of VFIO", built.release, built.image, built.modules,
                        ("iommufd", "type1", "iommufd-compat"), True)


def debian_newest(root, _say, _at):
    image, modules = root.debian_kernel()
    release = os.path.basename(modules)
    return KernelChoice(f"Debian's {version(release)}", release, image, modules, ("type1",))


def debian_stable(_root, _say, at):
    found = kernel.find(os.path.join(at, "stable"))
    return KernelChoice(f"Debian's {version(found.release)}", found.release, found.image, found.modules, ("type1",))


def debian_arm64(name):
    def choice(root, say, at):
        found = arm64.get(root, say, at)
        release, image, modules = found.kernel(name)
        return KernelChoice(f"Debian's {version(release)}, arm64", release, image, modules, ("type1",), arch=found)

    return choice


KERNELS = {"own": own, "newest": debian_newest, "stable": debian_stable,
           "arm64-newest": debian_arm64("newest"), "arm64-stable": debian_arm64("stable")}


def file_system(path, choice, iommu, programs, extra, build_dir, scratch, modules=()):
    """The initramfs: busybox, modules that this kernel has, programs with their libraries; extra: {path in the guest: file on this machine}."""
    archive = initramfs.Archive()
    initramfs.add_base(archive, initramfs.guest_text("guest-base", "guest-init"), choice.arch.tools)
    have = kernel.Modules(choice)
    wanted = [m for m in [*BASE, *MORE.get(iommu, []), *modules] if m in have.paths or m not in have.builtin]
    initramfs.add_modules(archive, choice, have, wanted)
    for p in programs:
        initramfs.add_program(archive, p, f"usr/bin/{os.path.basename(p)}", build_dir, scratch, choice.arch.tools)
    for guest_path, path_here in extra.items():
        with open(path_here, "rb") as f:
            archive.file(guest_path, f.read(), 0o755)
    archive.write(path)
