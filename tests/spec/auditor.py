# SPDX-License-Identifier: BSD-3-Clause
"""Checks each message of both sides against the rows; saves what earlier messages negotiated."""

import json
import os
import stat

import wire as w
from rows import ROWS

PAGE = 4096
DEFAULTS = {"max_msg_fds": 1, "max_data_xfer_size": 1 << 20, "max_dma_maps": 65535, "pgsizes": PAGE}
ARGSZ_REPLIES = (w.GET_INFO, w.REGION_INFO, w.REGION_IO_FDS, w.IRQ_INFO)
# Messages that may carry descriptors: commands of the client, replies of the server.
WITH_FDS = {("client", w.DMA_MAP), ("client", w.SET_IRQS), ("server", w.REGION_INFO), ("server", w.REGION_IO_FDS), ("server", w.VERSION)}


class Auditor:
    def __init__(self):
        self.seen, self.wrong = set(), []
        self.waiting = {"client": [], "server": []}  # commands without a reply yet, by sender
        self.capabilities = {"client": None, "server": None}
        self.maps, self.regions, self.irqs = {}, {}, {}

    def row(self, name, ok, detail=""):
        assert name in ROWS, name
        self.seen.add(name)
        if not ok:
            self.wrong.append((name, detail))
        return bool(ok)

    def limit(self, side, name):
        return (self.capabilities[side] or {}).get(name, DEFAULTS[name])

    def check_message(self, side, m):
        """side: the sender."""
        self.row("header.size", m.size == w.HEAD.size + len(m.body), m)
        self.row("header.type", m.flags & w.TYPE_MASK in (w.COMMAND, w.REPLY), m)
        other = "server" if side == "client" else "client"
        if self.capabilities[other] is not None:
            self.row("version.max-msg-fds", len(m.fds) <= self.limit(other, "max_msg_fds"), m)
        if m.is_reply:
            self._reply(side, other, m)
        else:
            self._command(side, m)

    def _command(self, side, m):
        self.row("header.error-reserved", m.error == 0, m)
        self.row("header.descriptors", not m.fds or (side, m.command) in WITH_FDS, m)
        if side == "client":
            first = self.capabilities["client"] is None
            self.row("version.first", (m.command == w.VERSION) == first, m)
        if not m.flags & w.NO_REPLY:
            self.waiting[side].append(m)
        check = getattr(self, f"_{side}_{w.NAMES.get(m.command, '').lower()}", None)
        if check:
            check(m)
        else:
            self.row("optional.agreed", m.command not in (w.WRITE_MULTI,), m)

    def _reply(self, side, other, m):
        at = next((i for i, c in enumerate(self.waiting[other]) if (c.ident, c.command) == (m.ident, m.command)), None)
        if not self.row("header.echo", at is not None, m):
            return
        if side == "server":
            self.row("header.order", at == 0, m)
        request = self.waiting[other].pop(at)
        self.row("header.error-alone", not m.failed or not m.body, m)
        self.row("header.descriptors", not m.fds or (side, m.command) in WITH_FDS, m)
        check = getattr(self, f"_{side}_answers_{w.NAMES.get(m.command, '').lower()}", None)
        if check:
            check(request, m)

    # ---- VERSION ------------------------------------------------------------------------------------------

    def _capabilities(self, m):
        """{} where there are none; None: invalid."""
        if len(m.body) == w.VERSION_HEAD.size:
            return {}
        text = m.body[w.VERSION_HEAD.size:]
        try:
            parsed = json.loads(text[:-1].decode("utf-8"))
            ok = text[-1:] == b"\0" and isinstance(parsed, dict) and isinstance(parsed.get("capabilities", {}), dict)
        except (ValueError, UnicodeDecodeError):
            ok = False
        self.row("version.json", ok, text)
        return parsed.get("capabilities", {}) if ok else None

    def _client_version(self, m):
        self.row("version.json", len(m.body) >= w.VERSION_HEAD.size, m)
        self.capabilities["client"] = self._capabilities(m) or {}

    def _server_answers_version(self, request, m):
        if m.failed:
            self.capabilities["client"] = None
            return
        proposed, got = w.VERSION_HEAD.unpack_from(request.body), w.VERSION_HEAD.unpack_from(m.body)
        self.row("version.major", got[0] == proposed[0], (proposed, got))
        self.row("version.minor", got[1] <= proposed[1], (proposed, got))
        self.capabilities["client"] = self.capabilities["client"] or {}
        self.capabilities["server"] = self._capabilities(m) or {}
        for name, value in self.capabilities["server"].items():
            is_valid = name in self.capabilities["client"] or name in DEFAULTS
            self.row("version.subset", is_valid and (name not in DEFAULTS or name == "pgsizes" or value <= self.limit("client", name)),
                     (name, value, self.capabilities["client"]))
        twin = self.capabilities["server"].get("twin_socket", {}).get("supported", False)
        self.row("optional.agreed", not twin or self.capabilities["client"].get("twin_socket", {}).get("supported", False), m)

    # ---- memory -------------------------------------------------------------------------------------------

    def _client_dma_map(self, m):
        if not self.row("map.layout", len(m.body) == w.MAP.size and w.MAP.unpack(m.body)[0] == w.MAP.size, m):
            return
        _, flags, offset, address, size = w.MAP.unpack(m.body)
        self.row("map.flags", flags in (1, 2, 3), flags)
        self.row("map.pages", size and not (address | size | offset) % PAGE, (address, size, offset))
        self.row("map.descriptor", len(m.fds) == 1 or (not m.fds and not offset), m)

    def _server_answers_dma_map(self, request, m):
        if m.failed:
            return
        _, flags, _, address, size = w.MAP.unpack(request.body)
        self.row("map.reply", not m.body, m)
        over = [a for a, (n, _, _) in self.maps.items() if a < address + size and address < a + n]
        self.row("map.exists", not over, (address, size))
        self.maps[address] = (size, flags, bool(request.fds))
        self.row("version.max-dma-maps", len(self.maps) <= self.limit("server", "max_dma_maps"), len(self.maps))

    def _client_dma_unmap(self, m):
        if not self.row("unmap.layout", len(m.body) == w.UNMAP.size and w.UNMAP.unpack(m.body)[0] >= w.UNMAP.size
                        and w.UNMAP.unpack(m.body)[1] == 0, m):
            return
        _, _, address, size = w.UNMAP.unpack(m.body)
        self.row("unmap.exact", self.maps.get(address, (0,))[0] == size, (hex(address), hex(size)))

    def _server_answers_dma_unmap(self, request, m):
        if m.failed or not self.row("unmap.reply", len(request.body) >= w.UNMAP.size, request):
            return
        _, _, address, size = w.UNMAP.unpack_from(request.body)
        self.row("unmap.reply", m.body == request.body, m)
        self.maps = {a: v for a, v in self.maps.items() if not (address <= a and a + v[0] <= address + size)}

    # ---- the device ---------------------------------------------------------------------------------------

    def _client_device_get_info(self, m):
        self.row("info.request", len(m.body) >= w.INFO.size and w.INFO.unpack_from(m.body)[0] >= w.INFO.size
                 and not any(m.body[4:]), m.body)

    def _server_answers_device_get_info(self, _request, m):
        if m.failed:
            return
        ok = len(m.body) == w.INFO.size
        argsz, flags, regions, irqs = w.INFO.unpack(m.body) if ok else (0, 0, 0, 0)
        self.row("info.reply", ok and argsz == w.INFO.size and flags & 2 and not flags & ~3 and regions >= 9 and irqs >= 5, m.body)

    def _client_device_get_region_info(self, m):
        ok = len(m.body) >= w.REGION.size
        argsz, flags, _, caps, size, offset = w.REGION.unpack_from(m.body) if ok else (0, 1, 0, 0, 0, 0)
        self.row("region.request", ok and argsz >= w.REGION.size and not flags | caps | size | offset, m.body)

    def _server_answers_device_get_region_info(self, request, m):
        if m.failed:
            return
        wanted, _, index, _, _, _ = w.REGION.unpack_from(request.body)
        argsz, flags, got, cap, size, offset = w.REGION.unpack_from(m.body)
        self.row("region.reply", got == index and not flags & ~15, m.body)
        whole = argsz <= wanted
        self.row("region.argsz", len(m.body) == argsz if whole else len(m.body) <= wanted, (wanted, argsz, len(m.body)))
        self.row("region.mmap", len(m.fds) == (1 if flags & w.REGION_MMAP else 0), (flags, len(m.fds)))
        self.row("region.caps", bool(flags & w.REGION_CAPS) == (cap != 0) and (not cap or w.REGION.size <= cap <= len(m.body) - w.CAP.size),
                 (flags, cap))
        if m.fds:
            st = os.fstat(m.fds[0])
            self.row("region.file", not stat.S_ISREG(st.st_mode) or offset + self._mapped_end(m, cap, size) <= st.st_size, (offset, size, st.st_size))
        self.regions[index] = size
        self._sparse(m, cap, size)

    @staticmethod
    def _areas(m, cap):
        """(version, areas) of the sparse mmap capability; None: there is none."""
        while cap and cap + w.CAP.size + w.SPARSE.size <= len(m.body):
            ident, version, following = w.CAP.unpack_from(m.body, cap)
            if ident == 1:
                count, _ = w.SPARSE.unpack_from(m.body, cap + w.CAP.size)
                first = cap + w.CAP.size + w.SPARSE.size
                if first + count * w.AREA.size > len(m.body):
                    return version, None
                return version, [w.AREA.unpack_from(m.body, first + i * w.AREA.size) for i in range(count)]
            cap = following if following > cap else 0
        return None

    def _mapped_end(self, m, cap, size):
        areas = self._areas(m, cap)
        return max((o + n for o, n in areas[1]), default=0) if areas and areas[1] is not None else size

    def _sparse(self, m, cap, size):
        areas = self._areas(m, cap)
        if areas:
            self.row("region.sparse", areas[0] == 1 and areas[1] is not None and all(n and o + n <= size for o, n in areas[1]), areas)

    def _client_device_get_region_io_fds(self, m):
        ok = len(m.body) == w.IO_FDS.size
        argsz, flags, _, count = w.IO_FDS.unpack(m.body) if ok else (0, 1, 0, 0)
        self.row("io-fds.request", ok and argsz >= w.IO_FDS.size and not flags | count, m.body)

    def _server_answers_device_get_region_io_fds(self, request, m):
        if m.failed:
            return
        argsz, flags, got, count = w.IO_FDS.unpack_from(m.body)
        array = len(m.body) - w.IO_FDS.size
        index = w.IO_FDS.unpack(request.body)[2]
        ok = not flags and got == index and (not count or (argsz == len(m.body) and array % count == 0 and array // count >= w.IO_FD.size))
        if not self.row("io-fds.reply", ok, m.body[:16]) or not count:
            return
        self.row("io-fds.descriptor", m.fds, m)
        for i in range(count):
            offset, size, fd, kind, *_ = w.IO_FD.unpack_from(m.body, w.IO_FDS.size + i * (array // count))
            fits = index not in self.regions or offset + size <= self.regions[index]
            self.row("io-fds.entry", fits and kind in (0, 1) and (fd < len(m.fds) or fd == 0xffffffff), (offset, size, fd, kind))

    def _client_device_get_irq_info(self, m):
        ok = len(m.body) == w.IRQ.size
        argsz, flags, _, count = w.IRQ.unpack(m.body) if ok else (0, 1, 0, 0)
        self.row("irq.request", ok and argsz >= w.IRQ.size and not flags | count, m.body)

    def _server_answers_device_get_irq_info(self, request, m):
        if m.failed:
            return
        argsz, flags, index, count = w.IRQ.unpack_from(m.body)
        self.row("irq.reply", len(m.body) == argsz == w.IRQ.size and index == w.IRQ.unpack(request.body)[2] and not flags & ~15, m.body)
        self.irqs[index] = count

    def _client_device_set_irqs(self, m):
        if not self.row("set-irqs.argsz", len(m.body) >= w.IRQ_SET.size and w.IRQ_SET.unpack_from(m.body)[0] == len(m.body), m):
            return
        _, flags, index, start, count = w.IRQ_SET.unpack_from(m.body)
        data, action = flags & 7, flags & 0x38
        self.row("set-irqs.flags", data in (1, 2, 4) and action in (8, 16, 32) and not flags & ~63, flags)
        if index in self.irqs:
            self.row("set-irqs.range", start + count <= self.irqs[index], (start, count, self.irqs[index]))
        if data == w.DATA_EVENTFD:
            self.row("set-irqs.eventfds", len(m.fds) in (0, count), (count, len(m.fds)))
        if data == w.DATA_BOOL:
            self.row("set-irqs.bools", len(m.body) == w.IRQ_SET.size + count, m)

    def _server_answers_device_set_irqs(self, _request, m):
        self.row("set-irqs.reply", not m.body, m)

    # ---- accesses -----------------------------------------------------------------------------------------

    def _client_region_read(self, m):
        ok = len(m.body) == w.ACCESS.size
        self.row("access.read", ok, m)
        self.row("version.max-data-xfer", not ok or w.ACCESS.unpack(m.body)[2] <= self.limit("server", "max_data_xfer_size"), m)

    def _server_answers_region_read(self, request, m):
        if not m.failed:
            count = w.ACCESS.unpack(request.body)[2]
            self.row("access.read", m.body[:w.ACCESS.size] == request.body and len(m.body) == w.ACCESS.size + count, m)

    def _client_region_write(self, m):
        ok = len(m.body) >= w.ACCESS.size and len(m.body) == w.ACCESS.size + w.ACCESS.unpack_from(m.body)[2]
        self.row("access.write", ok, m)
        self.row("version.max-data-xfer", len(m.body) - w.ACCESS.size <= self.limit("server", "max_data_xfer_size"), m)

    def _server_answers_region_write(self, request, m):
        if not m.failed:
            self.row("access.write", m.body == request.body[:w.ACCESS.size], m)

    def _within(self, address, count, right):
        """(whether mapped areas with this access right cover the range, whether none of them has a descriptor)"""
        by_message = True
        while count:
            area = next(((a, v) for a, v in self.maps.items() if a <= address < a + v[0]), None)
            if not area or not area[1][1] & right:
                return False, by_message
            by_message &= not area[1][2]
            part = min(count, area[0] + area[1][0] - address)
            address, count = address + part, count - part
        return True, by_message

    def _server_dma_read(self, m):
        self._dma(m, "dma.read", 1, len(m.body) == w.DMA.size)

    def _server_dma_write(self, m):
        self._dma(m, "dma.write", 2, len(m.body) >= w.DMA.size and len(m.body) == w.DMA.size + w.DMA.unpack_from(m.body)[1])

    def _dma(self, m, row, right, ok):
        if not self.row(row, ok, m):
            return
        address, count = w.DMA.unpack_from(m.body)
        self.row("version.max-data-xfer", count <= self.limit("client", "max_data_xfer_size"), count)
        mapped, by_message = self._within(address, count, right)
        self.row("dma.mapped", mapped, (hex(address), count))
        self.row("dma.no-descriptor", by_message, (hex(address), count))

    def _client_answers_dma_read(self, request, m):
        address, count = w.DMA.unpack_from(request.body)
        if not m.failed:
            self.row("dma.read", len(m.body) == w.DMA.size + count and w.DMA.unpack_from(m.body) == (address, count), m)

    def _client_answers_dma_write(self, request, m):
        if not m.failed:  # in the specification the count has 4 bytes in the table, 8 in the structure
            self.row("dma.write", len(m.body) in (12, 16) and m.body[:12] == request.body[:12], m)

    def _client_device_reset(self, m):
        self.row("reset.empty", not m.body, m)

    def _server_answers_device_reset(self, _request, m):
        self.row("reset.empty", not m.body, m)
