/* SPDX-License-Identifier: BSD-3-Clause */
/* Time stamps that cost little: the CPU's counter where it has one that can be read from user space. */
#pragma once

#include "driver/base/clock.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace usdma::perf {

inline u64 ticks()
{
#if defined(__x86_64__)
	/* The loads before it are done: what was waited for has been seen. */
	_mm_lfence();
	return __rdtsc();
#else
	return now_ns();
#endif
}

/* Measured once against the monotonic clock. */
double ns_per_tick();

/* So that the compiler keeps a copy whose bytes nobody reads. */
inline void keep()
{
	asm volatile("" ::: "memory");
}

} // namespace usdma::perf
