/* SPDX-License-Identifier: BSD-3-Clause */
/* The ownership lock, as it ships: biased_lock_over.h says what it is. */
#pragma once

#include "driver/base/asym_barrier.h"
#include "driver/base/biased_lock_over.h"
#include "driver/base/futex_lock.h"

#pragma GCC visibility push(default)
namespace usdma {

/* What the lock stands on. */
struct machine_memory {
	template <class T> using word = T;  /* what several threads load and store, by the helpers of barrier.h */
	template <class T> using plain = T; /* what only its holder touches */
	using mutex = futex_lock;
	static constexpr u32 owners = 4, first_turns = 64, most_turns = 65536;

	/* Another number for each thread that lives, a multiple of 16 at least. */
	static u64 this_thread()
	{
#if defined(__x86_64__)
		u64 self;

		/* The thread pointer. */
		asm("mov %%fs:0, %0" : "=r"(self));
		return self;
#else
		return reinterpret_cast<u64>(__builtin_thread_pointer());
#endif
	}
	static bool barrier_ready()
	{
		return asym_barrier_ready();
	}
	static void barrier_light()
	{
		usdma::barrier_light();
	}
	static void barrier_or_wait()
	{
		usdma::barrier_or_wait();
	}
	/* Until it is 0. */
	static void wait_outside(const u32 *inside);
};

using biased_lock = biased_lock_over<machine_memory>;
extern template class biased_lock_over<machine_memory>;

} // namespace usdma
#pragma GCC visibility pop
