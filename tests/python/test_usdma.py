# SPDX-License-Identifier: BSD-3-Clause
"""Package usdma: buffers, streams, events, asyncio."""
import array
import asyncio
import errno
import gc
import weakref

import numpy
import pytest
import usdma


def test_device(dev):
    assert usdma.device_count() >= 1
    assert usdma.__version__ == usdma.version()
    assert dev.info["memory_size"] > 0 and not dev.info["lost"]
    with usdma.Device(0) as same:
        assert same.info["name"] == dev.info["name"]
    with pytest.raises(ValueError):
        same.stream()


def test_errors_are_oserrors():
    with pytest.raises(OSError) as e:
        usdma.Device("nonsense:1")
    assert isinstance(e.value, usdma.Error) and e.value.errno == errno.EINVAL and "nonsense" in e.value.strerror
    with pytest.raises(usdma.Error) as e:
        usdma.Device("vfio-user:/nonexistent/socket")
    assert e.value.errno in (errno.ENOENT, errno.ENODEV)


def test_round_trip(dev, stream):
    source, back, mem = dev.host_buffer(50_000), dev.host_buffer(50_000), dev.device_buffer(50_000)
    numpy.asarray(source)[:] = numpy.random.default_rng(3).integers(0, 256, 50_000)
    stream.copy(mem, source)
    stream.copy(back, mem)
    stream.synchronize()
    assert stream.query()
    assert bytes(back.view()) == bytes(source.view())


def test_views(dev):
    host = dev.host_buffer(4096)
    a = numpy.asarray(host)
    assert a.shape == (4096,) and a.dtype == numpy.uint8 and a.flags.writeable
    assert a.ctypes.data == host.ptr
    a[:] = 7
    assert host.view()[4095] == 7 and len(host) == host.size == 4096
    floats = a.view(numpy.float32)
    host.close()
    del host
    gc.collect()
    floats[:] = 1.5  # the memory lives as long as its views
    assert (floats == 1.5).all()


def test_closed(dev, stream):
    with dev.host_buffer(64) as host, dev.device_buffer(64) as mem:
        stream.copy(mem, host)
        stream.synchronize()
    for use in (lambda: host.ptr, host.view, lambda: numpy.asarray(host), lambda: mem.ptr, lambda: stream.copy(mem, host)):
        with pytest.raises(ValueError):
            use()


def test_pieces_of_device_memory(dev, stream):
    mem, back = dev.device_buffer(100), numpy.zeros(100, numpy.uint8)
    stream.fill(mem, 1)
    stream.fill(mem[20:30], 2)
    stream.fill(mem[-10:], 3)
    stream.copy(back, mem)
    assert (back[:20] == 1).all() and (back[20:30] == 2).all() and (back[30:90] == 1).all() and (back[90:] == 3).all()
    with pytest.raises(TypeError):
        mem[3]
    with pytest.raises(ValueError):
        mem[::2]
    assert len(mem[50:20]) == 0


def test_any_buffer(dev, stream):
    mem = dev.device_buffer(64)
    for source, into in ((bytes(range(64)), bytearray(64)), (array.array("d", range(8)), array.array("d", [0] * 8)),
                         (memoryview(bytes(64)), numpy.ones((4, 4), numpy.float32))):
        stream.copy(mem, source)
        stream.copy(into, mem)
        assert memoryview(into).tobytes() == memoryview(source).tobytes()
    with pytest.raises(ValueError, match="read-only"):
        stream.copy(bytes(64), mem)
    with pytest.raises(ValueError, match="do not fit"):
        stream.copy(mem, bytes(65))
    with pytest.raises(ValueError, match="contiguous"):
        stream.copy(mem, numpy.zeros((4, 4))[:, 1])
    with pytest.raises(TypeError):
        stream.copy(mem, 3)


def test_registered(dev, stream):
    a, b = numpy.random.default_rng(1).random(100_000), numpy.zeros(100_000)
    mem = dev.device_buffer(a.nbytes)
    with usdma.registered(a), usdma.registered(b):
        stream.copy(mem, a)
        stream.copy(b, mem)
        stream.synchronize()
        with pytest.raises(usdma.Error) as e, usdma.registered(a):
            pass
        assert e.value.errno == errno.EEXIST
    assert (a == b).all()


def test_reduce(dev, stream):
    x = numpy.arange(1000, dtype=numpy.int32)
    one, two, out = dev.device_buffer(4000), dev.device_buffer(4000), numpy.zeros_like(x)
    for op, expected in (("sum", x + x), ("prod", x * x), ("max", x), ("equal", numpy.ones_like(x))):
        stream.copy(one, x)
        stream.copy(two, x)
        stream.reduce(one, two, x.dtype, op)
        stream.copy(out, one)
        assert (out == expected).all()
    for same in (numpy.int32, numpy.dtype("int32"), "int32"):
        stream.reduce(one, two, same)
    for element, op in (("complex64", "sum"), (numpy.complex64, "sum"), (numpy.dtype(">i4"), "sum"), (object, "sum"), ([], "sum"), ("int32", "mean"),
                        ("int32", None)):
        with pytest.raises(ValueError, match="int8, int16, int32, .*float64|sum, max, min, equal, prod"):
            stream.reduce(one, two, element, op)


def test_events(dev, stream):
    mem, host = dev.device_buffer(1 << 20), dev.host_buffer(1 << 20)
    with dev.event(timing=True) as start, dev.event(timing=True) as end, dev.stream() as other:
        start.record(stream)
        stream.copy(mem, host)
        end.record(stream)
        other.wait_event(end)
        end.synchronize()
        assert end.query() and start.elapsed_ns(end) > 0
        other.synchronize()


def test_stream_errors(dev):
    s = dev.stream()
    s.abort()
    with pytest.raises(usdma.Error) as e:
        s.synchronize()
    assert e.value.errno == errno.ECANCELED
    s.close()
    with pytest.raises(usdma.Error) as e:
        s.query()
    assert e.value.errno == errno.EBADF


def test_freed_device_memory(dev, stream):
    mem = dev.device_buffer(64)
    ptr = mem.ptr
    mem.close()
    dev.synchronize()
    with pytest.raises(usdma.Error) as e:
        stream._native.copy(ptr + (1 << 40), ptr, 64)
    assert e.value.errno == errno.EFAULT


def test_device_outlives_its_objects():
    dev = usdma.Device()
    s, mem, host = dev.stream(), dev.device_buffer(4096), dev.host_buffer(4096)
    dev.close()
    del dev
    gc.collect()
    s.copy(mem, host)
    s.synchronize()
    s.close()


# ---- asyncio -----------------------------------------------------------------------------------------------


def test_thousand_copies(dev):
    """A thousand awaits on ten streams; other coroutines run meanwhile."""
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def work(n):
        source, back, mem = dev.host_buffer(8192), dev.host_buffer(8192), dev.device_buffer(8192)
        a, b = numpy.asarray(source), numpy.asarray(back)
        with dev.stream() as s:
            for i in range(50):
                a[:] = (n * 50 + i) % 251
                await s.copy_done(mem, source)
                await s.copy_done(back, mem)
                assert (b == a).all()

    async def main():
        ticker = asyncio.create_task(tick())
        await asyncio.gather(*(work(n) for n in range(10)))
        ticker.cancel()

    asyncio.run(main())
    assert ticks > 0


def test_await_takes_the_error(dev):
    async def main():
        with dev.stream() as s:
            s.fill(dev.device_buffer(64))
            await s.done()

    asyncio.run(main())


def test_waiters_retain_pending_buffers(dev):
    """The buffers of operations submitted after a wait began are retained, however many other waits end."""
    later_ones = []

    async def work(s, mem):
        host = dev.host_buffer(4096)
        s.copy(mem, host)
        await s.done()
        later = dev.host_buffer(4096)
        s.copy(mem, later)
        later_ones.append(weakref.ref(later))

    async def main():
        with dev.stream() as s:
            await asyncio.gather(*(work(s, dev.device_buffer(4096)) for _ in range(5)))
            assert len(later_ones) == 5 and all(k() for k in later_ones)
            await s.done()
            gc.collect()
            assert not any(k() for k in later_ones)

    asyncio.run(main())


def test_cancelled_wait(dev):
    """A cancelled wait leaves the stream usable."""

    async def main():
        mem, host = dev.device_buffer(8 << 20), dev.host_buffer(8 << 20)
        with dev.stream() as s:
            for _ in range(20):
                s.copy(mem, host)
                waiting = asyncio.create_task(s.done())
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            await s.done()
            assert s.query()

    asyncio.run(main())
