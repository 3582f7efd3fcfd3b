/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <pthread.h>

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

} // namespace usdma
