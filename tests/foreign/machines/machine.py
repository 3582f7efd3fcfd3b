# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine: QEMU of the second root with an emulated IOMMU, and usdma-sim processes as its devices."""

import json
import os
import re
import socket
import sys
import threading
import time

from machines.server import Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../vm"))
from guests import guest  # noqa: E402

# For each IOMMU: options of QEMU's machine, further options of QEMU, and of the kernel's command line.  VFIO requires that
# interrupts are remapped: the first two do, and the GIC of arm64.
IOMMUS = {
    "Intel": ("kernel-irqchip=split", ["-device", "intel-iommu,intremap=on,caching-mode=on"], "intel_iommu=on"),
    "AMD": ("kernel-irqchip=split", ["-device", "amd-iommu,intremap=on,dma-remap=on"], ""),
    "virtio": ("", ["-device", "virtio-iommu-pci"], ""),
    "SMMUv3": ("iommu=smmuv3", [], ""),
    "none": ("", [], ""),
}
BOOT_SECONDS = 240
# On a busy machine the emulated timer may be late; Linux would take it for broken.
CMDLINE = "no_timer_check"
QEMU_ABORTS = "memory_region_del_subregion: Assertion"
# Bugs of QEMU, up to 11.1.3 at least, that abort it (docs/devices.md).
QEMU_CRASHES = {
    QEMU_ABORTS: "it aborts when it deletes such a device",
    "error_setv: Assertion": "it sets an error twice, and aborts, when such a device's server dies",
    "amdvi_notify_iommu: Assertion": "its AMD IOMMU aborts when Linux 7.3 gives pages back",
}
# Messages about mapping a range twice, and about unmapping a range that was never mapped, by a synchronous or asynchronous request.
EXPECTED_MESSAGES = re.compile(r"vfio_container_dma_map\(.*\) = -17 \(File exists\)$|"
                               r"vfio_container_dma_unmap\(.*\) = -2 \(No such file or directory\)$|"
                               r"vfio_user_(process:|wait_reqs -) error reply on async request:? command 3 error No such file or directory$|" + QEMU_ABORTS)

_running = []  # processes: machines and servers
_stop = threading.Event()


def stopping():
    return _stop.is_set()


def stop_all():
    """Called by a signal handler: kills all machines and servers."""
    _stop.set()
    for process in list(_running):
        if process.poll() is None:
            process.kill()


def ports(count):
    """A root port for each device: it is alone in its IOMMU group then, and can be unplugged."""
    return [w for n in range(1, count + 1) for w in ("-device", f"pcie-root-port,id=port{n},chassis={n},slot={n}")]


def plug(number, server):
    return {"driver": "vfio-user-pci", "id": f"dev{number}", "bus": f"port{number}",
            "socket": {"type": "unix", "path": server.socket}}


def own_fault(log):
    """The bug of QEMU that aborted the machine, by the log; None: none of QEMU_CRASHES."""
    return next((why for words, why in QEMU_CRASHES.items() if words in log), None)


class Monitor:
    """QEMU's machine protocol (docs/interop/qmp-spec.rst there)."""

    def __init__(self, path):
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(30)
        self._sock.connect(path)
        self._file = self._sock.makefile("rw", encoding="utf-8")
        self._file.readline()
        self.command("qmp_capabilities")

    def command(self, name, **arguments):
        """(succeeded, reply); events before the reply are ignored."""
        self._file.write(json.dumps({"execute": name, **({"arguments": arguments} if arguments else {})}) + "\n")
        self._file.flush()
        for line in self._file:
            said = json.loads(line)
            if "return" in said or "error" in said:
                return "return" in said, said.get("return", said.get("error"))
        return False, "QEMU closed the connection"

    def close(self):
        self._file.close()
        self._sock.close()


class Machine(guest.Guest):
    """A guest whose devices are usdma-sim processes."""

    def __init__(self, root, linux, initrd, scratch, servers, iommu, deadline, memory=2048, cpus=2, cmdline="", share=True, more=(), clock=None):
        arch, (options, words, kernel_words) = linux.arch, IOMMUS[iommu]
        command, env = arch.emulator(root)
        self.servers, self.iommu = servers, iommu
        self._qmp = os.path.join(scratch, "qmp")
        # Shared memory: the device maps it. It reaches private memory by messages only.
        backend = f"memory-backend-{'memfd,share=on' if share else 'ram'},id=ram,size={memory}M"
        devices = ["-machine", ",".join(w for w in (arch.machine, options, "memory-backend=ram") if w), *words, "-object", backend,
                   "-qmp", f"unix:{self._qmp},server=on,wait=off", *ports(len(servers)), *more]
        for n, s in enumerate(servers, 1):
            devices += ["-device", json.dumps(plug(n, s))]
        super().__init__(linux, initrd, scratch, devices, f"{CMDLINE} {kernel_words} {cmdline}", deadline, memory=memory,
                         clock=clock or ["-accel", "tcg,thread=multi", "-smp", str(cpus)], boot_seconds=BOOT_SECONDS, emulator=command, env=env,
                         cpu=arch.cpu, console=arch.console, patience=arch.patience)
        _running.append(self.process)

    def wait_for_console(self, text, seconds):
        """Waits for a text on the console; returns the console's output, also after the timeout."""
        until = time.monotonic() + seconds
        while True:
            with open(os.path.join(self.scratch, "console.log"), encoding="utf-8", errors="replace") as f:
                lines = f.read()
            if text in lines or time.monotonic() > until or self.process.poll() is not None:
                return lines
            time.sleep(0.1)

    def complaints(self):
        """Lines of QEMU's log but for the expected messages (docs/devices.md)."""
        with open(os.path.join(self.scratch, "qemu.log"), encoding="utf-8", errors="replace") as f:
            return [line for line in f.read().splitlines() if line and not EXPECTED_MESSAGES.search(line)]

    def monitor(self):
        return Monitor(self._qmp)

    def kill(self):
        """Kills QEMU, like a crash."""
        self.process.kill()
        self.process.wait()


def start_servers(build_dir, folder, options):
    servers = []
    try:
        for n, o in enumerate(options, 1):
            servers.append(Server(build_dir, folder, n, o))
            _running.append(servers[-1].process)
    except BaseException:
        for s in servers:
            s.kill()
        raise
    return servers
