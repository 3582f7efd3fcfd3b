/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/info.h"

#include "driver/base/error.h"
#include "driver/base/words.h"

#include <cstdlib>
#include <cstring>

namespace usdma::core {

static bool all_digits(const char *s)
{
	return *s && strspn(s, "0123456789") == strlen(s);
}

int device_open_name(const char *name, device **out)
{
	const int n = device_count();

	if (n < 0)
		return n;
	if (name && !all_digits(name))
		return device_get_by_name(name, out);
	u64 slot;

	if (!number_parse(name ? name : "0", &slot) || slot >= unsigned(n))
		return fail(ENODEV, "there is no device %s: there are %d", name ? name : "0", n);
	return device_get(unsigned(slot), out);
}

bool pageable_by_cpu(const dma::engine_limits &l, check_timing timing)
{
	return l.caps & dma::cap_memory_cached && timing == check_timing::plain &&
	       config_get().pageable == pageable_mode::automatic;
}

static void add_hw_queue(device_stats *st, const hw_queue &l)
{
	st->streams += load_relaxed(&l.streams);
	st->copies += load_relaxed(&l.count->copies);
	st->bytes += load_relaxed(&l.count->bytes);
	st->requests += load_relaxed(&l.count->requests);
	st->doorbells += load_relaxed(&l.count->doorbells);
	st->wakes += load_relaxed(&l.count->wakes);
	st->faults += load_relaxed(&l.count->faults);
	st->sleeps += load_relaxed(&l.count->sleeps);
	st->spins += load_relaxed(&l.count->spins);
}

device_stats device_stats_get(device *dev)
{
	device_stats st = {};
	std::lock_guard guard(dev->lock);

	for (const auto &l : dev->hw_queues)
		if (l)
			add_hw_queue(&st, *l);
	return st;
}

stream_stats stream_stats_get(const stream *s)
{
	return {load_relaxed(&s->copies), load_relaxed(&s->bytes), load_relaxed(&s->errors), 0};
}

} // namespace usdma::core
