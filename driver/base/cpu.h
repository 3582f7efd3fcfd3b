/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/barrier.h"

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define usdma_has_rseq 1
#endif

namespace usdma {

/*
 * 1 + the CPU on which this thread runs, or ran a moment ago; 0: unknown. Reads the rseq area that the C
 * library registers: sched_getcpu() may fall back to a system call, which is slow and may be forbidden by a
 * sandbox. Unknown with an older C library, in valgrind, or with rseq disabled (glibc.pthread.rseq=0).
 */
inline u32 this_cpu()
{
#ifdef usdma_has_rseq
	if (likely(__rseq_size)) {
		const auto *at = static_cast<const char *>(__builtin_thread_pointer()) + __rseq_offset;
		const u32 cpu = load_relaxed(&reinterpret_cast<const struct rseq *>(at)->cpu_id);

		return s32(cpu) < 0 ? 0 : cpu + 1; /* negative: not registered */
	}
#endif
	return 0;
}

} // namespace usdma
