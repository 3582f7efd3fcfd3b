/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detects that a hardware queue with pending work makes no progress. A heartbeat counts as progress, as a
 * request may be long, but only for a limited time without a completion.
 */
#pragma once

#include "driver/base/clock.h"

#include <algorithm>

namespace usdma::core {

class watchdog {
public:
	/*
	 * Takes a sample. busy: work is pending; waits: it may be in a WAIT, for any time. True: no progress
	 * for limit_ns, or no completion for beats * limit_ns. Samples of concurrent callers may be out of
	 * order; a late one adds no time.
	 */
	bool sample(u64 now, bool busy, u64 completed, u64 heartbeat, u64 limit_ns, bool waits = false)
	{
		const u64 step = std::min(now - std::min(now, sampled_), longest_gap(limit_ns));
		const bool none_ended = busy && busy_ && completed == completed_;
		const bool same = none_ended && heartbeat == heartbeat_;

		if (completed != completed_ || heartbeat != heartbeat_)
			moved_ = now;
		still_ns_ = same ? still_ns_ + step : 0;
		beats_ns_ = none_ended && !waits ? beats_ns_ + step : 0;
		only_beats_ = beats_ns_ > beats * limit_ns;
		sampled_ = std::max(now, sampled_);
		busy_ = busy;
		completed_ = completed;
		heartbeat_ = heartbeat;
		return (same && still_ns_ > limit_ns) || only_beats_;
	}
	/* No progress since the last sample. */
	bool as_seen(u64 completed, u64 heartbeat) const
	{
		return completed == completed_ && (heartbeat == heartbeat_ || only_beats_);
	}
	/* Heartbeats, but no completion within the limit. */
	bool only_beats() const { return only_beats_; }
	/* Restarts the measurement after a recovery step. */
	void restart() { busy_ = false; }
	u64 still_ns() const { return still_ns_; }
	/* Time of the last progress. */
	u64 moved() const { return moved_; }

	static constexpr u64 beats = 100;

private:
	/*
	 * Longest time that one sample may add. A longer gap may be due to a stopped or starved process, in
	 * which an embedded device did not run either.
	 */
	static u64 longest_gap(u64 limit_ns)
	{
		return std::max(limit_ns / 4, 60 * ns_per_ms); /* sleepers sample every 50 ms */
	}

	u64 completed_ = 0, heartbeat_ = 0;
	u64 sampled_ = 0, still_ns_ = 0, beats_ns_ = 0, moved_ = 0;
	bool busy_ = false, only_beats_ = false;
};

} // namespace usdma::core
