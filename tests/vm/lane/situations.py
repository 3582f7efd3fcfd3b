# SPDX-License-Identifier: BSD-3-Clause
"""The machines that the lane boots, and what it asks of each."""

EDU = "edu,dma_mask=0xffffffffffffffff"
MACHINE_IOMMU = ["-machine", "q35,kernel-irqchip=split", "-device", "intel-iommu,intremap=on"]
MACHINE_PLAIN = ["-machine", "q35"]

# Behind a root port of its own: alone in its group, and resettable by the port.
EDU_ALONE = ["-device", "pcie-root-port,id=port1,chassis=1,slot=1", "-device", f"{EDU},bus=port1"]
# Behind a bridge to conventional PCI, with a neighbour: one group of both.
EDU_SHARED = ["-device", "pcie-pci-bridge,id=bridge1", "-device", f"{EDU},bus=bridge1,addr=1",
              "-device", "edu,bus=bridge1,addr=2"]

FIND_EDU = "for d in /sys/bus/pci/devices/*; do [ $(cat $d/vendor)$(cat $d/device) = 0x12340x11e8 ] && basename $d; done"


class Situation:
    def __init__(self, name, devices, cmdline, ask):
        self.name = name
        self.devices = devices
        self.cmdline = cmdline
        self.ask = ask


def edu_address(guest):
    found = guest.run(FIND_EDU).out.split()
    return found[0] if found else ""


def ask_iommu(guest, to, programs):
    bdf = edu_address(guest)
    to.check(bdf, "the edu device is there")
    group = guest.run(f"readlink /sys/bus/pci/devices/{bdf}/iommu_group").out.strip()
    to.check(group, "the edu device has an IOMMU group")
    members = guest.run(f"ls /sys/bus/pci/devices/{bdf}/iommu_group/devices").out.split()
    to.check(members == [bdf], "the edu device is alone in its group", members)


def ask_plain(guest, to, programs):
    bdf = edu_address(guest)
    to.check(bdf, "the edu device is there")
    groups = guest.run("ls /sys/kernel/iommu_groups").out.split()
    to.check(not groups, "there is no IOMMU group", groups)


def ask_shared(guest, to, programs):
    bdf = edu_address(guest)
    to.check(bdf, "the edu device is there")
    members = guest.run(f"ls /sys/bus/pci/devices/{bdf}/iommu_group/devices").out.split()
    to.check(len(members) > 1, "the edu device shares its group", members)


ALL = [
    Situation("iommu", MACHINE_IOMMU + EDU_ALONE, "intel_iommu=on", ask_iommu),
    Situation("no-iommu", MACHINE_PLAIN + EDU_ALONE, "", ask_plain),
    Situation("shared-group", MACHINE_IOMMU + EDU_SHARED, "intel_iommu=on", ask_shared),
]
