/* SPDX-License-Identifier: BSD-3-Clause */
/* Cheap time stamps: the CPU's counter if user space can read it. */
#pragma once

#include "driver/base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace usdma::perf {

inline u64 ticks()
{
#if defined(__x86_64__)
	/* Orders the loads before it: a time stamp after a wait includes the wait. */
	_mm_lfence();
	return __rdtsc();
#else
	return now_ns();
#endif
}

/* Measured once against the monotonic clock. */
double ns_per_tick();

/* Keeps the compiler from removing a copy whose result is not read. */
inline void keep()
{
	asm volatile("" ::: "memory");
}

} // namespace usdma::perf
