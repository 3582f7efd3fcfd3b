/* SPDX-License-Identifier: BSD-3-Clause */
/* What else stops when a stream stops at a failure (fail_mode::stop). */
#pragma once

#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma::core {

struct event;
struct record;
struct stream;

/*
 * The stream has stopped at a failure: streams of the same owner stop, too. They refuse new work at once, what they
 * have queued is dropped, and host functions of all of them no longer start. With the hardware queue's lock held.
 */
void stream_stop_owned(const stream *s, u32 err);
/* The failure that stopped the stream, its own or another one's, as a positive errno; 0: an abort, or none. */
u32 stream_failure(const stream *s);
/*
 * It stops at failures of others. So it waits by gates, which a stop drops, and not in its ring, where the wait would
 * go on: for a word that no one stores any more, or over when what the failed stream had behind its failure is
 * cancelled.
 */
bool stream_stops_with_others(const stream *s);
/* As a stream that was there at the failure. Before others know the stream. */
void stream_stop_new(stream *s, u32 err);
/* Functions of its group, if it has one, no longer start. */
void call_group_drop_made(const stream *s);
/* Its latest record is behind the failure at which its stream stopped: the stream never came to it. */
bool event_is_behind_failure(event *e);
bool record_is_behind_failure(const record *r);

} // namespace usdma::core
#pragma GCC visibility pop
