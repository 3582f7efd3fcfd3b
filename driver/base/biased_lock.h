/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mutex that becomes one thread's own when only that thread takes it, time after time:
 * from then on it costs that thread plain loads and stores.  Locked instructions wait until
 * all stores before them have left the CPU, those into lines that the device reads, too;
 * that took longer than all the rest of a submission.
 *
 * Another thread takes it from its owner with a barrier of all CPUs and, once the owner is out,
 * has an ordinary mutex.  Each time doubles the number of turns after which it is given
 * to a thread again, so that threads that do share it soon have only the mutex.
 */
#pragma once

#include "driver/base/asym_barrier.h"
#include "driver/base/barrier.h"
#include "driver/base/futex_lock.h"

#pragma GCC visibility push(default)
namespace usdma {

class biased_lock {
public:
	void lock()
	{
		if (unlikely(!enter_own()))
			lock_shared();
	}
	bool try_lock() { return enter_own() || try_lock_shared(); }

	/* A full barrier, as futex_lock's. */
	void unlock()
	{
		if (likely(own_))
			store_fence(&inside_, 0u);
		else
			unlock_shared();
	}
	/* Orders what was done under the lock before its release, and nothing else. */
	void unlock_light()
	{
		if (likely(own_))
			store_release(&inside_, 0u);
		else
			unlock_shared();
	}

	/* For tests: it is this thread's own now. */
	bool owned() const { return load_relaxed(&owner_) == this_thread(); }

	static constexpr u32 first_turns = 64, most_turns = 65536;
	/* The race checker does not know that barrier, and would see no order between an owner and the next. */
#if defined(__SANITIZE_THREAD__)
	static constexpr bool may_own = false;
#else
	static constexpr bool may_own = true;
#endif

private:
	static u64 this_thread()
	{
#if defined(__x86_64__)
		u64 self;

		/* The thread pointer: another number for each thread that lives. */
		asm("mov %%fs:0, %0" : "=r"(self));
		return self;
#else
		return reinterpret_cast<u64>(__builtin_thread_pointer());
#endif
	}

	/* Dekker's: "I am inside", then a look whether it was taken from us; take_away() does both the other way round. */
	bool enter_own()
	{
		const u64 self = this_thread();

		if (load_relaxed(&owner_) != self)
			return false;
		store_relaxed(&inside_, 1u);
		barrier_light();
		if (likely(load_relaxed(&owner_) == self))
			return true;
		store_release(&inside_, 0u);
		return false;
	}
	void lock_shared();
	bool try_lock_shared();
	void unlock_shared();
	void take_away();
	void count_turn();

	u64 owner_ = 0;    /* a thread; 0: nobody's.  Set by that thread, cleared by another, both under shared_ */
	u32 inside_ = 0;   /* the owner holds it, or is about to see that it may not */
	bool own_ = false; /* given away, and not all the way back: whoever holds it came in as its owner.  Changed by holders under shared_ */
	futex_lock shared_;
	u64 latest_ = 0; /* these: under shared_ */
	u32 turns_ = 0, needed_ = first_turns;
};

} // namespace usdma
#pragma GCC visibility pop
