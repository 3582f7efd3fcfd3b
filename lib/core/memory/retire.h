/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a device.  One that was lost may only hang (a server that was
 * stopped, a machine that was paused) and go on later with what it was told.
 * So what it reaches is kept out of use until there is proof that it writes
 * nothing any more; without one, for good.  usdmactl stat shows how many and how much.
 */
#pragma once

#include "lib/core/device/device.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* Closed: is freed, at once or when it is proven quiet and no other lost device has its memory mapped. */
void device_retire(device *dev);
/* Frees those of which it is known by now.  No lock held but the table's open_lock or the progress thread's. */
void retired_look();

/* Of open devices that were lost just now: until they are quiet, as device_quiesce(). */
void devices_quiesce();

struct retired_stats {
	u64 devices; /* closed, and may still write */
	u64 bytes;   /* of host memory that they keep */
};
retired_stats retired_get();

} // namespace usdma::core
#pragma GCC visibility pop
