# SPDX-License-Identifier: BSD-3-Clause
"""The machines that are booted."""

import os
import sys

from machines import cases, dsa, edu, hisi, ioat

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../vm"))
from guests import guest  # noqa: E402

# Two devices that are sufficient for every suite: the first has several engines, for copies in parts.
PAIR = [["--mem", "512M", "--engines", "3", "--channels", "16"], ["--mem", "256M", "--engines", "1", "--channels", "16"]]
ONE = PAIR[:1]
# By default a client may map a quarter of this machine's memory; the test needs more.
LARGE_SHARE = [[*PAIR[0], "--share", "16G"]]
# With the default of 64 channels each, for which two CPUs have too few interrupts.
EIGHT = [["--mem", "64M"]] * 8


# Intel I/OAT: 3.2, whose channels Linux uses for copies only, and 3.3, with XOR and PQ.
IOAT = ["--model", "ioat"]
IOAT_FOUR = [*IOAT, "--channels", "4"]
IOAT_RAID = ["--model", "ioat-3.3"]
DSA = ["--model", "dsa"]
HIP08 = ["--model", "hisi"]
HIP09 = ["--model", "hisi-hip09"]
RAID = ("ioatdma", "brd", "raid456")


class Situation:
    def __init__(self, name, kernel, iommu, devices, case, **more):
        self.name, self.kernel, self.iommu, self.devices, self.case = name, kernel, iommu, devices, case
        self.arch = "arm64" if kernel.startswith("arm64-") else "amd64"
        self.more = more.get("more", ())  # more options for QEMU
        self.clock = more.get("clock")  # QEMU's options for the guest's clock and CPUs
        self.memory = more.get("memory", 2048)
        self.cpus = more.get("cpus", 2)
        self.cmdline = more.get("cmdline", "")
        self.share = more.get("share", True)  # the device maps the guest's memory
        self.deadline = more.get("deadline", 5400)
        self.selftests = more.get("selftests", False)
        self.without = more.get("without", {})  # of the kernel's driver test: {case: why}
        self.all_suites = more.get("all_suites", False)
        self.engine = more.get("engine", "sdma")  # that of the devices, or arm64; the job foreign or foreign-ENGINE runs it
        self.programs = more.get("programs", "all")  # ours: all, ioat or hisi (their suites), some, edu (some and the test of that), tools, none
        self.modules = more.get("modules", ())
        self.built = more.get("built", ())  # modules that the kernel leaves out
        self.dpdk = more.get("dpdk", False)
        self.long = more.get("long", False)  # runs only with --long
        self.first = more.get("first", False)  # runs also with --first
        self.short = more.get("short", False)  # runs only with --first: a part of what others run in full

    def extra(self, shop):
        """More files: {path in the guest: file on this machine}."""
        files = {f"selftests/{n}": path for n, path in shop.selftests.items()} if self.selftests else {}
        files.update({f"{m}.ko": shop.built()[m] for m in self.built})
        if self.dpdk:
            files.update(shop.dpdk().files())
        return files


# The longest ones start first, so that two at a time end together.
ALL = [
    Situation("intel", "own", "Intel", PAIR, cases.everything),
    # Linux 7 assumes that QEMU's AMD IOMMU remaps no interrupts: it expects a bridge at the I/O APIC's address.
    Situation("amd", "own", "AMD", PAIR, cases.unsafe_interrupts, all_suites=True),
    Situation("debian-stable-amd", "stable", "AMD", PAIR, cases.everything),
    Situation("debian-stable", "stable", "Intel", PAIR, cases.everything),
    Situation("debian-newest", "newest", "Intel", PAIR, cases.everything),
    Situation("debian-newest-amd", "newest", "AMD", PAIR, cases.unsafe_interrupts),
    Situation("virtio", "own", "virtio", PAIR, cases.unsafe_interrupts),
    Situation("use", "own", "Intel", PAIR, cases.use_and_abuse),
    Situation("short", "own", "Intel", PAIR, cases.in_short, first=True, short=True),
    Situation("others-pages", "own", "Intel", ONE, cases.released_pages),
    Situation("others-pages-amd", "stable", "AMD", ONE, cases.released_pages),
    Situation("eight", "own", "Intel", EIGHT, cases.eight_devices),
    Situation("ends", "own", "Intel", PAIR, cases.server_dies),
    Situation("machine-ends", "own", "Intel", ONE, cases.machine_dies),
    Situation("unplug", "own", "Intel", PAIR, cases.unplug),
    Situation("kernels-tests", "own", "Intel", ONE, cases.kernels_tests, selftests=True, first=True, memory=4096,
              cmdline="hugepagesz=1G hugepages=1"),
    Situation("no-iommu", "own", "none", ONE, cases.without_iommu, first=True),
    Situation("private-memory", "own", "Intel", ONE, cases.private_memory, share=False),
    Situation("8-gib", "own", "Intel", LARGE_SHARE, cases.all_of_the_memory, memory=11264, long=True),
    Situation("ioat-linux", "newest", "none", [IOAT, [*IOAT_RAID, "--channels", "4"]], ioat.linux, engine="ioat", programs="none",
              modules=RAID, built=("dmatest",)),
    Situation("ioat-linux-iommu", "newest", "Intel", [IOAT_RAID], ioat.linux_probe_and_dmatest, engine="ioat", programs="none",
              modules=RAID, built=("dmatest",)),
    Situation("ioat-linux-mistakes", "newest", "none", [IOAT, IOAT_RAID], ioat.mistakes, engine="ioat", programs="none", modules=RAID, built=("dmatest",)),
    Situation("ioat-dpdk", "newest", "Intel", [IOAT], ioat.dpdk, engine="ioat", programs="tools", dpdk=True),
    Situation("ioat-kernels-driver", "newest", "Intel", [IOAT], cases.kernels_driver, engine="ioat", programs="tools", selftests=True, memory=4096),
    Situation("dsa-kernels-driver", "newest", "Intel", [DSA], dsa.kernels_driver, engine="dsa", programs="tools", selftests=True, memory=4096,
              modules=("idxd",), without={"memcpy_storm": "250 GiB: too much for a model in software"}),
    Situation("ioat-ours", "newest", "Intel", [IOAT_FOUR, IOAT], ioat.ours, engine="ioat", programs="ioat", modules=("ioatdma",)),
    # So many MSI vectors of one function need an IOMMU that remaps interrupts.
    Situation("hisi-linux", "newest", "Intel", [HIP08, HIP09], hisi.linux, engine="hisi", programs="none", built=("dmatest", "hisi_dma")),
    Situation("hisi-linux-mistakes", "newest", "Intel", [HIP09], hisi.mistakes, engine="hisi", programs="none", built=("dmatest", "hisi_dma")),
    Situation("hisi-ours", "newest", "Intel", [HIP08, HIP09], hisi.ours, engine="hisi", programs="hisi", built=("hisi_dma",)),
    # QEMU's SMMUv3 refuses devices of other processes: it does not notice new mappings. QEMU's edu is behind it, ours behind virtio's IOMMU.
    # By VFIO's type1 Linux 7.3 sets up no MSI there (iommu_dma_prepare_msi() fails where the IOMMU reserves a range for MSI); Linux 6.12 does.
    Situation("arm64-ours", "arm64-stable", "virtio", PAIR, cases.everything, engine="arm64", programs="some",
              cmdline="deferred_probe_timeout=-1"),  # until the module of virtio's IOMMU is loaded
    Situation("arm64-edu", "arm64-newest", "SMMUv3", [], edu.on_edu, engine="arm64", programs="edu", modules=("pci_stub",),
              more=edu.EDUS, clock=guest.JUMPING),
]
