/* SPDX-License-Identifier: BSD-3-Clause */
/* The out-of-line part of the biased lock, for biased_lock.cpp, which instantiates it, and for the model check. */
#pragma once

#include "driver/base/biased_lock_over.h"

#include <algorithm>

namespace usdma {

/*
 * Revokes the bias with shared_ held: the owner then enters by shared_ like any thread. False: the owner is
 * still inside and wait is not set.
 */
template <class M> bool biased_lock_over<M>::revoke(bool wait)
{
	if (!own_)
		return true;
	if (load_relaxed(&owner_)) {
		store_relaxed(&owner_, u64(0));
		/* After this barrier the owner sees the cleared owner_, or we see its flag. */
		M::barrier_or_wait();
		needed_ = std::min<u32>(needed_ * 2, most_turns);
	}
	if (wait)
		M::wait_outside(own_);
	else if (load_acquire(own_))
		return false;
	own_ = nullptr;
	return true;
}

template <class M> void biased_lock_over<M>::lock_shared()
{
	shared_.lock();
	revoke(true);
	count_turn();
}

template <class M> bool biased_lock_over<M>::try_lock_shared()
{
	if (!shared_.try_lock())
		return false;
	if (!revoke(false)) {
		shared_.unlock();
		return false;
	}
	count_turn();
	return true;
}

template <class M> void biased_lock_over<M>::count_turn()
{
	const u64 self = M::this_thread();

	turns_ = latest_ == self ? turns_ + 1 : 0;
	latest_ = self;
}

/* Returns `owners` if no flag is left. A flag may be reused for a new thread with the ID of one that has ended. */
template <class M> u32 biased_lock_over<M>::word_of(u64 thread)
{
	u32 i = 0;

	while (i < owners && had_[i] && had_[i] != thread)
		i++;
	if (i < owners)
		had_[i] = thread;
	return i;
}

/* Biases the lock to the calling thread, which holds shared_. */
template <class M> void biased_lock_over<M>::give()
{
	const u64 self = M::this_thread();
	const u32 mine = word_of(self);

	turns_ = 0;
	if (mine == owners)
		return;
	own_ = &inside_[mine];
	store_relaxed(&owner_, self + mine);
}

template <class M> void biased_lock_over<M>::unlock_shared()
{
	if (unlikely(turns_ >= needed_ && M::barrier_ready()))
		give();
	shared_.unlock();
}

} // namespace usdma
