/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream is a FIFO of work on one device.  While nothing gates it, work goes
 * straight into its hardware queue's ring.  Behind a gate (an event of another stream, a
 * value, a notify, a blocking callback) it waits in the stream's queue, and the
 * progress thread moves it on.
 *
 * Any thread may use any stream.  Calls return 0 or -errno (error_text() says more):
 * -ENODEV the device is gone, -ECANCELED the stream was aborted, -ETIMEDOUT.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/dma/request.h"
#include "lib/core/config/config.h"
#include "lib/core/device/device.h"
#include "lib/core/base/slab.h"

#pragma GCC visibility push(default)
namespace usdma::core {

struct event;
struct task;
struct queued;
struct stream;
struct call_token;
struct record;

enum class fail_mode : u8 { go_on, stop };

struct stream_options {
	u32 priority = 0;
	u32 flags = 0;         /* the front end's, kept for it */
	int wait = -1;         /* a wait_mode, -1: the configuration's */
	void *owner = nullptr; /* the front end's context */
	bool internal = false; /* of a synchronous call, whose errors are its caller's */
};

/* The first task of a stream that failed since the error was last taken. */
struct stream_error {
	int err = 0; /* 0: none; a positive errno */
	dma::fault_reason reason = dma::fault_reason::none;
	u64 address = 0;
	u64 seq = 0;
};

struct stream_stats {
	u64 copies, bytes, errors, sleeps;
};

struct alignas(64) stream {
	/* What a submission touches: one line, for there may be thousands of streams. */
	u64 alive = 0; /* the handle */
	hw_queue *ln = nullptr;
	device *dev = nullptr;
	u64 plain_len = 0; /* copies up to this length are one request; longer ones are split, or spread over engines */
	u64 last = 0;      /* last sequence number of ours in the ring; under ln->lock */
	u32 gated = 0;     /* queue is not empty; under ln->lock, read without as a hint */
	u32 stopped = 0;   /* an errno: failed with fail_mode::stop, or aborted; takes no new work */
	u64 copies = 0, bytes = 0;

	u64 errors = 0;
	queued *queue = nullptr, *queue_end = nullptr; /* work behind a gate, first and last; under ln->lock */
	u32 id = 0;
	u32 has_error = 0;
	u64 max_len = 0;                    /* of one request of this engine */
	stream_error error;                 /* under ln->lock, as are the next two */
	bool error_reported = false;        /* by a call on the stream; it stays where the stream has stopped */
	bool error_peeked = false;          /* by device_peek_error */
	call_count calls;                   /* in progress on it; its end waits for them */
	struct call_group *group = nullptr; /* host functions of it, until the last reference; under ln->lock */
	stream_options opt;
	fail_mode mode = fail_mode::go_on;
	u32 refs = 1;    /* the handle, the progress thread; atomic */
	u64 listed = 0;  /* the progress thread's number for it, 0: it is not on the list; under the list's lock */
	u32 watched = 0; /* calls that block nothing and that the progress thread has yet to make; atomic */
	u32 striped = 0; /* it has spread copies over engines; under ln->lock */
	u64 reported_first = 0,
	    reported_last = 0;       /* the numbers of the latest of those whose failure was reported; under ln->lock */
	u32 held_back = 0;           /* the progress thread's: in which look one of them was not due */
	u32 ending = 0;              /* it is being destroyed, or about to be; its work may still go on; atomic */
	u32 abandoned = 0;           /* internal, and its call returned before its work had ended; atomic */
	u64 until = ~u64(0);         /* internal: when its call gives up waiting for room in the ring */
	u64 user[4] = {};            /* the front end's */
	stream *next_idle = nullptr; /* of synchronous calls and not in use: the device's list */
};

inline constexpr size_t max_streams = 65536;
extern immortal<slab<stream, max_streams>> all_streams;

/* Each call begins with it. */
inline bool stream_valid(const void *handle)
{
	return all_streams->holds(handle);
}

/* For handles that were validated. */
inline stream *stream_of(const void *handle)
{
	return object_at<stream>(handle);
}
/* nullptr once it is being destroyed. */
inline void *stream_handle(const stream *s)
{
	return reinterpret_cast<void *>(load_relaxed(&s->alive));
}

int stream_create(device *dev, const stream_options &opt, stream **out);
/*
 * The handle is dead at once for others.  Waits for calls in progress, which end with -EBADF unless their work was
 * submitted, and for the stream's work.  Its pending error; -EBADF: it is destroyed already, or just being so.
 */
int stream_destroy(const void *handle);
/*
 * The same, but drops queued work and stops running work.  None of its host functions begins after it has returned, and
 * none runs then; -ETIMEDOUT: one still does, after USDMA_HANG_MS.
 */
int stream_destroy_force(const void *handle);
inline int stream_destroy(stream *s)
{
	return stream_destroy(stream_handle(s));
}
inline int stream_destroy_force(stream *s)
{
	return stream_destroy_force(stream_handle(s));
}
wait_mode stream_wait_mode(const stream *s);
size_t stream_live();

/* All work submitted before has ended. The first error of the stream's tasks is returned and taken (see take_error). */
int stream_sync(stream *s, deadline until);
/* The same, but takes no error: what it returns is of the wait alone (-ETIMEDOUT: not done in time). */
int stream_wait(stream *s, deadline until);
/* 0: all done; 1: not yet; -errno: the device is gone. Does not take errors. */
int stream_query(stream *s);
/* Inside a read section, takes no lock: all is done and no error pending; false: it is not, or may not be. */
bool stream_is_done(const stream *s);
/* The same after looks for about a microsecond, where the stream's wait mode spins at all. */
bool stream_spin(const stream *s);
/* Say what is wrong; -errno. */
int fail_dead();
int fail_task(const stream *s, const stream_error &e);
/* The pending error, cleared unless the stream has stopped for good; 0 or -errno. */
int stream_take_error(stream *s, stream_error *out);
/* The same, but it stays pending. */
int stream_see_error(stream *s);
/* Drops queued work, stops what runs; later calls give -ECANCELED until the stream is destroyed. */
int stream_abort(stream *s);
/*
 * The next from number *at (first 0) on that is wanted, with a reference (stream_unref): others may destroy it
 * meanwhile. nullptr: no more.
 */
stream *stream_next(size_t *at, bool (*wanted)(const stream *s, const void *arg), const void *arg);
void stream_unref(stream *s);
/* The same, and of its host functions none begins, or still runs, when this returns.  -ETIMEDOUT: one does. */
int stream_cut(stream *s, deadline until);
/* Cuts each stream of the device that has work; the first error. */
int device_cut(device *dev, deadline until);
int stream_set_fail_mode(stream *s, fail_mode mode);
/*
 * All streams of the device but those of synchronous calls in progress.  Takes no stream's error, and returns none:
 * what it returns is of the wait alone.
 */
int device_sync(device *dev, deadline until);
/*
 * The error of the first of its streams that has one pending, which stays pending; of each stream once for each
 * error.
 */
int device_peek_error(device *dev);

/* The device is being closed: streams that are left get no new calls, and lose what waits behind a gate. */
void streams_forsake(device *dev);
/* Its rings have run dry: they go. */
void streams_reap(device *dev);

/*
 * Puts up to any number of requests in order; blocks only for room in the ring.  *posted (if not null): how many were
 * taken when it fails.
 */
int stream_submit(stream *s, const dma::request *r, size_t n, size_t *posted = nullptr);
/*
 * The same for one copy of up to plain_len bytes, which most calls are: nothing of it goes by memory.  Inside a read
 * section: never blocks.  1: something is not as usual, and nothing was done.
 */
int stream_submit_copy(stream *s, u32 spaces, u64 src, u64 dst, u64 len);
/* One copy, spread over the engine's engines where that can be. */
int stream_submit_long(stream *s, const dma::request &r);

/*
 * Work behind gates is numbered; all of it up to queue_epoch() has gone into rings (or was dropped) once
 * queue_done(that).
 */
u64 queue_epoch();
bool queue_done(u64 epoch);

/* ---- things that gate or watch --------------------------------------------------------------------- */

/* Until the 64-bit word compares (dma::compare); word is CPU memory that lives as long as the stream's work. */
int stream_wait_word(stream *s, const u64 *word, dma::compare cmp, u64 value, deadline until);
/*
 * The same for an address of device or pinned memory that the CPU sees (word_view).  When that memory is freed the wait
 * ends with an error of the stream, EFAULT.
 */
int stream_wait_memory(stream *s, const void *addr, dma::compare cmp, u64 value);
/*
 * For conditions with a logic of their own (count notify): check(arg) is called until it is true; then it has
 * taken effect. Both run under the stream's lock: they must not wait, free or call in here.
 */
int stream_wait_check(stream *s, int (*check)(void *arg), void (*release)(void *arg), void *arg, deadline until);

/*
 * A call on the host when all work before has ended.  deliver(arg, done) is called by
 * whatever thread notices, and must not block nor call in here: it hands the call to a
 * thread that runs it.  block: the stream goes on only after call_done(done); else done is null.  A stream's calls are
 * delivered in their order.  A call that was accepted is delivered in any case, also when the stream is aborted or its
 * device is lost; who runs it asks call_scope whether it is still wanted.
 */
struct call_token;

/* The host functions of one stream.  A reference for each of them. */
struct call_group;
call_group *call_group_of(stream *s); /* -> a reference; nullptr: no memory */
/* Around a function, by whoever runs it.  False: it was dropped, and is not to run. */
class call_scope {
public:
	call_scope(call_group *g, const call_token *done, u64 by);
	~call_scope();
	call_scope(const call_scope &) = delete;
	call_scope &operator=(const call_scope &) = delete;
	explicit operator bool() const { return group_; }

private:
	friend struct call_wait;
	call_group *group_;
	const call_token *done_;
	u64 by_;
	call_scope *outer_;
};
/*
 * -EDEADLK: this thread runs a function that the stream waits for (up to the record, where there is one), by itself or
 * through events of other streams: to wait for it here would never end.
 */
int call_allows_wait(stream *s, const record *until_record = nullptr);
void call_group_unref(call_group *g);
/* From now on none of the stream's functions begins. */
void call_group_drop(stream *s);
/* Until none runs but the one that this thread is in. -ETIMEDOUT. */
int call_group_wait(stream *s, deadline until);

/* by: of the thread that is to run it, the same for all of that thread's. */
int stream_call(stream *s, void (*deliver)(void *arg, call_token *done), void *arg, bool block, u64 by = 0);
void call_done(call_token *done);
/*
 * deliver for those who have no thread of their own: runs fn(arg) on the library's callback thread for the
 * stream's owner or device.
 */
int stream_host_func(stream *s, void (*fn)(void *arg), void *arg, bool block);

/*
 * Signals fd (the caller's, duplicated) by adding 1 when all work before has ended; never blocks, nor raises a
 * signal.
 */
int stream_signal_fd(stream *s, int fd);
/* The same where it is known to be an eventfd. */
int stream_signal_eventfd(stream *s, int fd);

} // namespace usdma::core
#pragma GCC visibility pop
