# SPDX-License-Identifier: BSD-3-Clause
"""The machines that are booted."""

from machines import asks

# Two devices that every suite is content with: the first has engines enough for copies in parts.
PAIR = [["--mem", "512M", "--engines", "3", "--channels", "16"], ["--mem", "256M", "--engines", "1", "--channels", "16"]]
ONE = PAIR[:1]
# More than a quarter of this machine's memory, which is what a client may map unless it is told otherwise.
ROOMY = [[*PAIR[0], "--share", "16G"]]
# As it comes: 64 channels each, for which two CPUs have too few interrupts.
EIGHT = [["--mem", "64M"]] * 8


class Situation:
    def __init__(self, name, kernel, iommu, devices, ask, **more):
        self.name, self.kernel, self.iommu, self.devices, self.ask = name, kernel, iommu, devices, ask
        self.memory = more.get("memory", 2048)
        self.cpus = more.get("cpus", 2)
        self.cmdline = more.get("cmdline", "")
        self.share = more.get("share", True)  # the guest's memory, with the device
        self.deadline = more.get("deadline", 5400)
        self.selftests = more.get("selftests", False)
        self.all_suites = more.get("all_suites", False)
        self.long = more.get("long", False)  # only when asked for
        self.first = more.get("first", False)  # also where time is short
        self.short = more.get("short", False)  # there only: a bit of what the others do in full

    def extra(self, programs):
        """More files: {name there: file here}."""
        return {f"selftests/{n}": path for n, path in programs.selftests.items()} if self.selftests else {}


# The long ones begin first, so that two at a time end together.
ALL = [
    Situation("intel", "own", "Intel", PAIR, asks.everything),
    # Linux 7 takes QEMU's AMD IOMMU for one that remaps no interrupts: it looks for a bridge at the I/O APIC's address.
    Situation("amd", "own", "AMD", PAIR, asks.unsafe_interrupts, all_suites=True),
    Situation("debian-stable-amd", "stable", "AMD", PAIR, asks.everything),
    Situation("debian-stable", "stable", "Intel", PAIR, asks.everything),
    Situation("debian-newest", "newest", "Intel", PAIR, asks.everything),
    Situation("debian-newest-amd", "newest", "AMD", PAIR, asks.unsafe_interrupts),
    Situation("virtio", "own", "virtio", PAIR, asks.unsafe_interrupts),
    Situation("use", "own", "Intel", PAIR, asks.use_and_abuse),
    Situation("short", "own", "Intel", PAIR, asks.in_short, first=True, short=True),
    Situation("others-pages", "own", "Intel", ONE, asks.others_get_the_pages),
    Situation("others-pages-amd", "stable", "AMD", ONE, asks.others_get_the_pages),
    Situation("eight", "own", "Intel", EIGHT, asks.eight_devices),
    Situation("ends", "own", "Intel", PAIR, asks.ends),
    Situation("machine-ends", "own", "Intel", ONE, asks.machine_ends),
    Situation("unplug", "own", "Intel", PAIR, asks.unplug),
    Situation("kernels-tests", "own", "Intel", ONE, asks.kernels_tests, selftests=True, first=True, memory=4096,
              cmdline="hugepagesz=1G hugepages=1"),
    Situation("no-iommu", "own", "none", ONE, asks.without_iommu, first=True),
    Situation("private-memory", "own", "Intel", ONE, asks.private_memory, share=False),
    Situation("8-gib", "own", "Intel", ROOMY, asks.all_of_the_memory, memory=11264, long=True),
]
