/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/biased_lock.h"

#include <algorithm>
#include <ctime>

namespace usdma {

/* An owner is inside for tens of nanoseconds, unless it was descheduled. */
static void wait_outside(const u32 *inside)
{
	const timespec nap = {0, 50'000};

	/* Acquire: what it did under the lock is seen. */
	for (unsigned i = 0; load_acquire(inside); i++)
		if (i < 100)
			cpu_relax();
		else
			nanosleep(&nap, nullptr);
}

/* With shared_ held: from here on its owner comes in by shared_ as all do.  False: it is inside still, and wait is not set. */
bool biased_lock::take_away(bool wait)
{
	if (!own_)
		return true;
	if (load_relaxed(&owner_)) {
		store_relaxed(&owner_, u64(0));
		/* Behind it the owner either sees that, or we see it inside. */
		barrier_or_wait();
		needed_ = std::min(needed_ * 2, most_turns);
	}
	if (wait)
		wait_outside(own_);
	else if (load_acquire(own_))
		return false;
	own_ = nullptr;
	return true;
}

void biased_lock::lock_shared()
{
	shared_.lock();
	take_away(true);
	count_turn();
}

bool biased_lock::try_lock_shared()
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

void biased_lock::count_turn()
{
	const u64 self = this_thread();

	turns_ = latest_ == self ? turns_ + 1 : 0;
	latest_ = self;
}

/* owners: none is left.  A thread that has ended is not on its way in: its number may be another's now. */
u32 biased_lock::word_of(u64 thread)
{
	u32 i = 0;

	while (i < owners && had_[i] && had_[i] != thread)
		i++;
	if (i < owners)
		had_[i] = thread;
	return i;
}

/* With shared_ held by the thread that gets it. */
void biased_lock::give()
{
	const u64 self = this_thread();
	const u32 word = word_of(self);

	turns_ = 0;
	if (word == owners)
		return;
	own_ = &inside_[word];
	store_relaxed(&owner_, self + word);
}

void biased_lock::unlock_shared()
{
	if (unlikely(may_own && turns_ >= needed_ && asym_barrier_ready()))
		give();
	shared_.unlock();
}

} // namespace usdma
