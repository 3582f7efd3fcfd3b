/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The only functions that post to a ring; called with the hardware queue's lock held.
 *
 * Both call count() before the doorbell, so that a reader that sees the requests completed sees them counted.
 */
#pragma once

#include "driver/base/asym_barrier.h"
#include "lib/core/base/trace.h"
#include "lib/core/device/device.h"

#include <algorithm>

namespace usdma::core {

/*
 * Called after the doorbell. The barrier orders the post before the load of asleep. The device stores asleep,
 * then loads the ring: one of the two sees the other's store.
 */
[[gnu::always_inline]] inline void hwq_wake(hw_queue *l)
{
	dma::channel *const ch = l->ch;

	if (likely(ch->asleep_ordered))
		barrier_light();
	else
		barrier_full();
	if (unlikely(load_relaxed(ch->asleep) && dma::claim_wake(ch))) {
		ch->ops->wake(ch);
		fetch_add_relaxed(&l->count->wakes, 1);
	}
}

[[gnu::always_inline]] inline void hwq_count(hw_queue *l, u64 requests)
{
	hwq_counters *const count = l->count;

	store_relaxed(&count->doorbells, count->doorbells + 1);
	store_relaxed(&count->requests, count->requests + requests);
}

/* Posts as many of n as fit; returns their number, which is then to be announced. */
template <class Count>
[[gnu::always_inline]] inline unsigned hwq_post(hw_queue *l, const dma::request *r, size_t n, const Count &count)
{
	dma::channel *const ch = l->ch;
	const unsigned done = ch->ops->post(ch, r, unsigned(std::min<size_t>(n, ch->ring_size)));

	if (unlikely(!done))
		return 0;
	count(done);
	hwq_count(l, done);
	trace_submit(ch, done);
	return done;
}

/* May be a message to the device's server: outside of read sections. */
[[gnu::always_inline]] inline void hwq_announce(hw_queue *l)
{
	dma::channel *const ch = l->ch;

	ch->ops->doorbell(ch);
	trace_doorbell(ch);
	hwq_wake(l);
}

/* Posts one copy without a request in memory. False: ring full, or not supported by the engine. */
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
