# SPDX-License-Identifier: BSD-3-Clause
from . import _native
from ._closing import Closing
from ._file import File
from ._memory import DeviceBuffer, HostBuffer
from ._stream import Event, Stream


def version():
    """Version of the running library."""
    return _native.version()


def device_count():
    return _native.device_count()


class Device(Closing):
    """A device: the first one, a number, or a device string as USDMA_DEVICES takes it ("sim:mem=1G")."""

    def __init__(self, name=None):
        self._native = _native.Device(None if name is None else str(name))

    @property
    def info(self):
        return self._native.info()

    def stream(self):
        return Stream(self)

    def event(self, timing=False):
        return Event(self, timing)

    def host_buffer(self, size):
        return HostBuffer(self, size)

    def device_buffer(self, size):
        return DeviceBuffer(self, size)

    def file(self, file, mode="r", access="auto"):
        return File(self, file, mode, access)

    def synchronize(self, timeout_ms=-1):
        """Waits until all work of the device has ended."""
        self._native.synchronize(timeout_ms)

    def close(self):
        """Refuses new streams and buffers; the device itself is closed with the last of them."""
        self._native.close()
