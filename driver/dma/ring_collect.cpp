/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions of a ring_channel. Any caller of completed() reads the hardware's report first, one at a time. Another
 * that finds nothing new in the report, without the lock, sees the record that the first has stored, as the report
 * counts as read only afterwards: a waiter that has armed its interrupt and reads the record again misses nothing.
 */
#include "driver/base/barrier.h"
#include "driver/dma/ring_channel.h"

#include <mutex>

namespace usdma::dma {

void ring_channel::collect()
{
	const u64 next = collected() + 1;

	if (s64(handed() - next) < 0 || !has_news(next))
		return;
	std::lock_guard holding(collect_lock_);
	const u64 from = collected_, last = read_news(from + 1);

	/* The device may report anything. */
	if (s64(last - from) > 0 && s64(handed() - last) >= 0) {
		store_release(&record_->completed, last + shift_);
		/* After the record: has_news() of others is about what follows. */
		store_release(&collected_, last);
	}
	took_news();
}

/* Request seq, and with it slot i, counts as completed, whatever the hardware reports: it is idle, or stopped. */
void ring_channel::set_completed(u64 seq, u64 i)
{
	std::lock_guard holding(collect_lock_);

	shift_ = seq - i;
	store_release(&record_->completed, seq);
	store_release(&collected_, i);
}

} // namespace usdma::dma
