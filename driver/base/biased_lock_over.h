/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A mutex biased towards one thread. When a thread has acquired it many times in a row, the lock becomes biased
 * to that thread, which then acquires it by plain loads and stores. A locked RMW drains the store buffer,
 * including stores that miss on ring lines (the device has them), and that took longer than all the rest of a
 * submission.
 *
 * Another thread revokes the bias: it clears the owner, makes all CPUs execute a barrier (membarrier(2)) and,
 * once the owner has left its critical section, uses an ordinary mutex. Each revocation doubles the number of
 * consecutive acquisitions after which the lock is biased again, so that a lock that threads do share soon
 * stays a plain mutex.
 *
 * An owner that is descheduled while it enters may resume long after other threads have owned the lock, and
 * then sets and clears its "inside" flag once more. So each owner has a flag of its own that is never
 * reassigned; when all flags are in use, further threads get the mutex only.
 *
 * Happens-before: the next holder's acquire reads an owner's release of its flag, and a thread becomes owner
 * under the mutex. This orders all accesses under the lock by C++'s rules, and TSan checks the production code.
 * The barrier on all CPUs adds no such order: it only guarantees that the owner or the revoking thread sees the
 * other. tests/unit/base/biased_lock_model.cpp runs this code in all interleavings.
 */
#pragma once

#include "driver/base/barrier.h"

#pragma GCC visibility push(default)
namespace usdma {

/* M: the platform: machine_memory of biased_lock.h, or a model's memory, threads and barriers. */
template <class M> class biased_lock_over {
public:
	void lock()
	{
		if (unlikely(!enter_own()))
			lock_shared();
	}
	bool try_lock() { return enter_own() || try_lock_shared(); }
	/* Succeeds only if the lock is biased to this thread. */
	bool try_lock_own() { return enter_own(); }

	/* A full barrier, as futex_lock::unlock(). */
	void unlock()
	{
		if (likely(own_))
			store_fence(own_, 0u);
		else
			unlock_shared();
	}
	/* Release semantics only. */
	void unlock_light()
	{
		if (likely(own_))
			store_release(own_, 0u);
		else
			unlock_shared();
	}

	/* As unlock_light(), after try_lock_own(). */
	void unlock_own() { store_release(own_, 0u); }

	/* For tests: whether the lock is biased to this thread. */
	bool owned() const { return (load_relaxed(&owner_) ^ M::this_thread()) < owners; }

	static constexpr u32 owners = M::owners, first_turns = M::first_turns, most_turns = M::most_turns;

private:
	template <class T> using word = typename M::template word<T>;
	template <class T> using plain = typename M::template plain<T>;

	/*
	 * Dekker: sets "inside", then checks that it is still the owner; revoke() clears the owner, then checks
	 * "inside".
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
	bool revoke(bool wait);
	void give();
	void count_turn();
	u32 word_of(u64 thread);

	/*
	 * Owning thread and the index of its flag; 0: none. Set by that thread, cleared by another, both under
	 * shared_.
	 */
	word<u64> owner_ = 0;
	word<u32> inside_[owners] = {}; /* that owner holds the lock, or is about to see that it was revoked */
	/*
	 * The owner's flag until its bias is fully revoked; meanwhile every holder entered as owner. nullptr: the
	 * mutex is in use. Changed by holders under shared_.
	 */
	plain<word<u32> *> own_ = nullptr;
	typename M::mutex shared_;
	/* Protected by shared_. */
	plain<u64> latest_ = 0;
	plain<u32> turns_ = 0, needed_ = first_turns;
	plain<u64> had_[owners] = {}; /* thread to which each flag is assigned */
};

} // namespace usdma
#pragma GCC visibility pop
