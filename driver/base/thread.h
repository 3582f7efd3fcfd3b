/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <pthread.h>

namespace usdma {

/*
 * A thread of the library: named, the program's signals blocked, except SIGSEGV, SIGBUS, SIGFPE and SIGILL, which
 * the thread causes itself, and `deliver` (0: none).  0 or -errno; std::thread would throw.
 */
int thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg, int deliver = 0);
/*
 * The same for one that nobody joins.  It begins with thread_name(): from outside, pthread_detach() and
 * pthread_setname_np() may read memory of a thread that has ended and is gone (glibc bug 19951).
 */
int thread_start_detached(const char *name, void *(*main)(void *), void *arg);
/* The calling thread's; at most 15 bytes. */
void thread_name(const char *name);

} // namespace usdma
