/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages of a software device's memory exist once they are accessed. A fault for each page costs many times what its
 * copy does, most of all in a virtual machine: they are faulted in many at a time, when a block is allocated or else
 * right before the first long copy by the CPU.
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::core {

class device;
struct device_heap;

int heap_track_touched(const device *dev, device_heap *h);
/* After a block was allocated: faults in its pages, within limits. */
void device_touch_block(device *dev, u64 offset, u64 size);
/* Before an access by the CPU, a part of total bytes. */
void device_touch(device *dev, u64 offset, u64 size, u64 total);

} // namespace usdma::core
