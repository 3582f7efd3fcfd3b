/* SPDX-License-Identifier: BSD-3-Clause */
/* For how long a lane with work has been seen to make no progress. */
#pragma once

#include "driver/base/clock.h"

#include <algorithm>

namespace usdma::core {

class stillness {
public:
	/*
	 * One look; busy: something is pending.  True: it has stood still for limit_ns.  Who looks may have read the
	 * clock before another one did: then no time has passed.
	 */
	bool look(u64 now, bool busy, u64 completed, u64 heartbeat, u64 limit_ns)
	{
		const bool same = busy && busy_ && as_seen(completed, heartbeat);

		if (completed != completed_ || heartbeat != heartbeat_)
			moved_ = now;
		still_ns_ = same ? still_ns_ + std::min(now - std::min(now, looked_), longest_gap(limit_ns)) : 0;
		looked_ = std::max(now, looked_);
		busy_ = busy;
		completed_ = completed;
		heartbeat_ = heartbeat;
		return same && still_ns_ > limit_ns;
	}
	bool as_seen(u64 completed, u64 heartbeat) const { return completed == completed_ && heartbeat == heartbeat_; }
	/* Something was done about it: from anew. */
	void restart() { busy_ = false; }
	u64 still_ns() const { return still_ns_; }
	/* When it was last seen to have moved. */
	u64 moved() const { return moved_; }

private:
	/*
	 * What a look may add.  After a longer pause nobody knows whose it was: a stop signal or a machine
	 * that has no time for this process has stopped an embedded device too, which gets its chance first.
	 */
	static u64 longest_gap(u64 limit_ns) { return std::max(limit_ns / 4, 60 * ns_per_ms); /* sleepers look every 50 ms */ }

	u64 completed_ = 0, heartbeat_ = 0;
	u64 looked_ = 0, still_ns_ = 0, moved_ = 0;
	bool busy_ = false;
};

} // namespace usdma::core
