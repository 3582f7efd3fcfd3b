/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two sides that each publish something and then look whether the other has: both need
 * a full barrier in between, or neither may see the other.  Where one side does it all
 * the time and the other hardly ever, the rare one pays for both: barrier_for_all() has
 * every running thread of the process pass a full barrier (membarrier(2), private
 * expedited), and the frequent one only keeps the compiler from changing the order.
 */
#pragma once

#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma {

/* Registers this process by the first call.  False: the kernel or a filter refuses; then both sides need barriers. */
bool asym_barrier_ready();

/* The rare side's; takes microseconds.  False: refused. */
bool barrier_for_all();

/*
 * The same for who relied on asym_barrier_ready(): where it is refused after all, by a filter that
 * the program set up later, it waits for a millisecond, for stores leave a CPU in well under one.
 */
void barrier_or_wait();

/* The frequent side's. */
inline void barrier_light()
{
	asm volatile("" ::: "memory");
}

/* Both sides' where not asym_barrier_ready(). */
inline void barrier_full()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

} // namespace usdma
#pragma GCC visibility pop
