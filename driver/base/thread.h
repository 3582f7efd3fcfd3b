/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <pthread.h>

namespace usdma {

/*
 * A thread of the library: named, every signal blocked (the program's handlers
 * shall not run in it).  0 or -errno; std::thread would throw.
 */
int thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg);

} // namespace usdma
