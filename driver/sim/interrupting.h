/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A write to a descriptor that a client holds as well can block whatever is asked
 * before: the client changes its flags and fills it in between.  Who waits for such
 * a thread interrupts it by a signal, again and again, and the write is given up.
 */
#pragma once

#include <pthread.h>

namespace usdma::sim {

/*
 * Before the first engine.  Takes a signal (SIGUSR1) for the whole process: for usdma-sim, not for a library inside
 * somebody's program, where the client is that program.
 */
int allow_interrupting();
bool interrupting_allowed();
/* Does nothing unless it is allowed.  The thread exists and has the signal unblocked. */
void interrupt_thread(pthread_t thread);

} // namespace usdma::sim
