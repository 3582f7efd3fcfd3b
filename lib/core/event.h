/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: a point in a stream's work that others can wait for, query and read the time of. */
#pragma once

#include "lib/core/stream.h"

namespace usdma::core {

enum event_flags : u32 {
	event_timing = 1,   /* takes the device's time when it is reached */
	event_wait_future = 2, /* waiting for it before it was ever recorded waits for the record; else it is a no-op */
};

enum class event_state : u8 { never, pending, done };

struct event {
	u32 alive = 0;
	u32 id = 0;
	u32 flags = 0;
	device *dev = nullptr;
	futex_lock lock;
	event_state state = event_state::never;
	u64 generation = 0;       /* of the latest record; grows with each */
	lane *ln = nullptr;       /* where it will be reached … */
	u64 seq = 0;              /* … with this number; 0: still behind a gate */
	u64 *stamp = nullptr;     /* pinned word that the device stores its time to */
	u64 done_ns = 0;
	int err = 0;              /* the recording stream's error when it was reached */
	stream *recorded_on = nullptr; /* id only: may be dead */
	u32 waits = 0;            /* waits for it that have not ended */
	u32 refs = 1;
	u64 user[4] = {};
};

int event_create(device *dev, u32 flags, event **out);
/* The handle is dead at once; what waits for it is served. */
int event_destroy(event *e);
bool event_valid(const void *handle);
size_t event_live();

/* Captures the work submitted to s so far; replaces an earlier record. */
int event_record(event *e, stream *s);
/* Back to "never recorded" when s reaches this point. */
int event_reset(event *e, stream *s);
event_state event_query(event *e);
/* 0 at once when never recorded. -ETIMEDOUT. A task error of the recorded stream is returned. */
int event_sync(event *e, deadline until);
/* Work submitted to s after this starts after the latest record of e (of any device) is reached. */
int stream_wait_event(stream *s, event *e, deadline until);
/* Device clock in ns at which it was reached. -ENOENT never recorded, -EAGAIN not yet reached, -EINVAL no timing. */
int event_time_ns(event *e, u64 *out);

} // namespace usdma::core
