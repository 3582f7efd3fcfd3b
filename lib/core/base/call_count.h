/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls in progress on an object, counted: whoever ends the object waits for them. */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/futex_lock.h"

#include <climits>

namespace usdma::core {

class call_count {
public:
	/* While the object cannot end: in a read section that saw its handle alive, or under another count. */
	void enter() { __atomic_fetch_add(&n_, 1, __ATOMIC_ACQUIRE); }
	/* The object may be gone when this returns. */
	void leave()
	{
		if (unlikely(__atomic_sub_fetch(&n_, 1, __ATOMIC_ACQ_REL) == draining))
			futex_wake(&n_, INT_MAX);
	}
	/* No call enters any more: the handle is dead, and a grace period is over.  Returns when the last has left. */
	void drain()
	{
		u32 n = __atomic_or_fetch(&n_, draining, __ATOMIC_ACQ_REL);

		for (; n != draining; n = load_acquire(&n_))
			futex_wait_until(&n_, n, now_ns() + look_ns);
	}

private:
	static constexpr u32 draining = 1u << 31;
	static constexpr u64 look_ns = 100 * ns_per_ms;

	u32 n_ = 0; /* futex */
};

} // namespace usdma::core
