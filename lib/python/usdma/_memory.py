# SPDX-License-Identifier: BSD-3-Clause
"""Device memory, pinned host memory, and other buffers of Python."""
import contextlib

from . import _native
from ._closing import Closing


class _Closed:
    """Replaces the block of a closed buffer."""

    def __getattr__(self, name):
        raise ValueError("the buffer is closed")


class HostBuffer(Closing):
    """Pinned host memory: copies with it are asynchronous.

    memoryview(b) and numpy.asarray(b) are views of it.  The memory lives as long as the
    buffer and all its views do; close() only drops the buffer's own reference.
    """

    def __init__(self, device, size):
        self._block = _native.HostBlock(device._native, size)

    @property
    def ptr(self):
        return self._block.ptr

    @property
    def size(self):
        return self._block.size

    def view(self):
        """A writable memoryview of bytes."""
        if isinstance(self._block, _Closed):
            raise ValueError("the buffer is closed")
        return memoryview(self._block)

    @property
    def __array_interface__(self):
        # A buffer as data makes numpy hold a reference to the memory; an address would not.
        return {"version": 3, "shape": (self.size,), "typestr": "|u1", "data": self.view()}

    def __len__(self):
        return self.size

    def close(self):
        self._block = _Closed()


class DeviceBuffer(Closing):
    """Device memory, or a part of it: for copies only, Python cannot access it.

    buffer[a:b] is the part from byte a to byte b.
    """

    def __init__(self, device, size, _block=None, _offset=0):
        self._block = _native.DeviceBlock(device._native, size) if _block is None else _block
        self._offset = _offset
        self._size = size

    @property
    def ptr(self):
        if not self._block.ptr:
            raise ValueError("the buffer is closed")
        return self._block.ptr + self._offset

    @property
    def size(self):
        return self._size

    def __len__(self):
        return self._size

    def __getitem__(self, part):
        if not isinstance(part, slice):
            raise TypeError("device memory can be sliced, not read")
        start, stop, step = part.indices(self._size)
        if step != 1:
            raise ValueError("a part of device memory has step 1")
        return DeviceBuffer(None, max(stop - start, 0), self._block, self._offset + start)

    def close(self):
        """Frees the memory, also under its parts; copies in flight may still complete."""
        self._block.free()


def _flat(obj, writable):
    view = memoryview(obj)
    if not view.c_contiguous:
        raise ValueError("the memory is not contiguous")
    if writable and view.readonly:
        raise ValueError("the memory is read-only")
    return view


def buffer_range(obj, writable):
    """(address, bytes, owner of the memory) of a HostBuffer, a DeviceBuffer or any object with the buffer protocol."""
    if isinstance(obj, (HostBuffer, DeviceBuffer)):
        return obj.ptr, obj.size, obj
    import numpy  # only for the address of a foreign buffer

    view = _flat(obj, writable)
    array = numpy.frombuffer(view, dtype=numpy.uint8) if view.nbytes else numpy.empty(0, numpy.uint8)
    return array.ctypes.data, view.nbytes, array


@contextlib.contextmanager
def registered(obj, writable=True):
    """Pins an array (or other buffer) within a `with` block, so that copies with it are asynchronous.

    Copies with it must have ended when the block is left.
    """
    ptr, size, keep = buffer_range(obj, writable)
    _native.host_register(ptr, size, 0 if writable else 1)
    try:
        yield obj
    finally:
        _native.host_unregister(ptr)
        del keep
