# SPDX-License-Identifier: BSD-3-Clause
"""The package usdma: device memory goes to a file and comes back, in the order of a stream, and once in a coroutine."""
import asyncio
import tempfile

import numpy
import usdma

SIZE = 3 << 20


async def again(file, stream, memory):
    return await file.read_done(stream, memory)


with usdma.Device() as device, device.stream() as stream, tempfile.NamedTemporaryFile() as named, \
        device.device_buffer(SIZE) as memory, device.file(named.name, "r+") as file:
    data, back = numpy.arange(SIZE // 8), numpy.zeros(SIZE // 8, numpy.int64)

    # Each sees what the one before it did.
    stream.copy(memory, data)
    wrote = file.write(memory, stream=stream)
    file.sync(stream)
    stream.fill(memory, 0)
    read = file.read(memory, stream=stream)
    stream.copy(back, memory)
    stream.synchronize()  # raises an error of the file, too
    if (back != data).any() or wrote.moved != [SIZE] or read.moved != [SIZE]:
        raise SystemExit("the data read back differ")

    print(f"{asyncio.run(again(file, stream, memory)) >> 20} MiB through {named.name}")
