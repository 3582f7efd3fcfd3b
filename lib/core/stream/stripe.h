/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One copy over several engines of an engine (setting "stripe").
 *
 * The stream's own ring gets the first part, the others go to helpers: hardware queues that no
 * stream has, one an engine.  The rings themselves keep the order: a part begins with a
 * WAIT for the stream's earlier work, unless that has ended, and the stream's ring goes
 * on behind a WAIT for each helper's part.  So to all that looks at the stream's ring
 * (events, queries, waits, aborts, timeouts, freed memory) it is one copy.
 *
 *   owner's ring   ... NOP  part 0  WAIT helper 1  WAIT helper 2  ...
 *   helper's ring  WAIT for the NOP  part 1
 *
 * A part that waits holds up no other stream's: a helper whose newest part still waits
 * takes none of another stream, whose copy is then spread less, or not at all.  As
 * nothing waits for what is posted after it, the WAITs form no circle.
 *
 * A helper's ring that stops at a failed part has not counted it, so the WAIT in the
 * owner's ring holds until the failure was reported, and the rest of the stream taken out
 * if its failure mode says so.  The WAITs (and the NOP) are only sync descriptors: when one of
 * them fails the ring stays halted until the CPU sees that what it waits for is there.
 *
 * Locks: an owner's hardware queue, then helpers by their engines.
 */
#pragma once

#include "lib/core/channel/parts.h"
#include "lib/core/stream/stream.h"

namespace usdma::core {

/* From which length on copies are spread with this value of the setting; 0: never. */
u64 stripe_from(u64 setting);
/* stream::plain_len of a new stream. */
u64 stripe_plain_len(const device *dev);
/* Hardware queues for the parts of this stream's copies, where there are none yet. Takes dev->lock. */
void stripe_prepare(const stream *s);
/* Spreads the copy; false: it cannot be now, and nothing was posted. With the stream's hardware queue's lock held. */
bool stripe_post(stream *s, const dma::request &r);

/* ---- cookies of the owner's ring --------------------------------------------------------------------- */

/* The sync descriptors's has a bit more than its stream's: it stays when the stream's work is taken out. */
inline constexpr u64 stripe_sync_words = 1;

inline u64 stripe_cookie(const stream *s)
{
	return reinterpret_cast<u64>(s) | stripe_sync_words;
}

/* ---- faults ------------------------------------------------------------------------------------------ */

/* A helper that halted: tells the owner of the part, resumes. Takes the locks of both hardware queues. */
void stripe_check_fault(hw_queue *helper);
/* All helpers of the device that halted. */
void stripe_check_helpers(device *dev);
/* The ring may not go on behind number seq of the stream's: parts that it waits for there have not ended. */
bool stripe_pending(stream *s, u64 seq);
/*
 * A request of the stream's own ring failed: true unless the failure of the copy that it is a part of was told
 * before.
 */
bool stripe_reports(stream *s, u64 seq);
/* Takes the stream's parts out of the helpers' rings. 0, or what stopping one gave. */
int stripe_cut(stream *s);
/* The stream ends: its parts, if any are left, are unused. */
void stripe_forget(stream *s);
/* These four: with the lock of the stream's hardware queue held. */

} // namespace usdma::core
