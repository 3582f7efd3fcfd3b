/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For how long a hardware queue with work has been seen to make no progress.  A heartbeat is progress, for a request
 * may be long.  But nothing else holds a device to it: so not for ever, if no request ends.
 */
#pragma once

#include "driver/base/clock.h"

#include <algorithm>

namespace usdma::core {

class watchdog {
public:
	/*
	 * One look; busy: something is pending; waits: it may be for something outside, for as long as that takes.
	 * True: it has hung for limit_ns, or ended nothing for beats times as long.  Who looks may have read
	 * the clock before another one did: then no time has passed.
	 */
	bool look(u64 now, bool busy, u64 completed, u64 heartbeat, u64 limit_ns, bool waits = false)
	{
		const u64 step = std::min(now - std::min(now, looked_), longest_gap(limit_ns));
		const bool none_ended = busy && busy_ && completed == completed_;
		const bool same = none_ended && heartbeat == heartbeat_;

		if (completed != completed_ || heartbeat != heartbeat_)
			moved_ = now;
		still_ns_ = same ? still_ns_ + step : 0;
		beats_ns_ = none_ended && !waits ? beats_ns_ + step : 0;
		only_beats_ = beats_ns_ > beats * limit_ns;
		looked_ = std::max(now, looked_);
		busy_ = busy;
		completed_ = completed;
		heartbeat_ = heartbeat;
		return (same && still_ns_ > limit_ns) || only_beats_;
	}
	/* Nothing has come since the last look. */
	bool as_seen(u64 completed, u64 heartbeat) const
	{
		return completed == completed_ && (heartbeat == heartbeat_ || only_beats_);
	}
	/* Its heart beats, and no request has ended for far too long. */
	bool only_beats() const { return only_beats_; }
	/* Something was done about it: from anew. */
	void restart() { busy_ = false; }
	u64 still_ns() const { return still_ns_; }
	/* When it was last seen to have moved. */
	u64 moved() const { return moved_; }

	static constexpr u64 beats = 100;

private:
	/*
	 * What a look may add.  After a longer pause nobody knows whose it was: a stop signal or a machine
	 * that has no time for this process has stopped an embedded device too, which gets its chance first.
	 */
	static u64 longest_gap(u64 limit_ns)
	{
		return std::max(limit_ns / 4, 60 * ns_per_ms); /* sleepers look every 50 ms */
	}

	u64 completed_ = 0, heartbeat_ = 0;
	u64 looked_ = 0, still_ns_ = 0, beats_ns_ = 0, moved_ = 0;
	bool busy_ = false, only_beats_ = false;
};

} // namespace usdma::core
