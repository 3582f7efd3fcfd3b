/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Retiring closed devices. A lost device may merely hang (a stopped server, a paused machine) and resume its
 * work later. So memory that it can access is retained until the device has quiesced, if ever.
 * usdmactl stat shows the number of such devices and bytes.
 */
#pragma once

#include "lib/core/device/device.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* Frees a closed device once it has quiesced and no other lost device has its memory mapped. */
void device_retire(device *dev);
/* Frees retired devices that are now quiesced. Call with no lock but a slot's or the progress thread's. */
void retired_poll();

/* device_quiesce() for each open device that was lost. */
void devices_quiesce();

struct retired_stats {
	u64 devices; /* closed devices that may still write */
	u64 bytes;   /* host memory retained for them */
};
retired_stats retired_get();

} // namespace usdma::core
#pragma GCC visibility pop
