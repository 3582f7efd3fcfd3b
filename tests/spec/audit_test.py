#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks this project's client and server against the rows of the vfio-user specification: programs cause traffic, and a proxy
between both sides checks every message.  Then deliberate violations, one a run: each is detected, and the receiver does not
accept it.  TAP.

  audit_test.py USDMA-SIM USDMACTL PROGRAM...
"""

import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire as w  # noqa: E402
from proxy import Points, Proxy, Server  # noqa: E402
from rows import ROWS  # noqa: E402

OPTIONS = ("--mem", "256M", "--channels", "16", "--engines", "2", "--rate", "512M")
SECONDS = 120
# Rows about requests that must be refused: no valid client causes them.  server_test.py checks them.
IN_SERVER_TEST = {r for r in ROWS if r.endswith((".limits", ".unknown", ".refused", ".bad-json", ".exists"))} | \
    {"unmap.released", "header.no-reply", "set-irqs.bools", "set-irqs.trigger", "set-irqs.disable", "access.mappable", "reset.keeps", "reset.empty",
     "end.next", "header.order", "version.defaults"}


class Suite(Points):
    def __init__(self, program, ctl):
        self.program, self.ctl, self.seen = program, ctl, set()

    def session(self, command, change=None, env=None):
        """Runs a command on a server behind a proxy: (its exit status, its output, the proxy)."""
        server = Server(self.program, *OPTIONS)
        proxy = Proxy(server, change)
        device = f"vfio-user:{proxy.path}"
        try:
            p = subprocess.run([device if word == "DEVICE" else word for word in command], capture_output=True, text=True, timeout=SECONDS,
                               check=False, env={**os.environ, "USDMA_DEVICES": device, **(env or {})})
            status, output = p.returncode, p.stdout + p.stderr
        except subprocess.TimeoutExpired:
            status, output = None, "hangs"
        proxy.stop()
        alive = server.process.poll() is None
        if not (server.stop() and alive):
            status, output = None, f"usdma-sim has exited early\n{output}"
        self.seen |= proxy.auditor.seen
        return status, output, proxy

    def selftest(self, change=None, env=None):
        return self.session([self.ctl, "selftest", "DEVICE", "--size", "256K"], change, env)

    def expect_conforming(self, name, result):
        status, output, proxy = result
        self.add(status == 0, f"{name}: exit status 0", f"status {status}\n{output}")
        wrong = proxy.auditor.wrong
        self.add(not wrong and proxy.count > 50, f"{name}: {proxy.count} messages, no row violated", "\n".join(map(str, wrong[:10])))


def change_reply(command, edit):
    """Applies edit(message) to the server's successful replies to a command."""
    def change(side, m):
        if side == "server" and m.is_reply and not m.failed and m.command == command:
            edit(m)
            m.size = w.HEAD.size + len(m.body)
    return change


def change_command(command, edit):
    def change(side, m):
        if side == "client" and not m.is_reply and m.command == command:
            edit(m)
            m.size = w.HEAD.size + len(m.body)
    return change


def server_capabilities(**capabilities):
    """The server's VERSION reply has these capabilities."""
    def edit(m):
        m.body = m.body[:4] + json.dumps({"capabilities": capabilities}).encode() + b"\0"
    return change_reply(w.VERSION, edit)


def without_descriptors(side, m):
    """Removes the file of large areas: the server accesses them by messages."""
    if side == "client" and not m.is_reply and m.command == w.DMA_MAP and w.MAP.unpack(m.body)[4] >= 1 << 20:
        argsz, flags, _, address, size = w.MAP.unpack(m.body)
        m.body, m.fds = w.MAP.pack(argsz, flags, 0, address, size), []


def firmware(s):
    """Without firmware the client assigns BARs and enables memory space: some servers answer no register before."""
    seen = []

    def note(side, m):
        if side == "client" and not m.is_reply and m.command in (w.REGION_READ, w.REGION_WRITE):
            offset, region, _ = w.ACCESS.unpack_from(m.body)
            seen.append((m.command, region, offset, m.body[w.ACCESS.size:]))

    s.expect_conforming("a device without firmware", s.selftest(note))
    enabled = next((i for i, (command, region, offset, data) in enumerate(seen)
               if command == w.REGION_WRITE and (region, offset) == (w.CONFIG, 4) and data[0] & 2), len(seen))
    registers = next((i for i, (_, region, _, _) in enumerate(seen) if region == 0), len(seen))
    bars = {offset for command, region, offset, data in seen[:enabled] if command == w.REGION_WRITE and region == w.CONFIG and any(data)}
    s.add(enabled < registers and {0x10, 0x20} <= bars, "BARs get addresses and memory space is enabled before the first register access", seen[:12])


# ---- violations -------------------------------------------------------------------------------------------


def minor_above(m):
    m.body = w.VERSION_HEAD.pack(0, 99) + m.body[4:]


def capabilities_above(m):
    m.body = m.body[:4] + json.dumps({"capabilities": {"max_msg_fds": 1 << 20}}).encode() + b"\0"


def another_id(m):
    m.ident ^= 0x4000


def another_region(m):
    m.body = m.body[:8] + (5).to_bytes(4, sys.byteorder) + m.body[12:]


def no_descriptor(m):
    m.fds = []


def short(m):
    m.body = m.body[:-1]


def doorbell_beyond(m):
    m.body = m.body[:w.IO_FDS.size] + (1 << 60).to_bytes(8, sys.byteorder) + m.body[w.IO_FDS.size + 8:]


def error_with_body(m):
    m.flags |= w.ERROR


def wrong_argsz(m):
    m.body = (4).to_bytes(4, sys.byteorder) + m.body[4:]


def half(m):
    argsz, flags, address, size = w.UNMAP.unpack(m.body)
    m.body = w.UNMAP.pack(argsz, flags, address, size // 2)


def both_actions(m):
    flags = w.IRQ_SET.unpack_from(m.body)[1]
    m.body = m.body[:4] + (flags | w.MASK).to_bytes(4, sys.byteorder) + m.body[8:]


# The violation and the messages it modifies, the row that it violates, and whether the program still succeeds (None: either).
VIOLATIONS = (
    ("a reply of a minor version that is too new", change_reply(w.VERSION, minor_above), "version.minor", False),
    ("a capability above what was proposed", change_reply(w.VERSION, capabilities_above), "version.subset", None),
    ("a reply with another id", change_reply(w.GET_INFO, another_id), "header.echo", False),
    ("an error with a payload", change_reply(w.GET_INFO, error_with_body), "header.error-alone", False),
    ("a region of another index", change_reply(w.REGION_INFO, another_region), "region.reply", False),
    ("a region to map without a descriptor", change_reply(w.REGION_INFO, no_descriptor), "region.mmap", None),
    ("a read that is short by a byte", change_reply(w.REGION_READ, short), "access.read", False),
    ("a doorbell beyond its region", change_reply(w.REGION_IO_FDS, doorbell_beyond), "io-fds.entry", None),
    ("DMA_MAP with a wrong argsz", change_command(w.DMA_MAP, wrong_argsz), "map.layout", False),
    ("SET_IRQS with two actions", change_command(w.SET_IRQS, both_actions), "set-irqs.flags", False),
    ("DMA_UNMAP of a half", change_command(w.DMA_UNMAP, half), "unmap.exact", None))


def main():
    s = Suite(sys.argv[1], sys.argv[2])
    s.expect_conforming("selftest", s.selftest())
    for program in sys.argv[3:]:
        s.expect_conforming(os.path.basename(program), s.session([program], env={"CMOCKA_MESSAGE_OUTPUT": "TAP"}))
    firmware(s)
    s.expect_conforming("a server that takes one descriptor a message", s.selftest(server_capabilities(max_msg_fds=1, max_data_xfer_size=1 << 20)))
    s.expect_conforming("a server that takes 4 KiB an access", s.selftest(server_capabilities(max_msg_fds=16, max_data_xfer_size=4096)))
    s.expect_conforming("a server without capabilities", s.selftest(server_capabilities()))
    s.expect_conforming("memory without descriptors", s.selftest(without_descriptors))
    s.add(not set(ROWS) - s.seen - IN_SERVER_TEST, "every row of traffic was checked", ", ".join(sorted(set(ROWS) - s.seen - IN_SERVER_TEST)))
    for name, change, row, good in VIOLATIONS:
        status, output, proxy = s.selftest(change)
        s.add(row in {r for r, _ in proxy.auditor.wrong}, f"{name}: detected as {row}", proxy.auditor.wrong[:5])
        s.add(status in ((0, 1) if good is None else (0,) if good else (1,)), f"{name}: the receiver does not accept it, and nothing hangs",
              f"status {status}\n{output}")
    return s.end()


if __name__ == "__main__":
    sys.exit(main())
