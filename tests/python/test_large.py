# SPDX-License-Identifier: BSD-3-Clause
"""A gibibyte to the device and back from four threads, and Python goes on meanwhile."""
import threading

import acl
import numpy
import pytest
from acl_names import D2H, H2D

GIB = 1 << 30
THREADS = 4
PART = GIB // THREADS


class Counter(threading.Thread):
    """Counts for as long as it gets the GIL."""

    def __init__(self):
        super().__init__()
        self.value = 0
        self.stopped = False

    def run(self):
        while not self.stopped:
            self.value += 1


@pytest.fixture
def counter():
    c = Counter()
    c.start()
    yield c
    c.stopped = True
    c.join()


def copy_part(n, dev, src, dst, counter, counted, pinned):
    """Each call copies 256 MiB: if it held the GIL, the counter would stand still in it."""
    rt = acl.rt
    assert rt.set_device(0) == 0
    stream, ret = rt.create_stream()
    assert ret == 0
    for to, at, kind in ((dev, src, H2D), (dst, dev, D2H)):
        before = counter.value
        if pinned:
            assert rt.memcpy_async(to + n * PART, PART, at + n * PART, PART, kind, stream) == 0
            assert rt.synchronize_stream(stream) == 0
        else:
            assert rt.memcpy(to + n * PART, PART, at + n * PART, PART, kind) == 0
        counted.append(counter.value - before)
    assert rt.destroy_stream(stream) == 0
    assert rt.reset_device(0) == 0


@pytest.mark.parametrize("pinned", [False, True], ids=["pageable", "registered"])
def test_gibibyte(rt, counter, pinned):
    source = numpy.random.default_rng(7).integers(0, 1 << 63, GIB // 8, dtype=numpy.int64)
    back = numpy.zeros_like(source)
    src, dst = (acl.util.numpy_contiguous_to_ptr(a)[0] for a in (source, back))
    dev, ret = rt.malloc(GIB, 0)
    assert ret == 0
    if pinned:
        for ptr in (src, dst):
            assert rt.host_register_v2(ptr, GIB, 0x10000000) == 0
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
    assert len(counted) == 2 * THREADS and min(counted) > 0
    assert numpy.array_equal(source, back)
    if pinned:
        for ptr in (src, dst):
            assert rt.host_unregister(ptr) == 0
    assert rt.free(dev) == 0
