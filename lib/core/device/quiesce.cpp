/* SPDX-License-Identifier: BSD-3-Clause */
/* Detects whether a lost device may still write. */
#include "lib/core/device/device.h"

#include "driver/base/error.h"

namespace usdma::core {

/* Time after the loss by which an embedded device has stopped and a dead server was detected. */
static constexpr u64 quiesce_ns = ns_per_s;

bool device::stopped()
{
	if (load_acquire(&quiesced))
		return true;
	if (!lost() || eng->quiesce())
		return false;
	store_release(&quiesced, true);
	return true;
}

int fail_lost(device *dev)
{
	store_relaxed(&dev->loss_reported, 1u);
	return fail(ENODEV, "device %u (%s) was lost", dev->slot, dev->spec.c_str());
}

void device_quiesce(device *dev)
{
	const timespec nap = {0, 200 * 1000};
	const u64 until = load_relaxed(&dev->lost_at_ns) + quiesce_ns;

	while (!dev->stopped() && now_ns() < until)
		nanosleep(&nap, nullptr);
}

} // namespace usdma::core
