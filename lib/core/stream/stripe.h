/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spreads one copy over several engines of a device (setting "stripe").
 *
 * The stream's own ring gets the first part; the others go to helpers: hardware queues without streams, one an
 * engine. The rings keep the order: a part is preceded by a WAIT for the stream's earlier work, unless that has
 * ended, and the stream's ring continues after a WAIT for each helper's part. So users of the stream's ring
 * (events, queries, waits, aborts, timeouts, deferred frees) see one copy.
 *
 *   owner's ring   ... NOP  part 0  WAIT helper 1  WAIT helper 2  ...
 *   helper's ring  WAIT for the NOP  part 1
 *
 * A waiting part must not delay other streams: a helper whose newest part still waits accepts no part of
 * another stream; that stream's copy uses fewer engines, or one. The WAITs cannot deadlock, as each waits only
 * for requests posted before it.
 *
 * A helper's ring that halts at a failed part has not counted it, so the WAIT in the owner's ring holds until
 * the failure was reported and, in failure mode stop, the rest of the stream cancelled. The WAITs and the NOP
 * are sync descriptors: if one fails, its ring stays halted until the CPU sees its condition met.
 *
 * Lock order: the owner's hardware queue, then helpers by engine number.
 */
#pragma once

#include "lib/core/channel/parts.h"
#include "lib/core/stream/stream.h"

namespace usdma::core {

/* Shortest copy that is spread, by the value of the setting; 0: never. */
u64 stripe_from(u64 setting);
/* stream::plain_len of a new stream. */
u64 stripe_plain_len(const device *dev);
/* Creates missing helpers for this stream's copies. Takes dev->lock. */
void stripe_prepare(const stream *s);
/* Spreads the copy; false: not possible now, nothing was posted. With the lock of the stream's hardware queue held. */
bool stripe_post(stream *s, const dma::request &r);

/* ---- cookies of the owner's ring --------------------------------------------------------------------- */

/* Cookie bit of sync descriptors: they are not cancelled with the stream's work. */
inline constexpr u64 stripe_sync_words = 1;

inline u64 stripe_cookie(const stream *s)
{
	return reinterpret_cast<u64>(s) | stripe_sync_words;
}

/* ---- faults ------------------------------------------------------------------------------------------ */

/* Handles a halted helper: reports to the owner of the part, resumes. Takes the locks of both hardware queues. */
void stripe_check_fault(hw_queue *helper);
/* stripe_check_fault() for each halted helper of the device. */
void stripe_check_helpers(device *dev);
/* True: the ring must not pass the stream's request seq, as parts that it waits for have not ended. */
bool stripe_pending(stream *s, u64 seq);
/* For a failed request of the stream's own ring: false if the failure of the same copy was already reported. */
bool stripe_reports(stream *s, u64 seq);
/* Cancels the stream's parts in the helpers' rings. 0, or the first error of stopping one. */
int stripe_cancel(stream *s);
/* At the end of a stream: detaches its remaining parts. */
void stripe_forget(stream *s);
/* The last four are called with the lock of the stream's hardware queue held. */

} // namespace usdma::core
