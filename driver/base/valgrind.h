/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/types.h"

namespace usdma {

/*
 * Whether the process runs in valgrind, by valgrind's documented client request (valgrind.h,
 * RUNNING_ON_VALGRIND): its instructions have no effect on a CPU and need no header of valgrind.
 */
inline bool on_valgrind()
{
	const u64 request[6] = {0x1001};
	u64 answer = 0;

#if defined(__x86_64__)
	asm volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
		     : "+d"(answer)
		     : "a"(request)
		     : "cc", "memory");
#elif defined(__aarch64__)
	asm volatile("mov x3, %0; mov x4, %1\n"
		     "ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61; orr x10, x10, x10\n"
		     "mov %0, x3"
		     : "+r"(answer)
		     : "r"(request)
		     : "cc", "memory", "x3", "x4");
#else
	(void)request;
#endif
	return answer != 0;
}

} // namespace usdma
