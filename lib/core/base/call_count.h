/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts calls in progress on an object; destroying the object waits for them. */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/futex_lock.h"
#include "driver/base/wakes.h"

#include <climits>

namespace usdma::core {

class call_count {
public:
	/* Inside a read section that validated the handle, or under another count. */
	void enter() { fetch_add_acquire(&n_, 1); }
	/* The object may be freed when this returns. */
	void leave()
	{
		if (unlikely(fetch_sub_acq_rel(&n_, 1) == draining + 1))
			futex_wake(&n_, INT_MAX);
	}
	/*
	 * Waits for all calls. Call after the handle was invalidated and a grace period has passed. False: some are
	 * still in progress at until_ns.
	 */
	bool drain(u64 until_ns = ~u64(0))
	{
		u32 n = fetch_or_acq_rel(&n_, draining) | draining;

		for (; n != draining; n = load_acquire(&n_)) {
			if (now_ns() >= until_ns)
				return false;
			futex_wait_checked(&n_, n, draining, until_ns, recheck_ns);
		}
		return true;
	}

private:
	static constexpr u32 draining = 1u << 31;
	static constexpr u64 recheck_ns = 100 * ns_per_ms;

	u32 n_ = 0; /* futex */
};

} // namespace usdma::core
