/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the ownership lock that is not inline.  For biased_lock.cpp, which has it compiled once, and for
 * the model check.
 */
#pragma once

#include "driver/base/biased_lock_over.h"

#include <algorithm>

namespace usdma {

/*
 * With shared_ held: from here on its owner comes in by shared_ as all do.  False: it is inside still, and wait
 * is not set.
 */
template <class M> bool biased_lock_over<M>::take_away(bool wait)
{
	if (!own_)
		return true;
	if (load_relaxed(&owner_)) {
		store_relaxed(&owner_, u64(0));
		/* Behind it the owner either sees that, or we see it inside. */
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
	take_away(true);
	count_turn();
}

template <class M> bool biased_lock_over<M>::try_lock_shared()
{
	if (!shared_.try_lock())
		return false;
	if (!take_away(false)) {
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

/* owners: none is left.  A thread that has ended is not on its way in: its number may be another's now. */
template <class M> u32 biased_lock_over<M>::word_of(u64 thread)
{
	u32 i = 0;

	while (i < owners && had_[i] && had_[i] != thread)
		i++;
	if (i < owners)
		had_[i] = thread;
	return i;
}

/* With shared_ held by the thread that gets it. */
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
