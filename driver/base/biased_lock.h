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
 *
 * An owner that was stopped on its way in may go on long after others have owned the lock, and
 * then says "inside" and "no, outside" once more.  So each owner has a word of its own to say
 * that in, for good; when all words are given out, a further thread gets the mutex only.
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
	/* Only where it is this thread's own. */
	bool try_lock_own() { return enter_own(); }

	/* A full barrier, as futex_lock's. */
	void unlock()
	{
		if (likely(own_))
			store_fence(own_, 0u);
		else
			unlock_shared();
	}
	/* Orders what was done under the lock before its release, and nothing else. */
	void unlock_light()
	{
		if (likely(own_))
			store_release(own_, 0u);
		else
			unlock_shared();
	}

	/* As unlock_light(), after try_lock_own(). */
	void unlock_own() { store_release(own_, 0u); }

	/* For tests: it is this thread's own now. */
	bool owned() const { return (load_relaxed(&owner_) ^ this_thread()) < owners; }

	static constexpr u32 owners = 4, first_turns = 64, most_turns = 65536;
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

		/* The thread pointer: another number for each thread that lives, a multiple of 16 at least. */
		asm("mov %%fs:0, %0" : "=r"(self));
		return self;
#else
		return reinterpret_cast<u64>(__builtin_thread_pointer());
#endif
	}

	/* Dekker's: "I am inside", then a look whether it was taken from us; take_away() does both the other way round. */
	bool enter_own()
	{
		const u64 owner = load_relaxed(&owner_), word = owner ^ this_thread();

		if (word >= owners)
			return false;
		store_relaxed(&inside_[word], 1u);
		barrier_light();
		if (likely(load_relaxed(&owner_) == owner))
			return true;
		store_release(&inside_[word], 0u);
		return false;
	}
	void lock_shared();
	bool try_lock_shared();
	void unlock_shared();
	bool take_away(bool wait);
	void give();
	void count_turn();
	u32 word_of(u64 thread);

	u64 owner_ = 0; /* a thread and which word is its own; 0: nobody's.  Set by that thread, cleared by another, both under shared_ */
	u32 inside_[owners] = {}; /* that owner holds it, or is about to see that it may not */
	/*
	 * The word of who it is given to, until it is all the way back: whoever holds it meanwhile
	 * came in as its owner.  nullptr: the mutex.  Changed by holders under shared_.
	 */
	u32 *own_ = nullptr;
	futex_lock shared_;
	/* These: under shared_. */
	u64 latest_ = 0;
	u32 turns_ = 0, needed_ = first_turns;
	u64 had_[owners] = {}; /* whose the words are */
};

} // namespace usdma
#pragma GCC visibility pop
