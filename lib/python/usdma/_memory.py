# SPDX-License-Identifier: BSD-3-Clause
"""Device memory, pinned host memory, and other buffers of Python."""
import contextlib

from . import _native
from ._closing import Closing


class HostBuffer(_native.HostBlock, Closing):
    """Pinned host memory: copies with it are asynchronous.

    It has the buffer protocol: memoryview(b) and numpy.asarray(b) are views of it, bytes(b) is a copy, and
    file.readinto(b) fills it. The memory lives as long as the buffer and all its views do; after close() there are
    no new views. A child of fork has no such memory: accessing a view there kills it, so copy what it needs before.
    """

    def __init__(self, device, size):
        super().__init__(device._native, size)

    def view(self):
        """A writable memoryview of bytes."""
        return memoryview(self)

    @property
    def __array_interface__(self):
        # numpy takes the buffer protocol; where that raises, as of a closed buffer, it gets the error from this.
        return {"version": 3, "shape": (self.size,), "typestr": "|u1", "data": self.view()}

    def __len__(self):
        return self.size


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


def _view(obj):
    """A memoryview of obj; also of an array with elements that the buffer protocol has not, as datetime64 and bfloat16."""
    try:
        return memoryview(obj)
    except (TypeError, ValueError, BufferError) as e:
        if not isinstance(getattr(obj, "__array_interface__", None), dict):
            if isinstance(e, TypeError):
                e = TypeError(f"{type(obj).__name__} is no memory: neither DeviceBuffer nor HostBuffer, and without the buffer protocol")
            raise e from None
    import numpy

    array = numpy.asarray(obj)
    if not array.flags.c_contiguous:
        raise ValueError("the memory is not contiguous")
    return memoryview(array.reshape(-1).view(numpy.uint8))


def buffer_range(obj, writable):
    """(address, bytes, owner of the memory) of a HostBuffer, a DeviceBuffer or any object with the buffer protocol."""
    if isinstance(obj, (HostBuffer, DeviceBuffer)):
        return obj.ptr, obj.size, obj
    view = _view(obj)
    if not view.c_contiguous:
        raise ValueError("the memory is not contiguous")
    if writable and view.readonly:
        raise ValueError("the memory is read-only")
    return _native.view_address(view), view.nbytes, view


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
