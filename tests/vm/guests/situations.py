# SPDX-License-Identifier: BSD-3-Clause
"""The machines that tests/vm/run boots."""

from guests import cases, disk, guest

EDU = "edu,dma_mask=0xffffffffffffffff"
MACHINE_IOMMU = ["-machine", "q35,kernel-irqchip=split", "-device", "intel-iommu,intremap=on"]
MACHINE_PLAIN = ["-machine", "q35"]


def edu_alone(n):
    """An edu device behind its own root port: alone in its IOMMU group, and reset by the port."""
    return ["-device", f"pcie-root-port,id=port{n},chassis={n},slot={n}", "-device", f"{EDU},bus=port{n}"]


# One for each process of the suites with four processes.
FOUR_EDUS = [word for n in range(1, 5) for word in edu_alone(n)]
# Two devices behind a bridge to conventional PCI, which share a group.
EDU_SHARED = ["-device", "pcie-pci-bridge,id=bridge1", "-device", f"{EDU},bus=bridge1,addr=1",
              "-device", f"{EDU},bus=bridge1,addr=2"]


# Two nodes of two CPUs and half of the memory each; no device: the test moves the software device's engines between them.
NODES = ["-object", "memory-backend-ram,id=half0,size=512M", "-numa", "node,nodeid=0,cpus=0-1,memdev=half0",
         "-object", "memory-backend-ram,id=half1,size=512M", "-numa", "node,nodeid=1,cpus=2-3,memdev=half1",
         "-numa", "dist,src=0,dst=1,val=21"]


class Situation:
    def __init__(self, name, devices, cmdline, case, clock=guest.JUMPING):
        self.clock = clock
        self.name = name
        self.devices = devices
        self.cmdline = cmdline
        self.case = case


ALL = [
    Situation("disk", MACHINE_PLAIN, "", disk.fails),
    Situation("iommu", MACHINE_IOMMU + edu_alone(1) + edu_alone(2), "intel_iommu=on", cases.with_iommu),
    Situation("kernel-vfio", MACHINE_IOMMU + FOUR_EDUS, "intel_iommu=on", cases.all_suites),
    Situation("no-iommu", MACHINE_PLAIN + edu_alone(1), "", cases.without_iommu),
    Situation("numa", MACHINE_PLAIN + NODES, "", cases.two_nodes, guest.STEADY_FOUR),
    Situation("reset", MACHINE_IOMMU + edu_alone(1), "intel_iommu=on", cases.hanging_device),
    Situation("shared-group", MACHINE_IOMMU + EDU_SHARED, "intel_iommu=on", cases.shared_group),
]
