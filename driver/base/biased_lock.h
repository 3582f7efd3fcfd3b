/* SPDX-License-Identifier: BSD-3-Clause */
/* The biased lock on real memory and threads; biased_lock_over.h describes the algorithm. */
#pragma once

#include "driver/base/asym_barrier.h"
#include "driver/base/biased_lock_over.h"
#include "driver/base/futex_lock.h"

#pragma GCC visibility push(default)
namespace usdma {

/* Platform parameters of biased_lock_over. */
struct machine_memory {
	template <class T> using word = T;  /* shared between threads; accessed by the helpers of barrier.h */
	template <class T> using plain = T; /* accessed only by the lock holder */
	using mutex = futex_lock;
	static constexpr u32 owners = 4, first_turns = 64, most_turns = 65536;

	/* Unique among living threads; a multiple of 16 at least. */
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
	/* Returns once *inside is 0. */
	static void wait_outside(const u32 *inside);
};

using biased_lock = biased_lock_over<machine_memory>;
extern template class biased_lock_over<machine_memory>;

} // namespace usdma
#pragma GCC visibility pop
