#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Checks usdma-sim against the rows of the vfio-user specification: every message, its limits and its errors, by a client that is
written from the specification alone.  TAP.

  server_test.py USDMA-SIM
"""

import errno
import json
import os
import select
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import wire as w  # noqa: E402
from auditor import Auditor  # noqa: E402
from proxy import Points, Server  # noqa: E402
from rows import ROWS  # noqa: E402

MEMORY = 16 << 20
OPTIONS = ("--mem", "16M", "--channels", "8", "--engines", "2")
CAPABILITIES = {"max_msg_fds": 16, "max_data_xfer_size": 1 << 20, "max_dma_maps": 65535, "pgsizes": 4096}


class Client:
    """Sends given commands, and checks the replies against the rows."""

    def __init__(self, server, negotiate=True, capabilities=CAPABILITIES):
        self.link, self.auditor, self.next = server.connect(), Auditor(), 1
        self.version = None
        if negotiate:
            self.version = self.send_version(0, 1, capabilities)

    def send_version(self, major, minor, capabilities):
        text = b"" if capabilities is None else json.dumps({"capabilities": capabilities}).encode() + b"\0"
        return self.request(w.VERSION, w.VERSION_HEAD.pack(major, minor) + text)

    def send(self, command, body=b"", fds=(), flags=w.COMMAND, audit=True):
        m = w.Message(self.next, command, flags, 0, body, fds)
        self.next += 1
        if audit:
            self.auditor.check_message("client", m)
        self.link.send(m)
        return m

    def receive(self):
        """The next reply; None: the server has closed the connection."""
        try:
            m = self.link.receive()
        except ConnectionResetError:
            return None
        if m is not None:
            self.auditor.check_message("server", m)
        return m

    def request(self, command, body=b"", fds=()):
        self.send(command, body, fds)
        return self.receive()

    def error(self, command, body=b"", fds=()):
        """The errno of the reply (0: success); -1: the connection was closed.  The command may violate any row."""
        m = w.Message(self.next, command, w.COMMAND, 0, body, fds)
        self.next += 1
        self.auditor.waiting["client"].append(m)
        self.link.send(m)
        got = self.receive()
        close_all(got)
        return -1 if got is None else got.error or errno.EIO if got.failed else 0

    def succeeds(self, command, body=b"", fds=()):
        """Sends a valid command; whether the reply is no error."""
        m = self.request(command, body, fds)
        close_all(m)
        return m is not None and not m.failed

    def close(self):
        self.link.close()


def close_all(m):
    for fd in m.fds if m else []:
        os.close(fd)


def memory(size=1 << 20, name="usdma-spec"):
    fd = os.memfd_create(name)
    os.ftruncate(fd, size)
    return fd


class Suite(Points):
    def __init__(self, program):
        self.server = Server(program, *OPTIONS)
        self.seen = set()

    def check(self, client, ok, row, name, detail=""):
        """A point for a row; it fails if the client's auditor has found a violation, too."""
        assert row in ROWS, row
        self.seen |= client.auditor.seen | {row}
        wrong, client.auditor.wrong = client.auditor.wrong, []
        self.add(ok and not wrong, f"{row}: {name}", f"{detail}\n{wrong}")

    def refused(self, client, row, cases):
        """Each (name, command, body, fds) must be answered by an error; the connection remains usable."""
        for name, command, body, *fds in cases:
            got = client.error(command, body, fds[0] if fds else ())
            self.check(client, got > 0, row, f"{name} is refused", got)
        self.check(client, client.succeeds(w.RESET), row, "the connection remains usable after that")


# ---- header, VERSION --------------------------------------------------------------------------------------


def header(s):
    c = Client(s.server)
    s.check(c, c.succeeds(w.RESET), "header.echo", "the reply has the id and the command")
    c.send(w.RESET, flags=w.NO_REPLY)
    m = c.request(w.RESET)
    s.check(c, m is not None and not m.failed and m.ident == c.next - 1, "header.no-reply", "the next reply is for the next command", m)
    first, second = c.send(w.RESET), c.send(w.GET_INFO, w.INFO.pack(w.INFO.size, 0, 0, 0))
    got = [c.receive().ident, c.receive().ident]
    s.check(c, got == [first.ident, second.ident], "header.order", "two pending commands are answered in order", got)
    for number in (0, 14, 19, 1000):
        s.check(c, c.error(number) > 0, "header.unknown", f"command {number} is answered by an error")
    # DMA_READ is a command of the server only.
    s.check(c, c.error(w.DMA_READ, w.DMA.pack(0, 16)) > 0, "header.unknown", "a command of the server is answered by an error")
    c.close()
    for size in (0, 8, 1 << 31):
        c = Client(s.server)
        c.link.send(w.Message(1, w.RESET, size=size))
        got = c.receive()
        s.check(c, got is None or got.failed, "header.size", f"a size of {size} is refused, or the connection is closed", got)
        c.close()
    c = Client(s.server)
    c.link.send(w.Message(1, w.RESET, flags=7))
    got = c.receive()
    s.check(c, got is None or got.failed, "header.type", "a message that is neither command nor reply is refused, or the connection is closed", got)
    c.close()


def version(s):
    c = Client(s.server)
    s.check(c, c.version is not None and not c.version.failed, "version.subset", "the reply names no more than was proposed")
    s.check(c, c.error(w.VERSION, w.VERSION_HEAD.pack(0, 1)) > 0, "version.first", "a second VERSION is refused")
    c.close()
    for less in ({}, {"max_msg_fds": 1}, {"max_data_xfer_size": 4096}, {"max_dma_maps": 16}, {"max_msg_fds": 1 << 20, "max_dma_maps": 1 << 40}):
        c = Client(s.server, capabilities=less)
        s.check(c, c.version is not None and not c.version.failed, "version.subset", f"a proposal of {less}")
        c.close()
    c = Client(s.server, negotiate=False)
    m = c.send_version(0, 0, None)
    s.check(c, not m.failed and w.VERSION_HEAD.unpack_from(m.body) == (0, 0), "version.minor", "minor 0 is answered by minor 0", m)
    s.check(c, c.succeeds(w.RESET), "version.defaults", "a client without JSON is served")
    c.close()
    c = Client(s.server, negotiate=False)
    m = c.send_version(0, 99, CAPABILITIES)
    s.check(c, not m.failed and w.VERSION_HEAD.unpack_from(m.body)[1] <= 99, "version.minor", "a newer minor is answered by one that the server supports", m)
    c.close()
    c = Client(s.server, negotiate=False)
    m = c.send_version(1, 0, CAPABILITIES)
    s.check(c, m is None or m.failed, "version.refused", "major version 1", m)
    c.close()
    for raw in (b"{", b"[]\0", b'{"capabilities":5}\0', b'{"capabilities":{"max_msg_fds":"x"}}\0', b"\xff\xfe\0", b'{"capabilities":{}}'):
        c = Client(s.server, negotiate=False)
        got = c.error(w.VERSION, w.VERSION_HEAD.pack(0, 1) + raw)
        s.check(c, got != 0, "version.bad-json", f"{raw!r} is refused, or the connection is closed", got)
        c.close()
    c = Client(s.server, negotiate=False)
    s.check(c, c.error(w.RESET) != 0, "version.first", "another command before VERSION is refused, or the connection is closed")
    c.close()


# ---- memory -----------------------------------------------------------------------------------------------


def dma_map(s):
    c, fd = Client(s.server), memory()
    good = (w.MAP.size, 3, 0, 0x100000, 0x10000)

    def body(**change):
        names = ("argsz", "flags", "offset", "address", "size")
        return w.MAP.pack(*(change.get(n, v) for n, v in zip(names, good)))

    s.check(c, c.succeeds(w.DMA_MAP, body(), [fd]), "map.reply", "an area of a file")
    s.check(c, c.succeeds(w.DMA_MAP, body(address=0x200000)), "map.descriptor", "an area without a descriptor")
    s.check(c, c.succeeds(w.DMA_MAP, body(address=0x300000, flags=1), [fd]), "map.flags", "readable only")
    s.check(c, c.succeeds(w.DMA_MAP, body(address=0x400000, flags=2), [fd]), "map.flags", "writeable only")
    for name, at in (("the same", 0x100000), ("its end", 0x10f000), ("its begin", 0xf8000)):
        s.check(c, c.error(w.DMA_MAP, body(address=at), [fd]) == errno.EEXIST, "map.exists", f"over {name}")
    s.refused(c, "map.limits", [
        ("no flags", w.DMA_MAP, body(flags=0, address=0x800000), [fd]),
        ("an unknown flag", w.DMA_MAP, body(flags=8, address=0x800000), [fd]),
        ("a size of 0", w.DMA_MAP, body(size=0, address=0x800000), [fd]),
        ("half a page", w.DMA_MAP, body(size=0x800, address=0x800000), [fd]),
        ("an address within a page", w.DMA_MAP, body(address=0x800010), [fd]),
        ("an offset within a page", w.DMA_MAP, body(address=0x800000, offset=8), [fd]),
        ("more than the file has", w.DMA_MAP, body(address=0x800000, size=2 << 20), [fd]),
        ("beyond the file", w.DMA_MAP, body(address=0x800000, offset=1 << 20), [fd]),
        ("an address that overflows", w.DMA_MAP, body(address=(1 << 64) - 0x1000), [fd]),
        ("an offset that overflows", w.DMA_MAP, body(address=0x800000, offset=(1 << 64) - 0x1000), [fd]),
        ("two descriptors", w.DMA_MAP, body(address=0x800000), [fd, fd]),
        ("a short payload", w.DMA_MAP, body(address=0x800000)[:20], [fd]),
        ("an argsz that is too small", w.DMA_MAP, body(address=0x800000, argsz=16), [fd])])
    os.close(fd)
    c.close()


def processes_with(name):
    """The other processes that have a file of this name mapped."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as f:
                if int(pid) != os.getpid() and name in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def dma_unmap(s):
    name = f"usdma-spec-{os.getpid()}"
    c, fd = Client(s.server), memory(name=name)
    at, size = 0x100000, 0x100000
    s.check(c, not c.request(w.DMA_MAP, w.MAP.pack(w.MAP.size, 3, 0, at, size), [fd]).failed and processes_with(name), "map.descriptor",
            "the server has the memory mapped")
    m = c.request(w.DMA_UNMAP, w.UNMAP.pack(w.UNMAP.size, 0, at, size))
    s.check(c, not m.failed, "unmap.reply", "what was mapped", m)
    s.check(c, not processes_with(name), "unmap.released", "the server has unmapped it", processes_with(name))
    s.check(c, c.error(w.DMA_UNMAP, w.UNMAP.pack(w.UNMAP.size, 0, at, size)) > 0, "unmap.unknown", "twice")
    c.request(w.DMA_MAP, w.MAP.pack(w.MAP.size, 3, 0, at, size), [fd])
    s.refused(c, "unmap.unknown", [
        ("another address", w.DMA_UNMAP, w.UNMAP.pack(w.UNMAP.size, 0, 0x900000, size)),
        ("a part", w.DMA_UNMAP, w.UNMAP.pack(w.UNMAP.size, 0, at, 0x1000)),
        ("a part of it and more", w.DMA_UNMAP, w.UNMAP.pack(w.UNMAP.size, 0, at + 0x80000, size))])
    s.check(c, c.error(w.DMA_MAP, w.MAP.pack(w.MAP.size, 3, 0, at, size), [fd]) == errno.EEXIST, "unmap.unknown", "the area is still mapped")
    s.refused(c, "unmap.layout", [
        ("a short payload", w.DMA_UNMAP, w.UNMAP.pack(w.UNMAP.size, 0, at, size)[:16]),
        ("an argsz that is too small", w.DMA_UNMAP, w.UNMAP.pack(8, 0, at, size))])
    os.close(fd)
    c.close()


# ---- the device -------------------------------------------------------------------------------------------


def info(s):
    c = Client(s.server)
    m = c.request(w.GET_INFO, w.INFO.pack(w.INFO.size, 0, 0, 0))
    s.check(c, m is not None and not m.failed, "info.reply", "it is a PCI device", m)
    s.refused(c, "info.limits", [("an argsz of 8", w.GET_INFO, w.INFO.pack(8, 0, 0, 0)), ("a short payload", w.GET_INFO, b"\x10\0\0\0")])
    regions = w.INFO.unpack(m.body)[2]
    for index in range(regions):
        for argsz in (w.REGION.size, 4096):
            r = c.request(w.REGION_INFO, w.REGION.pack(argsz, 0, index, 0, 0, 0))
            s.check(c, r is not None and not r.failed, "region.reply", f"region {index}, argsz {argsz}", r)
            close_all(r)
    s.refused(c, "region.limits", [("an invalid index", w.REGION_INFO, w.REGION.pack(4096, 0, regions, 0, 0, 0)),
                                   ("an argsz of 16", w.REGION_INFO, w.REGION.pack(16, 0, 0, 0, 0, 0)),
                                   ("a short payload", w.REGION_INFO, b"\0" * 8)])
    for index in range(w.INFO.unpack(m.body)[3]):
        r = c.request(w.IRQ_INFO, w.IRQ.pack(w.IRQ.size, 0, index, 0))
        s.check(c, r is not None and not r.failed, "irq.reply", f"interrupts {index}", r)
    s.refused(c, "irq.limits", [("an invalid index", w.IRQ_INFO, w.IRQ.pack(w.IRQ.size, 0, 99, 0)),
                                ("an argsz of 8", w.IRQ_INFO, w.IRQ.pack(8, 0, 0, 0)), ("a short payload", w.IRQ_INFO, b"\0" * 4)])
    c.close()


def io_fds(s):
    for fds, argsz in ((16, 4096), (1, 4096), (16, w.IO_FDS.size + 40), (16, w.IO_FDS.size)):
        c = Client(s.server, capabilities={"max_msg_fds": fds})
        m = c.request(w.REGION_IO_FDS, w.IO_FDS.pack(argsz, 0, 0, 0))
        s.check(c, m is not None and not m.failed, "io-fds.reply", f"space for {fds} descriptors and {argsz} bytes", m)
        close_all(m)
        c.close()
    c = Client(s.server)
    s.refused(c, "io-fds.limits", [("an invalid index", w.REGION_IO_FDS, w.IO_FDS.pack(4096, 0, 99, 0)),
                                   ("flags", w.REGION_IO_FDS, w.IO_FDS.pack(4096, 1, 0, 0)),
                                   ("an argsz of 8", w.REGION_IO_FDS, w.IO_FDS.pack(8, 0, 0, 0)),
                                   ("a short payload", w.REGION_IO_FDS, b"\0" * 8)])
    c.close()


def readable(fd, seconds=5):
    return bool(select.select([fd], [], [], seconds)[0]) and os.eventfd_read(fd) > 0


def set_irqs(s):
    c, ev, other, file = Client(s.server), os.eventfd(0, os.EFD_NONBLOCK), os.eventfd(0, os.EFD_NONBLOCK), memory()
    count = w.IRQ.unpack(c.request(w.IRQ_INFO, w.IRQ.pack(w.IRQ.size, 0, w.MSIX, 0)).body)[3]

    def body(data, action, start, n, tail=b"", argsz=None, index=w.MSIX):
        return w.IRQ_SET.pack(w.IRQ_SET.size + len(tail) if argsz is None else argsz, data | action, index, start, n) + tail

    s.check(c, c.succeeds(w.SET_IRQS, body(w.DATA_EVENTFD, w.TRIGGER, 0, 2), [ev, other]), "set-irqs.eventfds", "two at once")
    s.check(c, c.succeeds(w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER, 0, 1)) and readable(ev), "set-irqs.trigger", "triggered without data")
    s.check(c, not readable(other, 0), "set-irqs.trigger", "only that interrupt is raised")
    s.check(c, c.succeeds(w.SET_IRQS, body(w.DATA_BOOL, w.TRIGGER, 0, 2, b"\0\1")) and readable(other) and not readable(ev, 0), "set-irqs.bools",
            "triggered by booleans: only the one that is true")
    s.check(c, c.succeeds(w.RESET) and c.succeeds(w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER, 0, 1)) and readable(ev), "reset.keeps",
            "after a reset the interrupt still reaches its eventfd")
    s.check(c, c.succeeds(w.SET_IRQS, body(w.DATA_EVENTFD, w.TRIGGER, 0, 1)), "set-irqs.eventfds", "without a descriptor: it is disabled")
    c.error(w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER, 0, 2))
    s.check(c, not readable(ev, 0) and readable(other), "set-irqs.eventfds", "then only the other one is raised")
    s.check(c, c.succeeds(w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER, 0, 0)), "set-irqs.disable", "all of the index")
    c.error(w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER, 0, 2))
    s.check(c, not readable(ev, 0) and not readable(other, 0), "set-irqs.disable", "then none is raised")
    s.refused(c, "set-irqs.limits", [
        ("beyond the last", w.SET_IRQS, body(w.DATA_EVENTFD, w.TRIGGER, count, 1), [ev]),
        ("more than there are", w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER, 0, count + 1)),
        ("a sum that overflows", w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER, (1 << 32) - 1, 2)),
        ("an invalid index", w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER, 0, 1, index=99)),
        ("a file that is no eventfd", w.SET_IRQS, body(w.DATA_EVENTFD, w.TRIGGER, 0, 1), [file]),
        ("fewer eventfds than its count", w.SET_IRQS, body(w.DATA_EVENTFD, w.TRIGGER, 0, 2), [ev]),
        ("two data flags", w.SET_IRQS, body(w.DATA_EVENTFD | w.DATA_NONE, w.TRIGGER, 0, 1), [ev]),
        ("no data flag", w.SET_IRQS, body(0, w.TRIGGER, 0, 1)),
        ("no action", w.SET_IRQS, body(w.DATA_NONE, 0, 0, 1)),
        ("two actions", w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER | w.MASK, 0, 1)),
        ("fewer booleans than its count", w.SET_IRQS, body(w.DATA_BOOL, w.TRIGGER, 0, 2, b"\1")),
        ("a short payload", w.SET_IRQS, body(w.DATA_NONE, w.TRIGGER, 0, 1)[:12])])
    for fd in (ev, other, file):
        os.close(fd)
    c.close()


# ---- accesses ---------------------------------------------------------------------------------------------


def accesses(s):
    c = Client(s.server)
    data = os.urandom(4096)
    m = c.request(w.REGION_READ, w.ACCESS.pack(0, w.CONFIG, 4))
    s.check(c, m is not None and not m.failed and m.body[16:] != b"\xff" * 4, "access.read", "configuration space names the device", m)
    m = c.request(w.REGION_WRITE, w.ACCESS.pack(8192, 2, len(data)) + data)
    s.check(c, m is not None and not m.failed, "access.write", "into a region that can be mapped", m)
    m = c.request(w.REGION_READ, w.ACCESS.pack(8192, 2, len(data)))
    s.check(c, m is not None and m.body[16:] == data, "access.mappable", "the written data is read", m)
    region = c.request(w.REGION_INFO, w.REGION.pack(4096, 0, 2, 0, 0, 0))
    offset = w.REGION.unpack_from(region.body)[5]
    s.check(c, os.pread(region.fds[0], len(data), offset + 8192) == data, "access.mappable", "the written data is in the file that can be mapped")
    close_all(region)
    s.refused(c, "access.limits", [
        ("a read beyond the region", w.REGION_READ, w.ACCESS.pack(MEMORY - 4, 2, 8)),
        ("an offset that overflows", w.REGION_READ, w.ACCESS.pack((1 << 64) - 4, 2, 8)),
        ("an invalid region index", w.REGION_READ, w.ACCESS.pack(0, 99, 4)),
        ("a region of no bytes", w.REGION_READ, w.ACCESS.pack(0, 1, 4)),
        ("a read that is too long", w.REGION_READ, w.ACCESS.pack(0, 2, (1 << 20) + 1)),
        ("a write with less data than its count", w.REGION_WRITE, w.ACCESS.pack(0, 2, 8) + b"\0" * 4),
        ("a write with more data than its count", w.REGION_WRITE, w.ACCESS.pack(0, 2, 4) + b"\0" * 8),
        ("a write beyond the region", w.REGION_WRITE, w.ACCESS.pack(MEMORY - 4, 2, 8) + b"\0" * 8),
        ("a read with data", w.REGION_READ, w.ACCESS.pack(0, 2, 8) + b"\0" * 8),
        ("a short payload", w.REGION_READ, b"\0" * 8)])
    s.check(c, c.error(w.RESET, b"x") > 0, "reset.empty", "a reset with a payload is refused")
    c.close()


def optional(s):
    c = Client(s.server)
    write = w.DMA.pack(1, 0)[:8] + w.ACCESS.pack(8192, 2, 8) + b"\0" * 8
    s.check(c, c.error(w.WRITE_MULTI, write) > 0, "optional.refused", "REGION_WRITE_MULTI that was not agreed on")
    for name, command in (("DEVICE_FEATURE", w.FEATURE), ("MIG_DATA_READ", w.MIG_READ), ("MIG_DATA_WRITE", w.MIG_WRITE)):
        s.check(c, c.error(command, b"\x10\0\0\0\1\0\1\0") > 0, "optional.refused", f"{name}, which this server does not support")
    c.close()
    c = Client(s.server, capabilities={**CAPABILITIES, "twin_socket": {"supported": True}, "write_multiple": True})
    s.check(c, c.version is not None and not c.version.failed, "optional.agreed", "both offered: the reply has no unneeded capabilities")
    close_all(c.version)
    c.close()


def end(s):
    name = f"usdma-spec-end-{os.getpid()}"
    c, fd, ev = Client(s.server), memory(name=name), os.eventfd(0, os.EFD_NONBLOCK)
    c.request(w.DMA_MAP, w.MAP.pack(w.MAP.size, 3, 0, 0x100000, 0x10000), [fd])
    c.error(w.SET_IRQS, w.IRQ_SET.pack(w.IRQ_SET.size, w.DATA_EVENTFD | w.TRIGGER, w.MSIX, 0, 1), [ev])
    c.close()
    n = Client(s.server)
    s.check(n, n.version is not None and not n.version.failed, "end.next", "the next client is served")
    s.check(n, not processes_with(name), "end.next", "the memory of the previous client is mapped nowhere", processes_with(name))
    n.error(w.SET_IRQS, w.IRQ_SET.pack(w.IRQ_SET.size, w.DATA_NONE | w.TRIGGER, w.MSIX, 0, 1))
    s.check(n, not readable(ev, 0), "end.next", "the previous client's eventfd is not raised")
    n.close()
    os.close(fd)
    os.close(ev)


# Rows that this client cannot cause; audit_test.py checks them.
IN_AUDIT_TEST = {"dma.read", "dma.write", "dma.mapped", "dma.no-descriptor"}


def main():
    s = Suite(sys.argv[1])
    for test in (header, version, dma_map, dma_unmap, info, io_fds, set_irqs, accesses, optional, end):
        test(s)
    s.add(s.server.process.poll() is None and s.server.stop(), "the server still runs, and exits with status 0 on SIGTERM")
    left = set(ROWS) - s.seen - IN_AUDIT_TEST
    s.add(not left, "every row was checked", ", ".join(sorted(left)))
    return s.end()


if __name__ == "__main__":
    sys.exit(main())
