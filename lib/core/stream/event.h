/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: a point in a stream's work that others can wait for, query and read the time of. */
#pragma once

#include "lib/core/stream/stream.h"

#pragma GCC visibility push(default)
namespace usdma::core {

enum event_flags : u32 {
	event_timing = 1,      /* takes the device's time when it is reached */
	event_wait_future = 2, /* waiting for it before it was ever recorded waits for the record; else it is a no-op */
};

enum class event_state : u8 { never, pending, done };

/* One recording: where in which ring the event is reached.  Shared by the event and by what waits for it. */
struct record {
	enum stage : u32 { queued, in_ring, reached };

	u32 refs = 1;           /* atomic */
	u32 at = queued;        /* stage; released after ln and seq */
	hw_queue *ln = nullptr; /* there while its device's opening is this one: see record_hw_queue() */
	device *dev = nullptr;
	u64 opening = 0;
	u64 seq = 0;
	u64 *stamp = nullptr; /* pinned word that the device stores its time to; null: no timing */
	void *on = nullptr;   /* the stream's handle; it may be dead by now */
	u32 ring_waits = 0;   /* rings that wait for it by themselves; atomic */
	u32 future = 0;       /* stands for a record that is still to come (event_wait_future) */
};

struct alignas(64) event {
	u64 alive = 0; /* the handle */
	u32 id = 0;
	u32 flags = 0;
	device *dev = nullptr;
	futex_lock lock;
	record *rec = nullptr; /* the latest; null: never recorded; under lock */
	u32 waits = 0;         /* waits for it that have not ended; atomic */
	u32 refs = 1;
	u64 user[4] = {}; /* the front end's, as is the next: called when nothing uses the event any more */
	void (*ended)(event *e) = nullptr;
};

/* As stream_of and stream_handle. */
inline event *event_of(const void *handle)
{
	return object_at<event>(handle);
}
inline void *event_handle(const event *e)
{
	return reinterpret_cast<void *>(load_relaxed(&e->alive));
}

int event_create(device *dev, u32 flags, event **out);
void event_ref(event *e);
void event_unref(event *e);
/* The handle is dead at once; what waits for it is served. -EBADF: it is destroyed already. */
int event_destroy(const void *handle);
inline int event_destroy(event *e)
{
	return event_destroy(event_handle(e));
}
bool event_valid(const void *handle);
size_t event_live();

/* Captures the work submitted to s so far; replaces an earlier record. */
int event_record(event *e, stream *s);
/* Back to "never recorded" when s reaches this point. */
int event_reset(event *e, stream *s);
event_state event_query(event *e);
/* Its mark is not reached, and will not be: the device is lost. */
bool event_is_lost(event *e);
/* Inside a read section: it is reached; false: it is not, or may not be, or never was recorded, or is destroyed. */
bool event_is_reached(const void *handle);
/*
 * 0 at once when never recorded. -ETIMEDOUT. A task error of the recorded stream is returned, and stays that
 * stream's.
 */
int event_sync(event *e, deadline until);
/* The same without that error: what it returns is of the wait alone (-ETIMEDOUT: not reached in time). */
int event_wait(event *e, deadline until);
/* The error of the stream of the latest record, as stream_see_error. */
int event_see_error(event *e);
/* Work submitted to s after this starts after the latest record of e (of any device) is reached. */
int stream_wait_event(stream *s, event *e, deadline until);
/* Waits of streams for it that have not ended yet. */
u32 event_waits(event *e);
/* Device clock in ns at which it was reached. -ENOENT never recorded, -EAGAIN not yet reached, -EINVAL no timing. */
int event_time_ns(event *e, u64 *out);

} // namespace usdma::core
#pragma GCC visibility pop
