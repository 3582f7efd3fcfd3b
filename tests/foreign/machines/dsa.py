# SPDX-License-Identifier: BSD-3-Clause
"""Cases of machines with Intel DSA: drivers of others on our model, as far as an emulated CPU has what they need."""

from machines import cases
from machines.cases import query_json


def linux_refuses(visit, devices):
    """If it does not any more, QEMU's software emulation has MOVDIR64B: then idxd and our driver belong here."""
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
    """By what doctor says."""
    to.suite("tools")
    guest.run("modprobe -a vfio-pci vfio_iommu_type1")
    _, said = query_json(guest, "doctor")
    about = {c["id"]: c for c in said.get("checks", [])}.get("denylist", {})
    to.check(about.get("state") == "failed" and "disable_denylist=1" in about.get("fix", ""), "doctor: vfio-pci denies the device, and what lifts it", about)
    done = guest.run(f"usdmactl bind {device}")
    log = guest.run("dmesg -c").out  # the refusal is no complaint at the machine's end
    to.check(done.status == 1 and "device denylist, driver probing disallowed" in log, "bind: refused as long as it does", (done.out, done.err, log[-1000:]))
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
