/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <pthread.h>

#pragma GCC visibility push(default)
namespace usdma {

/*
 * Starts a thread of the library: named, with the program's signals blocked, except for SIGSEGV, SIGBUS, SIGFPE
 * and SIGILL, which are synchronous, and `deliver` (0: none). 0 or -errno; std::thread would throw.
 */
[[gnu::visibility("default")]] int thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg,
						int deliver = 0);
/*
 * The same, detached. The thread itself calls thread_name() first: pthread_detach() and pthread_setname_np() by
 * its creator may access freed memory of a thread that has already ended (glibc bug 19951).
 */
int thread_start_detached(const char *name, void *(*main)(void *), void *arg);
/* Names the calling thread; at most 15 bytes. */
void thread_name(const char *name);
/*
 * For a thread that sleeps until it has a little to do: the calling thread gets the shortest time slice, with
 * which it runs soon after a wake-up though other programs use the CPUs (Linux 6.12, sched_attr.sched_runtime of
 * SCHED_OTHER, from 0.1 ms). Its share of the CPU does not change. Older kernels, and filters of system calls, leave
 * it as it was.
 */
[[gnu::visibility("default")]] void thread_short_slice();

} // namespace usdma
#pragma GCC visibility pop
