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
	u64 count = 0;           /* atomic */
};
static constinit no_destructor<closed_list> closed;

/* It cannot access other memory, and no device can access its memory. */
static bool is_over(device *dev)
{
	return !dev->eng || ((!dev->attached || dev->stopped()) && !dev->is_mapped_by_lost);
}

static void device_free(device *dev)
{
	memory_forget(dev);
	store_release(&dev->closing, u64(0));
	/* Wait for gates that read a word of its memory. */
	grace_wait();
	device_delete(dev);
}

static void say_retained(device *dev)
{
	log_warn("device %u (%s) was lost and may still write: %llu KiB of host memory are retained until its "
		 "server ends",
		 dev->slot, dev->spec.c_str(), static_cast<unsigned long long>(memory_retained_by(dev) / KiB));
}

/* With the list's lock held. */
static retired_stats count_retained()
{
	retired_stats all = {};

	for (device *dev = closed->first; dev; dev = dev->next_closed) {
		all.devices++;
		all.bytes += memory_retained_by(dev);
	}
	return all;
}

/* With the list's lock held, so that updates of the status page are ordered. */
static void publish()
{
	const retired_stats all = count_retained();

	stats_retain(all.devices, all.bytes);
}

retired_stats retired_get()
{
	std::lock_guard guard(closed->lock);

	return count_retained();
}

void device_retire(device *dev)
{
	if (is_over(dev))
		return device_free(dev);
	say_retained(dev);
	std::lock_guard guard(closed->lock);
	dev->next_closed = closed->first;
	closed->first = dev;
	fetch_add_relaxed(&closed->count, 1);
	publish();
}

/* Unlinks a device that can be freed. */
static device *take_over()
{
	std::lock_guard guard(closed->lock);

	for (device **at = &closed->first; *at; at = &(*at)->next_closed)
		if (device *dev = *at; is_over(dev)) {
			*at = dev->next_closed;
			fetch_sub_relaxed(&closed->count, 1);
			publish();
			return dev;
		}
	return nullptr;
}

void retired_poll()
{
	if (likely(!load_relaxed(&closed->count)))
		return;
	while (device *dev = take_over()) {
		log_info("device %u (%s), closed after its loss, has quiesced: its memory is released", dev->slot,
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
	retired_poll();
}

/* Generation of the memory provided to non-isolated devices, and to each isolated one. */
static u32 generations[1 + max_devices];

static u32 *generation_of(u32 host_reach)
{
	return &generations[host_reach == reach_common ? 0 : 1 + std::countr_zero(host_reach)];
}

u32 host_generation(u32 host_reach)
{
	return load_acquire(generation_of(host_reach));
}

void host_generation_renew(u32 host_reach)
{
	fetch_add_release(generation_of(host_reach), 1);
}

} // namespace usdma::core
