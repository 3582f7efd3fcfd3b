/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of a stream's work in rings of the program (lib/native/uring.cpp, lib/native/completion_set.cpp). */
#pragma once

#include "lib/core/queue/ring_signal.h"
#include "lib/core/stream/stream.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* The caller's: an eventfd, which stays open until it was written, and where the ring stores what it reads. */
struct ring_read {
	int fd;
	const u64 *count; /* as signal_arm() */
};
/*
 * Sets the mark behind all work submitted so far, and has its end signalled exactly once: by *out (armed), or by a
 * write to read.fd (none); or it has ended (done). The eventfd is written by the thread that detects that where the
 * device cannot: behind a gate, in a queue whose interrupt is in use.
 */
int stream_signal_ring(stream *s, const ring_read &read, stream_mark *mark, ring_signal **out, signalling *how);

/* The same, always by a write to fd. */
int stream_signal_own(stream *s, int fd, stream_mark *mark);
/* What has ended is signalled when it returns, by this thread if the one that does so has not. */
void stream_signals_deliver();

/*
 * The signals of a set of marks of one stream. They may come early, or one for several marks. By the device, where the
 * queue's interrupt is free for as long as the set exists, else by the thread that detects that.
 */
struct set_signals {
	ring_signal *by_device = nullptr;
	unique_fd own;    /* where there is none */
	u32 notified = 0; /* set_notify() has signalled, and nothing has consumed that; atomic */
	u32 calls = 0;    /* not yet delivered; atomic */
	device *dev = nullptr;
	hw_queue *ln = nullptr;
	u64 opening = 0; /* of the device: ln is valid */

	int fd() const { return by_device ? by_device->fd.get() : own.get(); }
};
/* A mark of a set. */
struct set_entry {
	stream_mark mark;
	set_signals *set = nullptr;
	bool in_ring = false; /* no call: the device signals its number, once that is awaited */
	u32 called = 0;       /* its call was delivered; atomic */
};
/* -EMFILE … */
int set_signals_open(stream *s, set_signals *out);
/* Nothing is outstanding. */
void set_signals_close(set_signals *set);
/* Sets the mark. If it is in the ring, the caller calls set_await() when it is the first that has not ended. */
int set_mark(stream *s, set_signals *set, set_entry *e);
/* As stream_mark_result(). */
int set_result(set_entry *e, stream_error *out);
/* Of a mark that has no result: lets its work go on, as stream_mark_poll(). True: it has one by now. */
bool set_poll(set_entry *e);
/* Before the marks are checked: what completes later is signalled again. */
void set_seen(set_signals *set);
/* Signals at once. */
void set_notify(set_signals *set);
/* Signals once seq has completed. later: a signal comes before that, then call it again. */
signalling set_await(set_signals *set, u64 seq);
/* Nothing is outstanding. */
void set_await_nothing(set_signals *set);

} // namespace usdma::core
#pragma GCC visibility pop
