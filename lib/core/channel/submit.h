/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only path into a ring: whoever has requests for a channel comes by here, with the hardware queue's lock held.
 *
 * Both functions call count() when the requests are in the ring and before the device hears of them: who sees that they
 * have ended sees them counted.
 */
#pragma once

#include "lib/core/base/trace.h"
#include "lib/core/device/device.h"

#include <algorithm>

namespace usdma::core {

/*
 * After the doorbell.  What was posted must be visible before this look at whether the device sleeps.  The device sets
 * asleep, then looks at the ring: one of the two sees the other.
 */
[[gnu::always_inline]] inline void hwq_wake(hw_queue *l)
{
	dma::channel *const ch = l->ch;

	if (likely(ch->asleep_ordered))
		barrier_light();
	else
		barrier_full();
	if (unlikely(load_relaxed(ch->asleep))) {
		ch->ops->wake(ch);
		__atomic_fetch_add(&l->count->wakes, 1, __ATOMIC_RELAXED);
	}
}

[[gnu::always_inline]] inline void hwq_count(hw_queue *l, u64 requests)
{
	hwq_counters *const count = l->count;

	store_relaxed(&count->doorbells, count->doorbells + 1);
	store_relaxed(&count->requests, count->requests + requests);
}

/* As many of n as fit: that many. */
template <class Count>
[[gnu::always_inline]] inline unsigned hwq_submit(hw_queue *l, const dma::request *r, size_t n, const Count &count)
{
	dma::channel *const ch = l->ch;
	const unsigned done = ch->ops->post(ch, r, unsigned(std::min<size_t>(n, ch->ring_size)));

	if (unlikely(!done))
		return 0;
	count(done);
	hwq_count(l, done);
	trace_submit(ch, done);
	ch->ops->doorbell(ch);
	trace_doorbell(ch);
	hwq_wake(l);
	return done;
}

/* One copy, with nothing of it in memory but its descriptor.  False: no room, or an engine that has no such call. */
template <class Count>
[[gnu::always_inline]] inline bool hwq_submit_copy(hw_queue *l, u32 spaces, u64 src, u64 dst, u64 len, u64 cookie,
						   const Count &count)
{
	dma::channel *const ch = l->ch;

	if (unlikely(ch->posted == ch->post_limit || !ch->ops->submit_copy))
		return false;
	count();
	hwq_count(l, 1);
	ch->ops->submit_copy(ch, spaces, src, dst, len, cookie);
	trace_submit(ch, 1);
	trace_doorbell(ch);
	hwq_wake(l);
	return true;
}

} // namespace usdma::core
