# SPDX-License-Identifier: BSD-3-Clause
import asyncio
import errno
import sys

from . import _native
from ._closing import Closing
from ._memory import buffer_range
from ._words import word

ELEMENTS = {"int8": 0, "int16": 1, "int32": 2, "int64": 3, "uint8": 4, "uint16": 5, "uint32": 6, "uint64": 7,
            "float16": 8, "bfloat16": 9, "float32": 10, "float64": 11}
OPERATIONS = {"sum": 0, "max": 1, "min": 2, "equal": 3, "prod": 4}


def _element(element):
    """A name, a numpy dtype, or a type that numpy has a dtype for."""
    if isinstance(element, type) and "numpy" in sys.modules:
        try:
            element = sys.modules["numpy"].dtype(element)
        except TypeError:  # numpy knows no such type
            pass
    return word("element", str(element), ELEMENTS)


class Stream(Closing):
    """Work that runs in the order of submission; streams run concurrently.

    The stream references the buffers of its work until a wait or a query shows that it has ended: of the stream, its
    device, an event that was recorded after it, or another stream that waited for such an event.
    """

    def __init__(self, device):
        self._native = _native.Stream(device._native)
        self._waits = _Waits()

    def copy(self, dst, src, wait=True):
        """Copies src to the beginning of dst; returns the number of the operation in the stream, or 0 if it is done.

        Between a device buffer and a host buffer (or registered memory) it returns at once;
        with other memory it returns when the data has arrived. With wait=False it raises EAGAIN where it would wait for
        earlier work: with other memory, or when the device's ring is full.
        """
        to, space, keep_dst = buffer_range(dst, True)
        at, size, keep_src = buffer_range(src, False)
        if size > space:
            raise ValueError(f"{size} bytes do not fit in {space}")
        return self._native.copy(to, at, size, (keep_dst, keep_src), wait)

    def call(self, fn, hold=False):
        """Has a thread of the library call fn(errno) when the work submitted before has ended.

        errno is 0, or of the first error of that work; ENODEV: the device was lost before, ECANCELED: it was dropped.
        hold=True: later work waits until fn has returned. fn must not wait for the stream then.
        """
        self._native.call(fn, hold)

    def fill(self, dst, pattern=0, pattern_size=1):
        to, space, keep = buffer_range(dst, True)
        self._native.fill(to, pattern, pattern_size, space, (keep,))

    def reduce(self, dst, src, element, op="sum"):
        """dst[i] = op(dst[i], src[i]); element: a name in ELEMENTS, or a numpy type or dtype of that name; op: in OPERATIONS."""
        to, space, keep_dst = buffer_range(dst, True)
        at, size, keep_src = buffer_range(src, False)
        if size > space:
            raise ValueError(f"{size} bytes do not fit in {space}")
        self._native.reduce(to, at, size, _element(element), word("op", op, OPERATIONS), (keep_dst, keep_src))

    def wait_event(self, event):
        """Later work starts after the event's mark."""
        self._native.wait_event(event._native)

    def synchronize(self, timeout_ms=-1):
        """Waits until the work submitted before has ended; raises its first error."""
        try:
            self._native.synchronize(timeout_ms)
        finally:
            self._waits.finish()

    def query(self):
        """True: all work has ended."""
        return self._native.query()

    def abort(self):
        self._native.abort()

    async def done(self):
        """Waits for the work submitted before, but lets other coroutines run; raises the first error of that work.

        Several coroutines may wait at a time: each has the errors of the work behind the wait before it.
        """
        await self._waits.wait(self._native)

    async def copy_done(self, dst, src):
        self.copy(dst, src)
        await self.done()

    def close(self):
        """Waits for the stream's work; raises its first error."""
        try:
            self._native.close()
        finally:
            self._waits.finish()


class _Waits:
    """A pool of completions, one for each waiting coroutine."""

    def __init__(self):
        self._free = []
        self._cancelled = []  # of coroutines that were: the next wait has their errors

    async def wait(self, stream):
        completion = self._free.pop() if self._free else _native.Completion()
        fd = completion.start(stream)
        try:
            await _readable(fd)
        finally:
            self._cancelled.append(completion)
        self.finish()

    def finish(self):
        """Of all whose work has ended."""
        some, self._cancelled = self._cancelled, []
        errors = []
        for completion in some:
            try:
                completion.finish()
            except _native.Error as e:
                if e.errno == errno.EAGAIN:
                    self._cancelled.append(completion)
                    continue
                errors.append(e)
            self._free.append(completion)
        if errors:
            raise errors[0]


async def _readable(fd):
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def ready():
        loop.remove_reader(fd)
        if not future.done():
            future.set_result(None)

    loop.add_reader(fd, ready)
    try:
        await future
    finally:
        loop.remove_reader(fd)


class Event(Closing):
    """A mark in a stream's work."""

    def __init__(self, device, timing=False):
        self._native = _native.Event(device._native, timing)

    def record(self, stream):
        self._native.record(stream._native)

    def query(self):
        return self._native.query()

    def synchronize(self, timeout_ms=-1):
        self._native.synchronize(timeout_ms)

    def elapsed_ns(self, end):
        """Device time from this mark to end; both need timing."""
        return self._native.elapsed_ns(end._native)

    def close(self):
        self._native.close()
