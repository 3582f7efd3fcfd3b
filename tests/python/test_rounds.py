# SPDX-License-Identifier: BSD-3-Clause
"""
Nothing grows: each pair of calls that makes something and gives it back, in module acl and package usdma. The table of the
native calls, ACL and HCCL is in tests/integration/rounds_test.cpp. USDMA_TEST_SCALE=N: N times the rounds.
"""
import asyncio
import ctypes
import gc
import os
import sys
import tempfile
import threading

import pytest
import usdma
from usage import rounds_grow, use_of

MiB = 1 << 20
ROUNDS = 20 * int(os.environ.get("USDMA_TEST_SCALE", "1"))
# Arenas of malloc and of Python come and go.
ALLOWED = {"mappings": 16, "heap KiB": 64, "objects": 15}
libc = ctypes.CDLL(None)


class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
                                                     "fordblks", "keepcost")]


libc.mallinfo2.restype = Mallinfo


def use():
    gc.collect()
    return {**use_of("self"), "heap KiB": libc.mallinfo2().uordblks >> 10, "objects": sys.getallocatedblocks()}


def works(result):
    """Of a call of module acl: what it returns before its code, which must be 0."""
    values = result if isinstance(result, tuple) else (result,)
    assert values[-1] == 0
    return values[0]


# ---- package usdma --------------------------------------------------------------------------------------------------

def device(_):
    with usdma.Device("sim:mem=16M:engines=1") as d:
        assert d.info["memory_size"]


def device_that_fails(_):
    with pytest.raises(usdma.Error):
        usdma.Device("vfio-user:/nonexistent/socket")


def stream(dev):
    with dev.stream() as s, dev.event(timing=True) as e:
        mem = dev.device_buffer(MiB)
        s.fill(mem, 7)
        e.record(s)
        e.synchronize()
        s.abort()
        mem.close()


def buffers(dev):
    with dev.host_buffer(MiB) as host, dev.device_buffer(MiB) as mem, dev.stream() as s:
        s.copy(mem, host)
        s.copy(mem, bytearray(MiB))
        s.synchronize()
        assert len(memoryview(host)) == MiB


def dropped(dev):
    """By the collector."""
    s, host, mem = dev.stream(), dev.host_buffer(MiB), dev.device_buffer(MiB)
    s.copy(mem, host)
    s.synchronize()


def registered(dev):
    plain = bytearray(MiB)
    with usdma.registered(plain), dev.stream() as s:
        s.fill(plain, 1)
        s.synchronize()


def file(dev):
    with tempfile.TemporaryFile() as f, dev.file(f, "r+") as g, dev.host_buffer(4096) as host, dev.stream() as s:
        assert g.write(host) == 4096
        g.read(host, stream=s)
        s.synchronize()


def awaited(dev):
    async def run():
        with dev.stream() as s, dev.host_buffer(4096) as a, dev.host_buffer(4096) as b:
            await s.copy_done(a, b)
            await s.done()

    asyncio.run(run())


# ---- module acl ------------------------------------------------------------------------------------------------------

def acl_context(rt):
    first = works(rt.get_context())
    c = works(rt.create_context(0))
    works(rt.destroy_stream(works(rt.create_stream())))
    works(rt.destroy_context(c))
    works(rt.set_context(first))


def acl_device(rt):
    works(rt.set_device(1))
    works(rt.reset_device(1))
    works(rt.set_device(0))
    works(rt.reset_device(0))


def acl_memory(rt):
    mem, host = works(rt.malloc(MiB, 0)), works(rt.malloc_host(MiB))
    works(rt.memcpy(mem, MiB, host, MiB, 1))
    works(rt.free(mem))
    works(rt.free_host(host))


def acl_stream(rt):
    s, e = works(rt.create_stream()), works(rt.create_event())
    works(rt.record_event(e, s))
    works(rt.synchronize_event(e))
    works(rt.destroy_event(e))
    works(rt.destroy_stream(s))


def acl_notify(rt):
    n, s = works(rt.create_notify(0)), works(rt.create_stream())
    works(rt.record_notify(n, s))
    works(rt.wait_and_reset_notify(n, s, 60))
    works(rt.synchronize_stream(s))
    works(rt.notify_get_export_key(n, 65, 2))
    works(rt.destroy_notify(n))
    works(rt.destroy_stream(s))


def acl_key(rt):
    mem = works(rt.malloc(MiB, 0))
    works(rt.ipc_mem_close(works(rt.ipc_mem_get_export_key(mem, 4096, 65, 1))))
    works(rt.ipc_mem_get_export_key(mem, 8192, 65, 1))
    works(rt.free(mem))


def acl_virtual(rt):
    prop = {"handleType": 0, "allocationType": 0, "memAttr": 4, "location": {"id": 0, "type": 1}}
    at, handle = works(rt.reserve_mem_address(2 * MiB, 0, 0, 1)), works(rt.malloc_physical(2 * MiB, prop, 0))
    works(rt.map_mem(at, 2 * MiB, 0, handle, 0))
    works(rt.unmap_mem(at))
    works(rt.free_physical(handle))
    works(rt.release_mem_address(at))


def acl_callbacks(rt):
    s, ready, stop = works(rt.create_stream()), threading.Event(), threading.Event()

    def serve():
        rt.set_device(0)
        ready.set()
        while not stop.is_set():
            rt.process_report(10)
        rt.reset_device(0)

    t = threading.Thread(target=serve)
    t.start()
    ready.wait()
    works(rt.subscribe_report(t.ident, s))
    works(rt.launch_callback(lambda _: None, {"some": "data"}, 1, s))
    works(rt.synchronize_stream(s))
    works(rt.unsubscribe_report(t.ident, s))
    stop.set()
    t.join()
    works(rt.destroy_stream(s))


USDMA = [device, device_that_fails, stream, buffers, dropped, registered, file, awaited]
ACL = [acl_context, acl_device, acl_memory, acl_stream, acl_notify, acl_key, acl_virtual, acl_callbacks]


@pytest.mark.parametrize("pair", USDMA, ids=lambda p: p.__name__)
def test_usdma(dev, pair):
    # asyncio keeps some, however many rounds there are.
    allowed = ALLOWED | ({"objects": 250} if pair is awaited else {})
    assert rounds_grow(lambda: pair(dev), ROUNDS, use, allowed) == {}


@pytest.mark.parametrize("pair", ACL, ids=lambda p: p.__name__)
def test_acl(rt, pair):
    assert rounds_grow(lambda: pair(rt), ROUNDS, use, ALLOWED) == {}
