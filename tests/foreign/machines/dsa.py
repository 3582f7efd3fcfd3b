# SPDX-License-Identifier: BSD-3-Clause
"""Cases of machines with Intel DSA: the drivers that an emulated CPU without MOVDIR64B can run."""

from machines import cases
from machines.cases import doctor


def linux_refuses(visit, devices):
    """When this fails, QEMU emulates MOVDIR64B: add cases with idxd and our driver."""
    guest, to = visit.machine, visit.to
    to.transport = "idxd"
    to.suite("MOVDIR64B")
    lacks = guest.run("grep -qw movdir64b /proc/cpuinfo").status != 0
    done = guest.run("modprobe idxd")
    said = guest.run("dmesg").out
    to.check(lacks and done.status and "idxd driver failed to load without MOVDIR64B" in said, "this CPU has no MOVDIR64B: idxd refuses it",
             (done.err, said[-1000:]))
    to.transport = "none"


def lift_the_denylist(guest, to, device):
    """Loads vfio-pci with the parameter that doctor names."""
    to.suite("tools")
    guest.run("modprobe -a vfio-pci vfio_iommu_type1")
    about = doctor(guest)[1].get("denylist", {})
    to.check(about.get("state") == "failed" and "disable_denylist=1" in about.get("fix", ""), "doctor: vfio-pci denies the device, with a remedy", about)
    done = guest.run(f"usdmactl bind {device}")
    log = guest.run("dmesg -c").out  # clear the refusal: check_alive() accepts no errors in the log
    to.check(done.status == 1 and "device denylist, driver probing disallowed" in log, "bind: refused because of the denylist",
             (done.out, done.err, log[-1000:]))
    # BusyBox reads no /etc/modprobe.d.
    guest.run("modprobe -r vfio-pci; modprobe vfio-pci disable_denylist=1")


def kernels_driver(visit):
    guest, to, devices = visit.machine, visit.to, cases.found(visit)
    linux_refuses(visit, devices)
    lift_the_denylist(guest, to, devices[0])
    cases.kernels_driver(visit)
    to.transport = "type1"
    to.suite("MOVDIR64B")
    done = guest.run(f"usdmactl selftest {devices[0]}")
    to.check(done.status == 1 and "this CPU lacks MOVDIR64B" in done.err, "selftest: our driver refuses this CPU, too", done.out + done.err)
