# SPDX-License-Identifier: BSD-3-Clause
"""
The vfio-user wire format, written from the specification (QEMU's docs/interop/vfio-user.rst) alone, without the driver's headers:
numbers at offsets, in the host's byte order.
"""

import socket
import struct

VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, REGION_INFO, REGION_IO_FDS, IRQ_INFO, SET_IRQS = range(1, 9)
REGION_READ, REGION_WRITE, DMA_READ, DMA_WRITE, RESET = range(9, 14)
WRITE_MULTI, FEATURE, MIG_READ, MIG_WRITE = range(15, 19)
NAMES = {VERSION: "VERSION", DMA_MAP: "DMA_MAP", DMA_UNMAP: "DMA_UNMAP", GET_INFO: "DEVICE_GET_INFO", REGION_INFO: "DEVICE_GET_REGION_INFO",
         REGION_IO_FDS: "DEVICE_GET_REGION_IO_FDS", IRQ_INFO: "DEVICE_GET_IRQ_INFO", SET_IRQS: "DEVICE_SET_IRQS", REGION_READ: "REGION_READ",
         REGION_WRITE: "REGION_WRITE", DMA_READ: "DMA_READ", DMA_WRITE: "DMA_WRITE", RESET: "DEVICE_RESET", WRITE_MULTI: "REGION_WRITE_MULTI",
         FEATURE: "DEVICE_FEATURE", MIG_READ: "MIG_DATA_READ", MIG_WRITE: "MIG_DATA_WRITE"}

HEAD = struct.Struct("=HHIII")  # message id, command, size with this header, flags, error
TYPE_MASK, COMMAND, REPLY, NO_REPLY, ERROR = 0xf, 0, 1, 1 << 4, 1 << 5

VERSION_HEAD = struct.Struct("=HH")       # major, minor; JSON
MAP = struct.Struct("=IIQQQ")             # argsz, flags, offset, address, size
UNMAP = struct.Struct("=IIQQ")            # argsz, flags, address, size
INFO = struct.Struct("=IIII")             # argsz, flags, num_regions, num_irqs
REGION = struct.Struct("=IIIIQQ")         # argsz, flags, index, cap_offset, size, offset
CAP = struct.Struct("=HHI")               # id, version, next
SPARSE = struct.Struct("=II")             # nr_areas, reserved
AREA = struct.Struct("=QQ")               # offset, size
IO_FDS = struct.Struct("=IIII")           # argsz, flags, index, count
IO_FD = struct.Struct("=QQIIIIQ")         # offset, size, fd_index, type, flags, padding, datamatch
IRQ = struct.Struct("=IIII")              # argsz, flags, index, count
IRQ_SET = struct.Struct("=IIIII")         # argsz, flags, index, start, count; booleans
ACCESS = struct.Struct("=QII")            # offset, region, count; data
DMA = struct.Struct("=QQ")                # address, count; data

DATA_NONE, DATA_BOOL, DATA_EVENTFD, MASK, UNMASK, TRIGGER = (1 << n for n in range(6))
REGION_R, REGION_W, REGION_MMAP, REGION_CAPS = (1 << n for n in range(4))
MSIX, CONFIG = 2, 7  # indexes of linux/vfio.h
MAX_FDS = 64


class Message:
    """One message with its descriptors."""

    def __init__(self, ident, command, flags=COMMAND, error=0, body=b"", fds=(), size=None):
        self.ident, self.command, self.flags, self.error, self.body, self.fds = ident, command, flags, error, body, list(fds)
        self.size = HEAD.size + len(body) if size is None else size

    @property
    def is_reply(self):
        return self.flags & TYPE_MASK == REPLY

    @property
    def failed(self):
        return bool(self.flags & ERROR)

    def pack(self):
        return HEAD.pack(self.ident, self.command, self.size, self.flags, self.error) + self.body

    def __str__(self):
        what = "reply to " if self.is_reply else ""
        return f"{what}{NAMES.get(self.command, self.command)} (id {self.ident}, {self.size} bytes, flags {self.flags:#x}, {len(self.fds)} fds)"


class Link:
    """A connection to the peer."""

    def __init__(self, sock):
        self.sock = sock

    def send(self, message):
        data = message.pack()
        sent = socket.send_fds(self.sock, [data], message.fds) if message.fds else self.sock.send(data)
        if sent < len(data):
            self.sock.sendall(data[sent:])

    def receive(self):
        """The next message; None: the connection was closed."""
        data, fds = b"", []
        while len(data) < HEAD.size:
            part, more, _, _ = socket.recv_fds(self.sock, HEAD.size - len(data), MAX_FDS)
            if not part:
                return None
            data, fds = data + part, fds + more
        ident, command, size, flags, error = HEAD.unpack(data)
        body = b""
        while len(body) < size - HEAD.size:
            part, more, _, _ = socket.recv_fds(self.sock, min(size - HEAD.size - len(body), 1 << 20), MAX_FDS)
            if not part:
                return None
            body, fds = body + part, fds + more
        return Message(ident, command, flags, error, body, fds, size)

    def close(self):
        self.sock.close()
