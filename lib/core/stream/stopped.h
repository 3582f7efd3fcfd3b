/* SPDX-License-Identifier: BSD-3-Clause */
/* What else stops when a stream stops at a failure (fail_mode::stop). */
#pragma once

#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma::core {

struct event;
struct record;
struct stream;
struct stream_error;
struct stream_owner;

/*
 * The stream has stopped at a failure: streams of the same owner stop, too. They refuse new work at once, what they
 * have queued is dropped, and host functions of all of them no longer start. With the hardware queue's lock held.
 */
void stream_stop_owned(const stream *s, const stream_error &e);
/* The failure that stopped the stream or its owner's streams, as a positive errno; 0: there was no failure. */
u32 stream_failure(const stream *s);
/* That of the owner, for a call that returns it: when this returns one, all streams of the owner have stopped. */
stream_error stream_owner_failure(const stream *s);
/*
 * It stops at failures of others. So it waits by gates, which a stop drops, and not in its ring, where the wait would
 * go on: for a word that no one stores any more, or over when what the failed stream had behind its failure is
 * cancelled.
 */
bool stream_stops_with_others(const stream *s);
/* All streams of the owner, also later ones, get failure mode stop. */
void streams_stop_at_failures(stream_owner *o);
/* A new stream, which is in the table, takes its owner's failure mode, and stops at its owner's failure. */
void stream_follow_owner(stream *s);
/* At the end of the stream: it is not stopped any more. */
void stream_leave_owner(const stream *s);
/* Until all have left: other threads may be destroying some. force: their work is dropped. Not in a forked child. */
void stream_owner_wait(stream_owner *o, bool force);
/*
 * In a pass: drops what is in the ring of a stream that others have stopped, if it waits there: since before its mode
 * was set. False: again in a millisecond, as a channel could not be stopped.
 */
bool stopped_leave_rings();
/* Functions of its group, if it has one, no longer start. */
void call_group_drop_made(const stream *s);
/* Its latest record is behind the failure at which its stream stopped: the stream never came to it. */
bool event_is_behind_failure(event *e);
bool record_is_behind_failure(record *r);
/* A failure may stop its stream, so that its ring passes it although it is not reached. */
bool record_may_stop(const record *r);

} // namespace usdma::core
#pragma GCC visibility pop
