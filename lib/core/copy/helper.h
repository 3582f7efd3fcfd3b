/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread of the library that makes a part of long copies by the CPU, and of long reads from the page cache. It takes
 * parts only while it runs on another CPU than the caller, and leaves the caller's: without a free CPU the caller makes
 * the whole copy.
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::core {

/*
 * From this length on. It is woken for so much in one copy, or in several in a row: the system call takes 8 to 31 us in
 * a virtual machine, and on a busy machine it may be preempted in a part that the caller waits for.
 */
inline constexpr u64 helped_from = MiB, woken_from = 4 * MiB;

/* A copy that two threads make, in parts. */
struct shared_work {
	static constexpr u64 none = ~u64(0);

	/* Copies [from, to). Not 0: its thread takes no more parts. */
	int (*copy)(void *arg, u64 from, u64 to);
	void *arg;
	u64 size;
	u64 part;          /* bytes of one, the last may be shorter */
	u64 next = 0;      /* start of the next part; atomic */
	u64 failed = none; /* start of the part that the helper could not copy */
	u32 cpu = 0;       /* this_cpu() of the caller; atomic */
};

/* Starts the thread with the first user, if the process may use two CPUs; stops it with the last. */
void helper_get();
void helper_put();
/*
 * Makes the copy from w->next on with the helper, if that is free. Returns the length that was copied without a gap:
 * less than the size if a part failed, behind which others may have been copied.
 */
u64 helper_share(shared_work *w);

} // namespace usdma::core
