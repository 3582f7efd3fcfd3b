# SPDX-License-Identifier: BSD-3-Clause
"""Package usdma: buffers, streams, events, asyncio."""
import array
import asyncio
import ctypes
import errno
import gc
import os
import pickle
import random
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
import threading
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
    with pytest.raises(ValueError, match="null"):
        usdma.Device("sim\0x")
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


def is_pinned(ptr):
    """As usdma_pointer_get_info() says."""
    class Info(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_uint32), ("memory_class", ctypes.c_int32), ("base", ctypes.c_uint64), ("size", ctypes.c_uint64),
                    ("device_index", ctypes.c_int32), ("registered", ctypes.c_uint32)]

    with open("/proc/self/maps", encoding="utf-8") as maps:
        library = next(line.split()[-1] for line in maps if "/libusdma.so" in line)
    info = Info(ctypes.sizeof(Info))
    assert ctypes.CDLL(library).usdma_pointer_get_info(ctypes.c_void_p(ptr), ctypes.byref(info)) == 0
    return info.memory_class == 1


def test_host_buffers_have_the_buffer_protocol(dev):
    host = dev.host_buffer(4096)
    view = memoryview(host)
    assert (view.nbytes, view.format, view.ndim, view.readonly) == (4096, "B", 1, False)
    view[:4] = b"abcd"
    assert bytes(host)[:4] == bytearray(host)[:4] == b"abcd" and numpy.frombuffer(host, numpy.uint32).size == 1024
    struct.pack_into("<I", host, 8, 0x01020304)
    assert view[8:12] == bytes([4, 3, 2, 1])
    with tempfile.TemporaryFile() as f:
        f.write(bytes(range(256)) * 16)
        f.seek(0)
        assert f.readinto(host) == 4096 and view[255] == 255
    a, b = socket.socketpair()
    with a, b:
        a.send(b"xyz")
        assert b.recv_into(host) == 3 and view[:3] == b"xyz"
    with pytest.raises(TypeError):
        pickle.dumps(host)


def test_a_closed_buffer_lives_as_long_as_its_views(dev):
    host = dev.host_buffer(1 << 20)
    at, first, second = host.ptr, memoryview(host), numpy.asarray(host)
    host.close()
    host.close()
    first[-1] = 5
    assert is_pinned(at) and second[-1] == 5
    with pytest.raises(ValueError, match="closed"):
        memoryview(host)
    first.release()
    assert is_pinned(at)
    del second
    gc.collect()
    assert not is_pinned(at)
    with dev.host_buffer(64) as other:
        at = other.ptr
    assert not is_pinned(at)
    with pytest.raises(ValueError):
        memoryview(usdma.HostBuffer.__new__(usdma.HostBuffer))


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


UNKNOWN_TO_BUFFERS = {"datetime64": lambda: numpy.array(["2020-01-01", "2021-02-03"], "M8[ns]"), "a scalar": lambda: numpy.array("2020-01-01", "M8[s]"),
                      "of two dimensions": lambda: numpy.arange(12).astype("m8[ms]").reshape(3, 4), "structures": lambda: numpy.zeros(5, "M8[D], f4"),
                      "none": lambda: numpy.zeros((0, 3), "M8[ns]"), "bfloat16": lambda: numpy.ones(8, pytest.importorskip("ml_dtypes").bfloat16),
                      "float8": lambda: numpy.ones(8, pytest.importorskip("ml_dtypes").float8_e4m3fn)}


@pytest.mark.parametrize("name", UNKNOWN_TO_BUFFERS)
def test_arrays_that_numpy_cannot_export(dev, stream, name):
    source = UNKNOWN_TO_BUFFERS[name]()
    mem, back = dev.device_buffer(256), numpy.empty_like(source)
    with pytest.raises(ValueError):
        memoryview(source)
    stream.fill(mem, 0)
    stream.copy(mem, source)
    stream.copy(back, mem[:source.nbytes])
    assert back.tobytes() == source.tobytes()
    source.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        stream.copy(source, mem[:source.nbytes])
    if source.ndim == 2 and source.size:
        with pytest.raises(ValueError, match="contiguous"):
            stream.copy(mem, source[:, 1])


class Array:
    """Of another library, without the buffer protocol."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__


def test_array_interface(dev, stream):
    mem, back = dev.device_buffer(24), numpy.zeros((2, 3), numpy.float32)
    stream.copy(mem, Array(numpy.arange(6, dtype=numpy.float32)))
    stream.copy(Array(back), mem)
    assert (back == [[0, 1, 2], [3, 4, 5]]).all()


def test_no_memory(dev, stream):
    for wrong in (3, None, "text", [1], numpy.float32):
        with pytest.raises(TypeError, match="buffer protocol"):
            stream.copy(dev.device_buffer(64), wrong)


WITHOUT_NUMPY = """
    import array, sys

    class Missing:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] == "numpy":
                raise ModuleNotFoundError(name)

    sys.meta_path.insert(0, Missing())
    import acl, usdma

    dev = usdma.Device()
    stream, mem, host = dev.stream(), dev.device_buffer(64), dev.host_buffer(64)
    for source in (bytes(range(64)), bytearray(range(64)), array.array("d", range(8)), memoryview(bytes(64)), host):
        back = bytearray(64)
        stream.copy(mem, source)
        stream.copy(back, mem)
        assert back == memoryview(source).tobytes()
    with usdma.registered(bytearray(4096)) as pinned:
        stream.copy(mem, memoryview(pinned)[:64])
        stream.synchronize()
    with dev.file(sys.argv[1], "w+") as f:
        assert f.write(bytes(range(64))) == f.read(back) == f.read(host) == f.read(mem) == 64
    assert back == bytes(host) == bytes(range(64))
    stream.reduce(mem, host, "int32", "max")
    stream.synchronize()
    assert "numpy" not in sys.modules
"""


def test_numpy_is_not_needed(tmp_path):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(WITHOUT_NUMPY), tmp_path / "f"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


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


# ---- what a stream references --------------------------------------------------------------------------------


def asyncio_done(_dev, s, _event):
    asyncio.run(s.done())


def wait_of_another(dev, s, event):
    with dev.stream() as between, dev.stream() as last, dev.event() as chained:
        between.wait_event(event)
        chained.record(between)
        last.wait_event(chained)
        last.synchronize()


def poll(query):
    while not query():
        pass


# Each returns when the work before the event has ended; True: it knows that of all work of the stream.
WAITS = {
    "synchronize": (True, lambda dev, s, event: s.synchronize()),
    "query": (True, lambda dev, s, event: poll(s.query)),
    "done": (True, asyncio_done),
    "device": (True, lambda dev, s, event: dev.synchronize()),
    "the same device": (True, lambda dev, s, event: usdma.Device(0).synchronize()),
    "close": (True, lambda dev, s, event: s.close()),
    "a copy that waits": (True, lambda dev, s, event: s.copy(bytearray(1), dev.device_buffer(1))),
    "event": (False, lambda dev, s, event: event.synchronize()),
    "event query": (False, lambda dev, s, event: poll(event.query)),
    "event times": (False, lambda dev, s, event: (poll(event.query), event.elapsed_ns(event))),
    "another stream": (False, wait_of_another),
}


def file_read(dev, s, host):
    with dev.file("/proc/self/exe", access="buffered") as f:
        f.read(host, stream=s)


WORK = {
    "copy": lambda dev, s, host: s.copy(dev.device_buffer(1 << 20), host),
    "fill": lambda dev, s, host: s.fill(host, 1),
    "reduce": lambda dev, s, host: s.reduce(dev.device_buffer(1 << 20), host, "uint8"),
    "file": file_read,
}


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("how", WAITS)
def test_a_wait_releases_buffers(dev, how, work):
    """Those of the work that it shows to have ended, and no other."""
    of_all, wait = WAITS[how]
    with dev.stream() as s, dev.event(timing=True) as event:
        before, after = dev.host_buffer(1 << 20), dev.host_buffer(1 << 20)
        refs = [weakref.ref(before), weakref.ref(after)]
        WORK[work](dev, s, before)
        event.record(s)
        WORK[work](dev, s, after)
        del before, after
        assert all(k() for k in refs)
        wait(dev, s, event)
        assert not refs[0]() and bool(refs[1]()) != of_all
        if of_all and how != "close":
            s.synchronize()


def test_only_the_events_last_mark_counts(dev, stream):
    with dev.stream() as other, dev.event() as event:
        host = dev.host_buffer(4096)
        refs = weakref.ref(host)
        stream.copy(dev.device_buffer(4096), host)
        del host
        event.record(stream)
        event.record(other)
        event.synchronize()
        assert refs()
        stream.synchronize()
        assert not refs()


def test_an_aborted_stream_has_not_waited(dev, stream):
    with dev.event() as event:
        other = dev.stream()
        host = dev.host_buffer(4096)
        refs = weakref.ref(host)
        stream.copy(dev.device_buffer(4096), host)
        del host
        event.record(stream)
        other.wait_event(event)
        other.abort()
        with pytest.raises(usdma.Error):
            other.synchronize()
        other.close()
        assert refs()
        event.synchronize()
        assert not refs()


def test_after_an_error_buffers_are_released(dev):
    """The work has ended, with an error."""
    with dev.stream() as s, dev.event() as event, dev.file("/proc/self/mem", access="buffered") as f:
        for wait in (s.synchronize, event.synchronize):
            host = dev.host_buffer(4096)
            refs = weakref.ref(host)
            f.read(host, 0, stream=s)  # a process has nothing at address 0
            event.record(s)
            del host
            with pytest.raises(usdma.Error):
                wait()
            assert not refs()
        with pytest.raises(usdma.Error):
            s.synchronize()


def test_programs_that_never_wait(dev):
    """They poll the memory instead."""
    with dev.stream() as s, dev.stream() as other, dev.event() as event:
        mem, back, refs = dev.device_buffer(8), dev.host_buffer(8), []
        for i in range(300):
            host = dev.host_buffer(8)
            host.view()[:] = struct.pack("Q", i)
            s.copy(mem, host)
            s.copy(back, mem)
            event.record(s)
            other.wait_event(event)
            refs.append(weakref.ref(host))
            del host
            poll(lambda i=i: bytes(back) == struct.pack("Q", i))
        assert sum(bool(k()) for k in refs) < 100


def test_a_destructor_may_wait(dev, stream):
    for _ in range(3):
        host = dev.host_buffer(4096)
        weakref.finalize(host, stream.synchronize)
        stream.copy(dev.device_buffer(4096), host)
    del host
    stream.synchronize()


def test_waits_of_many_threads(dev):
    """Streams and events are shared; what is refs at the end is that nothing is retained."""
    seed = int(os.environ.get("USDMA_TEST_SEED", random.SystemRandom().randrange(1 << 32)))
    print("seed", seed)
    streams, events, refs, failures = [dev.stream() for _ in range(3)], [dev.event() for _ in range(3)], [], []

    def work(rng):
        try:
            for i in range(60):
                s, event, host, back = rng.choice(streams), rng.choice(events), dev.host_buffer(4096), bytearray(4096)
                refs.append(weakref.ref(host))
                host.view()[:] = bytes([i]) * 4096
                mem = dev.device_buffer(4096)
                s.copy(mem, host)
                event.record(s)
                del host
                rng.choice((s.synchronize, s.query, event.query, event.synchronize, dev.synchronize, lambda s=s, e=event: s.wait_event(e),
                            lambda s=s: asyncio.run(s.done())))()
                s.copy(back, mem)
                assert back == bytes([i]) * 4096
        except BaseException as e:  # pylint: disable=broad-except
            failures.append(e)

    threads = [threading.Thread(target=work, args=(random.Random(seed + n),)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    dev.synchronize()
    assert len(refs) == 240 and not any(k() for k in refs)
    for it in streams + events:
        it.close()


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


@pytest.mark.parametrize("order", range(3))
def test_each_await_has_its_own_error(order):
    """Three coroutines on one stream, of which one has a copy that fails."""

    async def copy(s, mem, host):
        s.copy(mem, host)
        await s.done()

    async def main(d):
        mem, host = d.device_buffer(4096), d.host_buffer(4096)
        with d.stream() as s:
            got = await asyncio.gather(*(copy(s, mem, host) for _ in range(3)), return_exceptions=True)
            assert [isinstance(e, OSError) for e in got] == [n == order for n in range(3)]
            assert got[order].errno == errno.EIO
            s.synchronize()

    with usdma.Device(f"sim:mem=64M:faults=fail@{order + 1}") as d:
        asyncio.run(main(d))


def test_numbers_and_functions():
    """A copy has a number; a function has the error of the work before it."""
    numbers, got, called = [], [], threading.Semaphore(0)

    def note(error):
        got.append(error)
        called.release()

    with usdma.Device("sim:mem=48M:faults=fail@2") as d, d.stream() as s:
        mem, host = d.device_buffer(4096), d.host_buffer(4096)
        for n in range(3):
            numbers.append(s.copy(mem, host))
            s.call(note, hold=n == 0)
        assert s.copy(mem, bytes(4096)) == 0
        for _ in range(3):
            assert called.acquire(timeout=60)
        assert got == [0, errno.EIO, 0] and 0 < numbers[0] < numbers[1] < numbers[2]
        with pytest.raises(usdma.Error) as e:
            s.copy(mem, bytes(4096), wait=False)
        assert e.value.errno == errno.EAGAIN

        def close(_):
            with pytest.raises(usdma.Error) as e:
                s.close()
            note(e.value.errno)

        s.call(close, hold=True)
        assert called.acquire(timeout=60) and got[3] == errno.EDEADLK
        s.synchronize()


def test_cancelled_wait_leaves_the_error():
    """The next wait raises it."""

    async def main(d):
        mem, host = d.device_buffer(4096), d.host_buffer(4096)
        with d.stream() as s:
            s.copy(mem, host)
            s.copy(mem, host)
            waiting = asyncio.create_task(s.done())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(OSError) as e:
                await s.done()
            assert e.value.errno == errno.EIO
            await s.done()

    with usdma.Device("sim:mem=64M:faults=slow@1/50000+fail@2") as d:
        asyncio.run(main(d))


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
    """A cancelled wait leaves the stream usable, and no descriptor, also if the stream is dropped with it."""

    async def one(mem, host):
        s, hold = dev.stream(), threading.Event()
        s.call(lambda _: hold.wait(), hold=True)
        waiting = asyncio.create_task(s.copy_done(mem, host))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        hold.set()

    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

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
        await one(mem, host)
        before = descriptors()
        for _ in range(20):
            await one(mem, host)
        assert descriptors() <= before + 2

    asyncio.run(main())
