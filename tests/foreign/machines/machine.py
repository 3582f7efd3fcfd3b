# SPDX-License-Identifier: BSD-3-Clause
"""One machine: usdma-sim as its devices, QEMU of the second root, a kernel, an IOMMU of QEMU's, commands in it."""

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

# For each IOMMU: options of QEMU's machine, further words for QEMU, and for the kernel's command line.  VFIO requires that
# interrupts are remapped: the first two do, and the GIC of arm64.
IOMMUS = {
    "Intel": ("kernel-irqchip=split", ["-device", "intel-iommu,intremap=on,caching-mode=on"], "intel_iommu=on"),
    "AMD": ("kernel-irqchip=split", ["-device", "amd-iommu,intremap=on,dma-remap=on"], ""),
    "virtio": ("", ["-device", "virtio-iommu-pci"], ""),
    "SMMUv3": ("iommu=smmuv3", [], ""),
    "none": ("", [], ""),
}
BOOT_SECONDS = 240
# An emulated timer that is late, on a busy machine, is taken for a broken one.
CMDLINE = "no_timer_check"
QEMU_ABORTS = "memory_region_del_subregion: Assertion"
# What ends QEMU by its own fault, up to 11.1.3 at least (docs/devices.md).
QEMU_ENDS = {
    QEMU_ABORTS: "it aborts when it deletes such a device",
    "error_setv: Assertion": "it sets an error twice, and aborts, when such a device's server dies",
    "amdvi_notify_iommu: Assertion": "its AMD IOMMU aborts when Linux 7.3 gives pages back",
}
# Unmaps of what was never mapped, as QEMU says that when it waits for the answer, and when it does not.  The second of two maps.
KNOWN = re.compile(r"vfio_container_dma_map\(.*\) = -17 \(File exists\)$|"
                   r"vfio_container_dma_unmap\(.*\) = -2 \(No such file or directory\)$|"
                   r"vfio_user_(process:|wait_reqs -) error reply on async request:? command 3 error No such file or directory$|" + QEMU_ABORTS)

_running = []  # processes: machines and servers
_stop = threading.Event()


def stopping():
    return _stop.is_set()


def stop_all():
    """From a signal: what was started ends."""
    _stop.set()
    for process in list(_running):
        if process.poll() is None:
            process.kill()



def ports(count):
    """A port for each device: it is alone in its group then, and can be unplugged."""
    return [w for n in range(1, count + 1) for w in ("-device", f"pcie-root-port,id=port{n},chassis={n},slot={n}")]


def plug(number, server):
    return {"driver": "vfio-user-pci", "id": f"dev{number}", "bus": f"port{number}",
            "socket": {"type": "unix", "path": server.socket}}


def own_fault(log):
    """What of QEMU's own ended the machine, by its last words; None: nothing that is known."""
    return next((why for words, why in QEMU_ENDS.items() if words in log), None)


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
        """(worked, its answer); events in between are passed over."""
        self._file.write(json.dumps({"execute": name, **({"arguments": arguments} if arguments else {})}) + "\n")
        self._file.flush()
        for line in self._file:
            said = json.loads(line)
            if "return" in said or "error" in said:
                return "return" in said, said.get("return", said.get("error"))
        return False, "QEMU went away"

    def close(self):
        self._file.close()
        self._sock.close()


class Machine(guest.Guest):
    """A guest whose devices are software devices of ours."""

    def __init__(self, root, linux, initrd, scratch, servers, iommu, deadline, memory=2048, cpus=2, cmdline="", share=True, more=(), clock=None):
        arch, (options, words, kernel_words) = linux.arch, IOMMUS[iommu]
        command, env = arch.emulator(root)
        self.servers, self.iommu = servers, iommu
        self._qmp = os.path.join(scratch, "qmp")
        # Shared memory: the device reaches it by descriptor, which a guest in private memory has none of.
        backend = f"memory-backend-{'memfd,share=on' if share else 'ram'},id=ram,size={memory}M"
        devices = ["-machine", ",".join(w for w in (arch.machine, options, "memory-backend=ram") if w), *words, "-object", backend,
                   "-qmp", f"unix:{self._qmp},server=on,wait=off", *ports(len(servers)), *more]
        for n, s in enumerate(servers, 1):
            devices += ["-device", json.dumps(plug(n, s))]
        super().__init__(linux, initrd, scratch, devices, f"{CMDLINE} {kernel_words} {cmdline}", deadline, memory=memory,
                         clock=clock or ["-accel", "tcg,thread=multi", "-smp", str(cpus)], boot_seconds=BOOT_SECONDS, emulator=command, env=env,
                         cpu=arch.cpu, console=arch.console, patience=arch.patience)
        _running.append(self.process)

    def said(self, text, seconds):
        """What the console has said, once that text is in it, or after so long."""
        until = time.monotonic() + seconds
        while True:
            with open(os.path.join(self.scratch, "console.log"), encoding="utf-8", errors="replace") as f:
                lines = f.read()
            if text in lines or time.monotonic() > until or self.process.poll() is not None:
                return lines
            time.sleep(0.1)

    def complaints(self):
        """QEMU's, but for its unmaps of what was never mapped, its second maps, and its assertion (docs/devices.md)."""
        with open(os.path.join(self.scratch, "qemu.log"), encoding="utf-8", errors="replace") as f:
            return [line for line in f.read().splitlines() if line and not KNOWN.search(line)]

    def monitor(self):
        return Monitor(self._qmp)

    def kill(self):
        """As a crash of the emulator does it."""
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
