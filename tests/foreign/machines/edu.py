# SPDX-License-Identifier: BSD-3-Clause
"""QEMU's edu behind the SMMUv3 of a machine of arm64."""

import os
import sys
import types

from machines.machine import plug
from machines.server import Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../vm"))
from guests import situations  # noqa: E402
from guests.cases import all_suites, with_iommu  # noqa: E402

# Two edu devices, each at its own port, and an empty port.
EDUS = [*situations.edu_alone(1), *situations.edu_alone(2), "-device", "pcie-root-port,id=port3,chassis=3,slot=3"]
# The suites that take only minutes with edu's memory and transfers of 4 KiB.
ON_EDU = ("copies", "core-peers")


def on_edu(visit):
    guest, to, programs = visit.machine, visit.to, visit.programs
    to.transport = visit.kernel.transports[0]
    to.suite("edu")
    suites = [(s.name, s.program, s.arguments, s.devices) for s in programs.suites if s.name in ON_EDU]
    theirs = types.SimpleNamespace(suites=suites, own=lambda name: programs.edu)
    with_iommu(guest, to, theirs, r"arm-smmu-v3 .*F_TRANSLATION.*{}.*iova: 0x666000000\b")
    all_suites(guest, to, theirs)
    refused(visit)


def refused(visit):
    """When this fails, QEMU supports it: run the situation arm64-ours behind an SMMUv3, too."""
    to, device = visit.to, Server(visit.shop.args.build_dir, visit.machine.scratch, 3, [])
    visit.servers.append(device)
    monitor = visit.machine.monitor()
    taken, said = monitor.command("device_add", **plug(3, device))
    monitor.close()
    to.check(not taken and "MAP notifier" in said.get("desc", ""), "QEMU's SMMUv3 refuses devices of vfio-user", said)
