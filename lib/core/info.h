/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries of devices and streams: names and statistics. */
#pragma once

#include "lib/core/stream/stream.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* Pageable copies longer than direct_store: by the CPU; false: through staging buffers. */
bool pageable_by_cpu(const dma::engine_limits &l, check_timing timing);

/* Of a name: nullptr: the first; "2": a number; or a device string (device_get_by_name()). -ENODEV, … */
int device_open_name(const char *name, device **out);

struct device_stats {
	u32 streams;
	u64 copies, bytes, requests, doorbells, wakes, faults, sleeps, spins;
};
/* Sums over the hardware queues; does not block submitters. */
device_stats device_stats_get(device *dev);
stream_stats stream_stats_get(const stream *s);

} // namespace usdma::core
#pragma GCC visibility pop
