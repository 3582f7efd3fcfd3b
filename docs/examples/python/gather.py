# SPDX-License-Identifier: BSD-3-Clause
"""The package usdma with asyncio: ten workers share a device, each waits only for its own copies."""
import asyncio

import numpy
import usdma

WORKERS, ROUNDS, SIZE = 10, 20, 256 << 10


async def worker(device, number):
    with device.stream() as stream, device.host_buffer(SIZE) as host, device.device_buffer(SIZE) as memory:
        data = numpy.asarray(host)
        for round_ in range(ROUNDS):
            data[:] = (number + round_) % 256
            await stream.copy_done(memory, host)
            data[:] = 0
            await stream.copy_done(host, memory)
            if not (data == (number + round_) % 256).all():
                raise SystemExit("the data read back differ")
        del data
    return 2 * ROUNDS * SIZE


async def main():
    with usdma.Device() as device:
        moved = await asyncio.gather(*(worker(device, n) for n in range(WORKERS)))
        print(f"{sum(moved) >> 20} MiB by {WORKERS} workers on {device.info['name']}")


asyncio.run(main())
