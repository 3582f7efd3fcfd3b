/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring_channel of a device that writes a status for each slot, into the slot or into a ring of completions, and goes
 * on after one that failed. This base keeps the statuses, completes requests up to the first that failed, and knows
 * which of those behind it have run. The driver adds where a status is.
 *
 * What the device must do: end slots in the order of their numbers; write a status after the data of its slot. What it
 * need not do: stop at an error, or report each slot; one report may be that of several slots.
 *
 * Requests behind a failed one may have run before the driver stops the device, also those of the same stream. They do
 * not run again, but those among them that failed do. In the slot of one that has run is then a nop: if that fails, the
 * request has ended well all the same.
 */
#pragma once

#include "driver/dma/ring_channel.h"

namespace usdma::dma {

class status_channel : public ring_channel {
protected:
	using ring_channel::ring_channel;

	/* In open(): as many as the ring has slots. -ENOMEM. */
	int make_statuses(u64 slots);
	/*
	 * In start(first), before the device is started: nothing has ended yet. Old reports in memory are to be
	 * cleared before that, with collect_lock_ held.
	 */
	void clear_statuses(u64 first);
	/* In read_reports(): slots up to i have ended; i with this status, not 0 if it has failed. Up to handed(). */
	void set_ended(u64 i, u32 status);

	/* Number of the last slot that has ended, well or not. */
	u64 ended() const { return load_acquire(&ended_); }
	/* Status of the first slot that has not completed, if it has ended; 0: none has failed. */
	u32 failure() const;

	/* Hot, without a lock, any thread: memory says that a slot behind ended() has ended. */
	virtual bool has_reports() const = 0;
	/* One thread at a time: calls set_ended() for what has ended since, in order. */
	virtual void read_reports() = 0;

private:
	static constexpr u32 has_run_before = ~0u; /* status of a slot behind ended_; no other there is read */

	bool has_news(u64 next) const override;
	u64 read_news(u64 next) override;
	bool has_halted() override;
	bool has_run(u64 i) const override { return s64(ended() - i) >= 0 && !status_of(i); }
	u32 status_of(u64 i) const { return load_relaxed(&statuses_[i & mask_]); }

	/* Changed with collect_lock_ held; read by any thread. */
	std::vector<u32> statuses_; /* of slots up to ended_ */
	u64 mask_ = 0, ended_ = 0;
};

} // namespace usdma::dma
