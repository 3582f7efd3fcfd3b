# SPDX-License-Identifier: BSD-3-Clause
"""Asynchronous copies by DMA engines.

    import usdma

    with usdma.Device() as dev, dev.stream() as stream:
        host = dev.host_buffer(4096)            # pinned; numpy.asarray(host) is a view of it
        mem = dev.device_buffer(4096)
        stream.copy(mem, host)                  # returns at once ...
        stream.synchronize()                    # ... and here it is done
        await stream.copy_done(host, mem)       # the same in a coroutine
        with dev.file("weights.bin") as f:
            f.read(mem, stream=stream)          # from a file, in the stream's order
        weights = usdma.load_safetensors("model.safetensors", dev)

The module acl has the calls of the Ascend ACL runtime.
"""
from ._device import Device, device_count, version
from ._file import File, Transfer
from ._memory import DeviceBuffer, HostBuffer, registered
from ._native import Error
from ._safetensors import load_safetensors
from ._stream import Event, Stream

__version__ = version()
__all__ = ["Device", "DeviceBuffer", "Error", "Event", "File", "HostBuffer", "Stream", "Transfer", "device_count",
           "load_safetensors", "registered", "version"]
