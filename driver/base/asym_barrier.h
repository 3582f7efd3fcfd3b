/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asymmetric barrier for Dekker-style protocols: two sides each publish a flag and then read the other's, which
 * needs a full barrier between store and load on both sides. Where one side runs often and the other rarely,
 * the rare side pays for both: barrier_for_all() makes every running thread of the process execute a full
 * barrier (membarrier(2), private expedited), and the frequent side needs a compiler barrier only.
 */
#pragma once

#include "driver/base/barrier.h"

#pragma GCC visibility push(default)
namespace usdma {

/*
 * Registers this process at the first call. False: the kernel or a seccomp filter refuses; both sides then need
 * full barriers.
 */
bool asym_barrier_ready();

/* For the rare side; takes microseconds. False: refused. */
bool barrier_for_all();

/*
 * As barrier_for_all(), for callers that relied on asym_barrier_ready(). If a filter that the program installed
 * later forbids membarrier(2), it sleeps for a millisecond: stores leave a CPU's store buffer in well under
 * that.
 */
void barrier_or_wait();

/* For the frequent side; both sides use barrier_full() if asym_barrier_ready() returned false. */
inline void barrier_light()
{
	asm volatile("" ::: "memory");
}

} // namespace usdma
#pragma GCC visibility pop
