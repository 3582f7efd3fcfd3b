/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: a point in a stream's work that can be waited for, queried and time-stamped. */
#pragma once

#include "lib/core/stream/stream.h"

#pragma GCC visibility push(default)
namespace usdma::core {

enum event_flags : u32 {
	event_timing = 1,      /* records the device's time when reached */
	event_wait_future = 2, /* a wait before the first record waits for that record; else it is a no-op */
};

enum class event_state : u8 { never, pending, done };

struct race_signal;

/* One recording: ring and position at which the event is reached. Shared by the event and its waiters. */
struct record {
	enum stage : u32 { queued, in_ring, reached };
	static constexpr u64 no_time = ~u64(0);

	u32 refs = 1;           /* atomic */
	u32 at = queued;        /* stage; released after ln and seq */
	hw_queue *ln = nullptr; /* valid while the device's opening matches: see record_hw_queue() */
	device *dev = nullptr;
	u64 opening = 0;
	u64 seq = 0;
	u64 op = 0;           /* the number of the stream's next operation */
	u64 *stamp = nullptr; /* pinned word for the device's time stamp; null: no timing; no_time until it is stored */
	void *on = nullptr;   /* the stream's handle; may be invalid by now */
	u32 ring_waits = 0;   /* WAIT requests posted for it; atomic */
	/* by_check: event_is_reached() does not see it; by_future: placeholder for the first record
	 * (event_wait_future). */
	enum hidden_by : u32 { seen, by_check, by_future };
	u32 hidden = seen;
	race_signal *order = nullptr; /* its signal in the race check; null: none */
	u32 never = 0;                /* atomic: it is behind a failure that has stopped its stream's context */
};

struct alignas(64) event {
	u64 alive = 0; /* the handle */
	u32 id = 0;
	u32 flags = 0;
	device *dev = nullptr;
	futex_lock lock;
	record *rec = nullptr; /* the latest; null: never recorded; under lock */
	u32 waits = 0;         /* pending waits for it; atomic */
	u32 refs = 1;
	u64 user[4] = {}; /* for the front end, as is ended(), which is called with the last reference */
	void (*ended)(event *e) = nullptr;
};

inline constexpr size_t max_events = 65536;
extern no_destructor<slab<event, max_events, handle_kind::event>> all_events;

/* As stream_find, stream_of and stream_handle. */
inline event *event_find(const void *handle)
{
	return all_events->find(handle);
}
inline event *event_of(const void *handle)
{
	return all_events->at(handle);
}
inline void *event_handle(const event *e)
{
	return reinterpret_cast<void *>(load_relaxed(&e->alive));
}

int event_create(device *dev, u32 flags, event **out);
/* Takes a reference; nullptr: invalid handle. */
event *event_enter(const void *handle);
void event_ref(event *e);
void event_unref(event *e);
/* Invalidates the handle at once; pending waits complete normally. -EBADF: destroyed already. */
int event_destroy(const void *handle);
inline int event_destroy(event *e)
{
	return event_destroy(event_handle(e));
}
size_t event_live();

/* Captures the work submitted to s so far; replaces an earlier record. */
int event_record(event *e, stream *s);
/* Back to "never recorded" when s reaches this point. */
int event_reset(event *e, stream *s);
event_state event_query(event *e);
/* Not reached and never will be: device lost. */
bool event_is_lost(event *e);
/* Inside a read section. True: reached. False: not reached, unknown, never recorded, or destroyed. */
bool event_is_reached(const void *handle);
/* For a check of stream_wait_check() by the holder of a reference: it is recorded and reached. */
bool event_is_set(event *e);
/* 0 at once if never recorded. -ETIMEDOUT. Returns a task error of the recorded stream and leaves it pending there. */
int event_sync(event *e, deadline until);
/* As event_sync() without task errors: returns the result of the wait only (-ETIMEDOUT). */
int event_wait(event *e, deadline until);
/* stream_see_error() of the latest record's stream. */
int event_see_error(event *e, error_list *unlisted = nullptr);
/* Work submitted to s afterwards starts after the latest record of e (on any device). */
int stream_wait_event(stream *s, event *e, deadline until);
/* Number of pending waits of streams for it. */
u32 event_waits(event *e);
/*
 * Device clock in ns at which it was reached. -ENOENT never recorded, -EAGAIN not yet reached, -EINVAL no timing,
 * -ECANCELED its time stamp was dropped, -ENODEV.
 */
int event_time_ns(event *e, u64 *out);

} // namespace usdma::core
#pragma GCC visibility pop
