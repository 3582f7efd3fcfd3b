# SPDX-License-Identifier: BSD-3-Clause
import pytest


@pytest.fixture
def rt():
    """acl.rt with device 0 set, as at the start of a program."""
    import acl

    assert acl.init() == 0
    assert acl.rt.set_device(0) == 0
    yield acl.rt
    assert acl.rt.reset_device_force(0) == 0
    assert acl.finalize() == 0


class Memory:
    """Allocates blocks and frees them at the end of the test."""

    def __init__(self, rt):
        self.rt = rt
        self.device_blocks, self.host_blocks = [], []

    def device(self, size):
        ptr, ret = self.rt.malloc(size, 0)
        assert ret == 0
        self.device_blocks.append(ptr)
        return ptr

    def host(self, size):
        ptr, ret = self.rt.malloc_host(size)
        assert ret == 0
        self.host_blocks.append(ptr)
        return ptr

    def clear(self):
        for ptr in self.device_blocks:
            assert self.rt.free(ptr) == 0
        for ptr in self.host_blocks:
            assert self.rt.free_host(ptr) == 0


@pytest.fixture
def memory(rt):
    m = Memory(rt)
    yield m
    m.clear()


@pytest.fixture
def acl_stream(rt):
    s, ret = rt.create_stream()
    assert ret == 0
    yield s
    assert rt.destroy_stream_force(s) == 0


@pytest.fixture
def dev():
    """An open usdma.Device."""
    import usdma

    with usdma.Device() as d:
        yield d


@pytest.fixture
def stream(dev):
    with dev.stream() as s:
        yield s
