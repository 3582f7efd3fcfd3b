/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mutex biased towards one thread.  When a thread has taken it time after time, the lock becomes that thread's
 * own and costs it plain loads and stores.  A locked RMW drains the store buffer, including stores that miss on
 * ring lines (the device has them), and that took longer than all the rest of a submission.
 *
 * Another thread revokes the bias: it clears the owner, has all CPUs pass a barrier (membarrier(2)) and, once
 * the owner is out, has an ordinary mutex.  Each revocation doubles the number of turns after which the lock is
 * given to a thread again, so that threads that do share it soon have only the mutex.
 *
 * An owner that was stopped on its path in may go on long after others have owned the lock, and then says
 * "inside" and "no, outside" once more.  So each owner has a word of its own to say that in, for good; when all
 * words are given out, a further thread gets the mutex only.
 *
 * Who sees what: an owner's release of its word is what the next holder's acquire reads, and an owner became it
 * under the mutex.  So there is a happens-before for all that is done under the lock, by C++'s own rules, and
 * TSan runs what ships. The barrier of all CPUs makes no such order: it only sees to it that one of the two,
 * owner and taker, finds the other. tests/unit/base/biased_lock_model.cpp runs this very code in all
 * interleavings.
 */
#pragma once

#include "driver/base/barrier.h"

#pragma GCC visibility push(default)
namespace usdma {

/* M: what the lock stands on; machine_memory of biased_lock.h, or a model's memory, threads and barriers. */
template <class M> class biased_lock_over {
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
	bool owned() const { return (load_relaxed(&owner_) ^ M::this_thread()) < owners; }

	static constexpr u32 owners = M::owners, first_turns = M::first_turns, most_turns = M::most_turns;

private:
	template <class T> using word = typename M::template word<T>;
	template <class T> using plain = typename M::template plain<T>;

	/*
	 * Dekker's: "I am inside", then a look whether it was taken from us; take_away() does both the other
	 * way round.
	 */
	bool enter_own()
	{
		const u64 owner = load_relaxed(&owner_), mine = owner ^ M::this_thread();

		if (mine >= owners)
			return false;
		store_relaxed(&inside_[mine], 1u);
		M::barrier_light();
		if (likely(load_relaxed(&owner_) == owner))
			return true;
		store_release(&inside_[mine], 0u);
		return false;
	}
	void lock_shared();
	bool try_lock_shared();
	void unlock_shared();
	bool take_away(bool wait);
	void give();
	void count_turn();
	u32 word_of(u64 thread);

	/* A thread and which word is its own; 0: none.  Set by that thread, cleared by another, both under shared_. */
	word<u64> owner_ = 0;
	word<u32> inside_[owners] = {}; /* that owner holds it, or is about to see that it may not */
	/*
	 * The word of who it is given to, until it is all the way back: whoever holds it meanwhile
	 * came in as its owner.  nullptr: the mutex.  Changed by holders under shared_.
	 */
	plain<word<u32> *> own_ = nullptr;
	typename M::mutex shared_;
	/* These: under shared_. */
	plain<u64> latest_ = 0;
	plain<u32> turns_ = 0, needed_ = first_turns;
	plain<u64> had_[owners] = {}; /* whose the words are */
};

} // namespace usdma
#pragma GCC visibility pop
