/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A write to a descriptor that a client holds too may block whatever is checked before: the client can change its
 * flags and fill it in between. A waiter for such a thread interrupts it by a signal, repeatedly, and the write is
 * given up.
 */
#pragma once

#include <pthread.h>

#pragma GCC visibility push(default)
namespace usdma::sim {

/*
 * Before the first engine. Installs a process-wide SIGUSR1 handler: for usdma-sim, not for a library inside
 * another program, where the client is that program.
 */
int allow_interrupting();
bool interrupting_allowed();
/* No-op unless allowed. The thread must exist and have the signal unblocked. */
void interrupt_thread(pthread_t thread);

} // namespace usdma::sim
#pragma GCC visibility pop
