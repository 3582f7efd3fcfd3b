/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mutex of one word: no system call without contention.
 *   unlock()        one locked instruction, a full barrier: stores under the lock are visible before any later load of
 *                   this thread
 *   unlock_light()  plain loads and stores, release semantics. It may miss a thread that is just going to sleep on the
 *                   lock: that one tries again soon.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma {

class futex_lock {
public:
	void lock()
	{
		u32 zero = 0;

		if (unlikely(!cmpxchg_acquire(&word_, &zero, 1)))
			lock_slow();
	}
	/* False: not until this time of CLOCK_MONOTONIC. For locks that are held for long: only with unlock(). */
	bool lock_until(u64 abs_ns);
	bool try_lock()
	{
		u32 zero = 0;

		return cmpxchg_acquire(&word_, &zero, 1);
	}
	void unlock()
	{
		if (unlikely(exchange_fence(&word_, 0) == 2))
			wake_one();
	}
	void unlock_light()
	{
		if (likely(load_relaxed(&word_) == 1))
			store_release(&word_, 0u);
		else
			unlock();
	}

private:
	void lock_slow();
	void wake_one();

	u32 word_ = 0; /* 0: free, 1: held, 2: held with waiters */
};

/* futex(2) on a private word; waits at most until the absolute CLOCK_MONOTONIC time. 0, -EAGAIN, -EINTR, -ETIMEDOUT. */
int futex_wait_until(u32 *word, u32 expected, u64 abs_ns);
void futex_wake(u32 *word, int count);
/* The same on a word in shared memory, also of other processes. */
int futex_wait_shared(u32 *word, u32 expected, u64 abs_ns);
void futex_wake_shared(u32 *word, int count);

} // namespace usdma
#pragma GCC visibility pop
