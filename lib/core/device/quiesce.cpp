/* SPDX-License-Identifier: BSD-3-Clause */
/* Detects whether a lost device may still write; and a wait for a hardware queue's lock. */
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

bool hw_queue::lock_until(deadline until)
{
	const timespec nap = {0, 20 * 1000};

	for (unsigned tries = 0; !lock.try_lock(); tries++) {
		if (until.passed())
			return false;
		if (tries < 200)
			cpu_relax();
		else
			nanosleep(&nap, nullptr);
	}
	return true;
}

void device_quiesce(device *dev)
{
	const timespec nap = {0, 200 * 1000};
	const u64 until = load_relaxed(&dev->lost_at_ns) + quiesce_ns;

	while (!dev->stopped() && now_ns() < until)
		nanosleep(&nap, nullptr);
}

} // namespace usdma::core
