/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a sequence number of a hardware queue: spin for an adaptive budget, then arm the interrupt,
 * recheck, and sleep in io_uring on its eventfd. If several threads sleep on one hardware queue, the first
 * reads the eventfd and wakes the others.
 */
#pragma once

#include "lib/core/queue/recover.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* 0: completed >= seq; -ETIMEDOUT; another error: the device is dead (see error_text()). */
int hwq_wait(hw_queue *l, u64 seq, deadline until, wait_mode mode);
/*
 * The engine's thread was last seen on this CPU, where it cannot run while this thread spins. A hint: may be
 * stale, or wrong if from another process; a thread that sleeps because of it is woken as usual.
 */
bool hwq_engine_is_here(const hw_queue *l);
/* Polls for about a microsecond; takes no lock. True: completed >= seq. */
bool hwq_spin(hw_queue *l, u64 seq);
/*
 * A caller found seq incomplete, also by a wait whose time was over, and may poll. With timing late, the device runs up
 * to seq after several calls. If the engine's thread was last seen on this CPU, some calls sleep for 100 µs at most, so
 * that it runs.
 */
void hwq_note_poll(hw_queue *l, u64 seq);
/*
 * The same for work that a thread of this process has to advance before it is in a ring: if the process has one CPU,
 * some calls sleep for 50 µs.
 */
void note_gated_poll();
/* For closing: waits for all requests posted by now. False: timed out, or the device is dead. */
bool hwq_drain(hw_queue *l, deadline until);
/* True: idle, or blocked in a WAIT. Takes its lock. */
bool hwq_is_idle(hw_queue *l);
/* As memory_upcalls::last_use. */
bool hwq_last_use(hw_queue *l, const dma::iova_range &where, u64 *seq, deadline until);
/* Requests the service interrupt at seq, after which the caller rechecks the completion record. Takes its lock. */
void hwq_arm_service(hw_queue *l, u64 seq);

inline bool hwq_done(const hw_queue *l, u64 seq)
{
	return dma::completed(l->ch) >= seq;
}

} // namespace usdma::core
#pragma GCC visibility pop
