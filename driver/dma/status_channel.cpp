/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/status_channel.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/grow.h"

namespace usdma::dma {

int status_channel::make_statuses(u64 slots)
{
	mask_ = slots - 1;
	return try_resize(statuses_, slots) ? 0 : no_memory("a channel's ring");
}

void status_channel::clear_statuses(u64 first)
{
	for (u64 i = first; i - first <= mask_; i++) {
		const bool is_old = s64(ended_ - i) >= 0;
		const bool ran = is_old ? !status_of(i) : s64(handed() - i) >= 0 && status_of(i) == has_run_before;

		store_relaxed(&statuses_[i & mask_], ran ? has_run_before : 0u);
	}
	store_release(&ended_, first - 1);
}

void status_channel::set_ended(u64 i, u32 status)
{
	const bool ran = status_of(i) == has_run_before;
	u64 last = ended_;

	while (last != i)
		store_relaxed(&statuses_[++last & mask_], 0u);
	if (status && !ran)
		store_relaxed(&statuses_[i & mask_], status);
	/* Readers of it see the statuses. */
	store_release(&ended_, last);
}

bool status_channel::has_news(u64 next) const
{
	return has_reports() || (s64(ended() - next) >= 0 && !status_of(next));
}

u64 status_channel::read_news(u64 next)
{
	read_reports();
	while (s64(ended_ - next) >= 0 && !status_of(next))
		next++;
	return next - 1;
}

u32 status_channel::failure() const
{
	const u64 next = collected() + 1;

	return s64(ended() - next) >= 0 ? status_of(next) : 0;
}

bool status_channel::has_halted()
{
	completed(this);
	return failure();
}

} // namespace usdma::dma
