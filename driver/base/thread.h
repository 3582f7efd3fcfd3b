/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <pthread.h>

namespace usdma {

/*
 * A thread of the library: named, every signal blocked (the program's handlers
 * shall not run in it).  0 or -errno; std::thread would throw.
 */
int thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg);
/*
 * The same for one that nobody joins.  It begins with thread_name(): from outside, pthread_detach() and
 * pthread_setname_np() may read memory of a thread that has ended and is gone (glibc bug 19951).
 */
int thread_start_detached(const char *name, void *(*main)(void *), void *arg);
/* The calling thread's; at most 15 bytes. */
void thread_name(const char *name);

} // namespace usdma
