/* SPDX-License-Identifier: BSD-3-Clause */
/* Detects whether a lost device may still write. */
#include "lib/core/device/device.h"

namespace usdma::core {

/* Time after the loss by which an embedded device has stopped and a dead server was detected. */
static constexpr u64 quiesce_ns = ns_per_s;

bool device::stopped()
{
	if (quiesced.load(std::memory_order_acquire))
		return true;
	if (!lost() || eng->quiesce())
		return false;
	quiesced.store(true, std::memory_order_release);
	return true;
}

void device_quiesce(device *dev)
{
	const timespec nap = {0, 200 * 1000};
	const u64 until = dev->lost_at_ns.load(std::memory_order_relaxed) + quiesce_ns;

	while (!dev->stopped() && now_ns() < until)
		nanosleep(&nap, nullptr);
}

} // namespace usdma::core
