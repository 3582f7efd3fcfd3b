/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a device that was lost still writes. */
#include "lib/core/device/device.h"

namespace usdma::core {

/* After the loss: an embedded device has stopped by then, and a server that died has long been noticed. */
static constexpr u64 quiesce_ns = ns_per_s;

bool device::stopped()
{
	if (quiet.load(std::memory_order_acquire))
		return true;
	if (!lost() || eng->quiesce())
		return false;
	quiet.store(true, std::memory_order_release);
	return true;
}

void device_quiesce(device *dev)
{
	const timespec nap = {0, 200 * 1000};
	const u64 until = dev->lost_ns.load(std::memory_order_relaxed) + quiesce_ns;

	while (!dev->stopped() && now_ns() < until)
		nanosleep(&nap, nullptr);
}

} // namespace usdma::core
