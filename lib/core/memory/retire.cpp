/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/memory/retire.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "lib/core/base/section.h"
#include "lib/core/base/stats.h"
#include "lib/core/memory/memory.h"

#include <bit>

namespace usdma::core {

struct closed_list {
	std::mutex lock;
	device *first = nullptr; /* by next_closed */
	std::atomic<u64> count{0};
};
static constinit immortal<closed_list> closed;

/* Nothing reaches into it, and it reaches nothing. */
static bool is_over(device *dev)
{
	return !dev->eng || ((!dev->attach || dev->stopped()) && !dev->lends_memory);
}

static void device_free(device *dev)
{
	memory_forget(dev);
	store_release(&dev->kept, u64(0));
	/* Who looks at a word of its memory (a gate) has left. */
	grace_wait();
	device_delete(dev);
}

static void say_kept(device *dev)
{
	log_warn("device %u (%s) was lost and may still write: %llu KiB of host memory stay out of use until its "
		 "server ends",
		 dev->slot, dev->spec.c_str(), static_cast<unsigned long long>(memory_kept_for(dev) / KiB));
}

/* With the list's lock held. */
static retired_stats count_kept()
{
	retired_stats all = {};

	for (device *dev = closed->first; dev; dev = dev->next_closed) {
		all.devices++;
		all.bytes += memory_kept_for(dev);
	}
	return all;
}

/* With the list's lock held: the page's order is the list's. */
static void publish()
{
	const retired_stats all = count_kept();

	stats_keep(all.devices, all.bytes);
}

retired_stats retired_get()
{
	std::lock_guard guard(closed->lock);

	return count_kept();
}

void device_retire(device *dev)
{
	if (is_over(dev))
		return device_free(dev);
	say_kept(dev);
	std::lock_guard guard(closed->lock);
	dev->next_closed = closed->first;
	closed->first = dev;
	closed->count.fetch_add(1, std::memory_order_relaxed);
	publish();
}

/* One that is over leaves the list. */
static device *take_over()
{
	std::lock_guard guard(closed->lock);

	for (device **at = &closed->first; *at; at = &(*at)->next_closed)
		if (device *dev = *at; is_over(dev)) {
			*at = dev->next_closed;
			closed->count.fetch_sub(1, std::memory_order_relaxed);
			publish();
			return dev;
		}
	return nullptr;
}

void retired_look()
{
	if (likely(!closed->count.load(std::memory_order_relaxed)))
		return;
	while (device *dev = take_over()) {
		log_info("device %u (%s), closed after its loss, is quiet now: its memory is used again", dev->slot,
			 dev->spec.c_str());
		device_free(dev);
	}
}

void devices_quiesce()
{
	device_each(
		[](device *dev, void *) {
			if (memory_up.alive(dev))
				device_quiesce(dev);
		},
		nullptr);
	retired_look();
}

/* Of what is lent to all devices that are not isolated, and to each one that is. */
static u32 lent[1 + max_devices];

static u32 *lent_to(u32 lends)
{
	return &lent[lends == reach_common ? 0 : 1 + std::countr_zero(lends)];
}

u32 lent_generation(u32 lends)
{
	return load_acquire(lent_to(lends));
}

void lent_renew(u32 lends)
{
	__atomic_fetch_add(lent_to(lends), 1, __ATOMIC_RELEASE);
}

} // namespace usdma::core
