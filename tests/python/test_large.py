# SPDX-License-Identifier: BSD-3-Clause
"""Four threads copy 64 MiB (times USDMA_TEST_SCALE) to the device and back; other Python threads run meanwhile."""
import mmap
import os
import sys
import threading
import time

import acl
import numpy
import pytest
from acl_names import D2H, H2D

SIZE = min(int(os.environ.get("USDMA_TEST_SCALE", 1)), 16) << 26
THREADS = 4
PART = SIZE // THREADS
TIMEOUT = 60  # seconds: a busy machine may not run the counter within one call


class Counter(threading.Thread):
    """Increments its value each time that it gets the GIL."""

    def __init__(self):
        super().__init__()
        self.value = 0
        self.stopped = False

    def run(self):
        while not self.stopped:
            self.value += 1
            time.sleep(0.0001)


@pytest.fixture
def counter():
    """A counter without forced GIL switches: it does not count while another thread holds the GIL."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    c = Counter()
    c.start()
    yield c
    c.stopped = True
    c.join()
    sys.setswitchinterval(interval)


def counts_meanwhile(counter, call):
    """Whether the counter has counted during a call, that is, the call has released the GIL."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        before = counter.value
        call()
        if counter.value != before:
            return True
    return False


def copy_part(n, dev, src, dst, counter, counted, pinned):
    rt = acl.rt
    assert rt.set_device(0) == 0
    stream, ret = rt.create_stream()
    assert ret == 0
    for to, at, kind in ((dev, src, H2D), (dst, dev, D2H)):
        def copy(to=to + n * PART, at=at + n * PART, kind=kind):
            if pinned:
                assert rt.memcpy_async(to, PART, at, PART, kind, stream) == 0
                assert rt.synchronize_stream(stream) == 0
            else:
                assert rt.memcpy(to, PART, at, PART, kind) == 0

        counted.append(counts_meanwhile(counter, copy))
    assert rt.destroy_stream(stream) == 0
    assert rt.reset_device(0) == 0


@pytest.mark.parametrize("pinned", [False, True], ids=["pageable", "registered"])
def test_large(rt, counter, pinned):
    source = numpy.random.default_rng(7).integers(0, 1 << 63, SIZE // 8, dtype=numpy.int64)
    pages = numpy.frombuffer(mmap.mmap(-1, SIZE), source.dtype)
    back = numpy.frombuffer(mmap.mmap(-1, SIZE), source.dtype)
    pages[:] = source
    src, dst = (acl.util.numpy_contiguous_to_ptr(a)[0] for a in (pages, back))
    dev, ret = rt.malloc(SIZE, 0)
    assert ret == 0
    if pinned:
        for ptr in (src, dst):
            assert rt.host_register_v2(ptr, SIZE, 0x10000000) == 0
    counted, failures = [], []

    def work(n):
        try:
            copy_part(n, dev, src, dst, counter, counted, pinned)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert len(counted) == 2 * THREADS and all(counted)
    assert numpy.array_equal(source, back)
    if pinned:
        for ptr in (src, dst):
            assert rt.host_unregister(ptr) == 0
    assert rt.free(dev) == 0
