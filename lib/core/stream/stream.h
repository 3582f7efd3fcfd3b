/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stream is a FIFO of work on one device. While nothing gates it, work goes straight into its hardware
 * queue's ring. Behind a gate (an event of another stream, a value, a notify, a blocking callback) it waits in
 * the stream's queue, and the progress thread moves it on.
 *
 * Any thread may use any stream. Calls return 0 or -errno (error_text() says more): -ENODEV: device lost;
 * -ECANCELED: stream aborted; -ETIMEDOUT.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/futex_lock.h"
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
struct memory_use;
struct lookups;
struct later_error;

enum class fail_mode : u8 { go_on, stop };

/* Why a stream's fast paths do not apply. */
enum gate_bits : u16 {
	gate_queue = 1,    /* its queue is not empty */
	gate_captured = 2, /* stream_set_captured() */
	gate_checked = 4,  /* USDMA_CHECK: always set: what is submitted is checked, and so is what is waited for */
};

/* Of streams that stop together: those of a context of the front end, which is destroyed behind stream_owner_wait(). */
struct stream_owner {
	futex_lock lock;                  /* to store a failure, and the list; nests inside errors_lock */
	struct stream *streams = nullptr; /* by stream::next_owned */
	u32 left = 0;                     /* streams that left the list, ever; a futex */
	u32 stops = 0;                    /* all have failure mode stop; atomic */
	u32 failure = 0;                  /* the errno at which all have stopped, atomic; first are written … */
	u32 stream = 0;                   /* … the stream that failed, and its operation */
	u64 number = 0;
	bool listed = false; /* as that of stream_error; under lock */
};

struct stream_options {
	u32 flags = 0; /* opaque to the core; set by the front end */
	int wait = -1; /* a wait_mode; -1: as configured */
	stream_owner *owner = nullptr;
	bool internal = false; /* serves one synchronous call, which returns the errors */
};

/* A failure. */
struct stream_error {
	int err = 0; /* 0: none; a positive errno */
	dma::fault_reason reason = dma::fault_reason::none;
	u64 address = 0;            /* of a file: the offset */
	u64 number = 0;             /* of the operation */
	const char *file = nullptr; /* of a file: what was done, "reading" */
	bool remote = false;        /* of work with another machine; address: bytes of its item that succeeded */
	u32 more = 0;               /* later failures that are not listed: most_errors, or no memory */
	u32 stream = 0;             /* of a pending error: its stream, or that which stopped this one */
	bool listed = false;        /* stream_list_new() has listed it */
};
/* Failures that a stream lists until they are taken; the first one of each owner needs no entry. */
inline constexpr u32 most_errors = 1024;

/* The failures of one owner, in order: the first one, and those after it. */
struct error_list {
	stream_error first;
	later_error *later = nullptr, *last = nullptr;
};

/*
 * A position in a stream's work, which owns the failures of the requests between the mark before it and itself: they
 * are the result of the mark, whatever other calls take meanwhile. Not by their operations' numbers: another thread
 * may set a mark while a call waits for slots for the rest of its requests, which are then behind the mark. A stream's
 * marks are in its list, in order, from stream_mark_set() until stream_mark_result() has returned the result; under its
 * errors_lock.
 *
 *	mark_gated     it waits in the stream's queue, whose task uses it until the task is delivered
 *	mark_in_ring   until the ring completes seq, or the device is lost
 *	mark_cancelling  its work is being removed from the ring, where it may still run
 *	mark_ended     no more failures come: dropped, lost, delivered, or the stream has ended
 */
enum mark_state : u8 { mark_gated, mark_in_ring, mark_cancelling, mark_ended };
struct stream_mark {
	/* Of a mark that is not in the ring, or was dropped before it was. */
	static constexpr u64 not_in_ring = ~u64(0);

	stream *s = nullptr;        /* a reference; null: it is in no stream */
	u64 number = 0;             /* of the last operation accepted before it */
	u64 after_seq = 0, seq = 0; /* in the ring: of the mark before, and its own */
	mark_state state = mark_ended;
	error_list failures;
	stream_mark *next = nullptr, *prev = nullptr;
};

/*
 * Numbers for the operations of a call. They are taken when the first one is accepted, so that they are consecutive. A
 * request that is submitted has in its cookie, by op_cookie(), the index of its operation, counted from `at`.
 */
struct op_numbers {
	u64 n = 1;
	u64 first = 0; /* 0: none was accepted */
	u64 at = 0;
	bool may_wait = true; /* else -EAGAIN, unless a part … */
	bool begun = false;   /* … of the operation was accepted: then the rest waits in the stream's queue */

	bool refuses_wait() const { return !may_wait && !begun; }
};
constexpr u64 op_cookie(u64 index)
{
	return index << dma::cookie_owner_bits;
}

struct stream_stats {
	u64 copies, bytes, errors, sleeps;
};

struct alignas(64) stream {
	/* Fields used by a submission share one cache line: there may be thousands of streams. */
	u64 alive = 0; /* the handle */
	hw_queue *ln = nullptr;
	device *dev = nullptr;
	u64 last = 0; /* last sequence number of this stream in the ring; under ln->lock */
	u32 plain_len =
		0;       /* copies up to this length are one request; longer ones are split, or spread by the channel */
	u16 gated = 0;   /* bits of gate_bits, 0: the fast paths apply; under ln->lock; a hint without it */
	u16 stopped = 0; /* an errno: failed with fail_mode::stop, or aborted, or EBADF: closed; new work is refused */
	u64 copies = 0, bytes = 0;
	u64 cookie = 0; /* op_cookie(apart), and the owner: 1 + the stream's index in the slab */

	u64 apart = 0; /* accepted operations less copies; under ln->lock */
	u64 errors = 0;
	queued *queue = nullptr, *queue_end = nullptr; /* work behind a gate, first and last; under ln->lock */
	u64 front = ~u64(0);                           /* the first one's number; ~0: none; atomic */
	u32 outside = 0;                               /* see stream_outside_enter(); futex */
	u32 has_error = 0;
	u32 lost_work = 0;           /* its device's loss has ended work that was not in the ring; atomic */
	u64 max_len = 0;             /* longest request of the engine */
	futex_lock errors_lock;      /* up to the marks; nests inside ln->lock */
	bool ended = false;          /* its work has ended, and it has no hardware queue any more */
	bool error_reported = false; /* by a call on the stream; not cleared once the stream has stopped */
	bool error_peeked = false;   /* by device_peek_error */
	u32 n_later = 0;             /* failures after the first one of each owner */
	error_list failures;         /* that no mark owns */
	stream_mark *marks = nullptr, *marks_end = nullptr; /* first and last */
	stream_mark *failing = nullptr;                     /* owns, or is behind, the failure that was noted last */
	u64 marked_seq = 0;                 /* sequence number of the last mark in the ring; under ln->lock */
	u64 running = 0;                    /* number of the task that runs; under ln->lock */
	call_count calls;                   /* calls in progress; destroy waits for them */
	struct call_group *group = nullptr; /* its host functions; freed with the last reference; under ln->lock */
	stream_options opt;
	fail_mode mode = fail_mode::go_on;
	/* Numbers of operations that stop the stream at a failure in any mode: stream_stop_begin(); atomic. */
	u64 stop_from = ~u64(0), stop_to = 0;
	u32 refs = 1;          /* held by the handle and the progress thread; atomic */
	u64 listed = 0;        /* number on the progress thread's list, 0: not listed; under the list's lock */
	u32 pending_calls = 0; /* non-blocking calls not yet delivered; atomic */
	u32 held_back = 0;     /* last scan of the progress thread in which a call was not due */
	u32 ending = 0;        /* being destroyed; its work may still run; atomic */
	u32 id = 0;
	u32 timed_out = 0;           /* internal: its call timed out before its work had ended; atomic */
	u32 order = 0;               /* its context in the race check; 0: none */
	u64 until = ~u64(0);         /* internal: deadline of its call's wait for ring slots */
	u64 user[6] = {};            /* for the front end */
	stream *next_idle = nullptr; /* internal and not in use: link in the device's list */
	stream *next_owned = nullptr, *prev_owned = nullptr; /* of the same owner */
};

inline constexpr size_t max_streams = 65536;
extern no_destructor<slab<stream, max_streams, handle_kind::stream>> all_streams;

/* Validates a handle; every entry point calls it first. */
inline bool stream_valid(const void *handle)
{
	return all_streams->holds(handle);
}

/* The caller has validated the handle. */
inline stream *stream_of(const void *handle)
{
	return all_streams->at(handle);
}
/* nullptr: not live. */
inline stream *stream_find(const void *handle)
{
	return all_streams->find(handle);
}
/* nullptr once it is being destroyed. */
inline void *stream_handle(const stream *s)
{
	return reinterpret_cast<void *>(load_relaxed(&s->alive));
}

int stream_create(device *dev, const stream_options &opt, stream **out);
/*
 * Invalidates the handle at once. Waits for calls in progress, which return -EBADF unless their work was
 * submitted, and for the stream's work. Returns the pending error; -EBADF: destroyed already, or being
 * destroyed.
 */
int stream_destroy(const void *handle);
/*
 * As stream_destroy(), but drops queued work and aborts running work. No host function of the stream starts or
 * runs after the return; -ETIMEDOUT: one still runs after USDMA_HANG_MS.
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
/* Destroys an internal stream whose work has ended; its handle is in no use. */
void stream_give_back(stream *s);
wait_mode stream_wait_mode(const stream *s);
/*
 * A stream that is being captured accepts no work: what would be submitted fails with -EINPROGRESS after all checks of
 * its arguments. What was submitted before runs, the first parts of the same call included.
 */
void stream_set_captured(stream *s, bool on);
inline bool stream_is_captured(const stream *s)
{
	return load_relaxed(&s->gated) & gate_captured;
}
/* Work may have to wait for more than the ring. A hint without the lock. */
inline bool stream_is_gated(const stream *s)
{
	return load_acquire(&s->gated) & ~u32(gate_checked);
}
size_t stream_live();

/* Waits for all work submitted before. Returns and clears the first task error (see stream_take_error()). */
int stream_sync(stream *s, deadline until);
/* As stream_sync(), but ignores task errors: returns the result of the wait only (-ETIMEDOUT). */
int stream_wait(stream *s, deadline until);
/* 0: all done; 1: not yet; -errno: device lost. Does not clear errors. */
int stream_query(stream *s);
/* True: all done and no error pending; may be false by mistake. Lock-free; inside a read section. */
bool stream_is_done(const stream *s);
/* As stream_is_done(), but first spins for about a microsecond if the stream's wait mode allows it. */
bool stream_spin(const stream *s);
/* Set the error text; return -errno. */
int fail_dead();
int fail_task(const stream *s, const stream_error &e);
/* Of an operation on a file, by its positive errno. */
const char *file_error_text(int err);
/*
 * Returns the first error that no mark owns (0 or -errno), and clears it and those behind it, unless the stream has
 * stopped. unlisted (or null): as stream_list_new().
 */
int stream_take_error(stream *s, error_list *unlisted);
/* As stream_take_error(), but leaves those behind it. -ENODEV: none, but work was lost with the device. */
int stream_take_next_error(stream *s, stream_error *out);
/* As stream_take_error(), for a check of stream_wait_check(): a positive errno, or 0. */
int stream_take_error_locked(stream *s);
/* As stream_take_error(), but leaves the error pending. */
int stream_see_error(stream *s, error_list *unlisted = nullptr);
/*
 * Adds the pending failures that it has not listed before, each once: what stopped all of the owner's streams, and the
 * stream's own, but for those of an abort. error_list_take() is called until it returns false.
 */
void stream_list_new(stream *s, error_list *unlisted);
bool error_list_take(error_list *l, stream_error *out);
/*
 * Drops queued work and aborts running work; later calls return -ECANCELED until the stream is destroyed. why: EBADF
 * if its device is closed.
 */
int stream_abort(stream *s, int why = ECANCELED);
/*
 * Next stream from index *at (start with 0) for which wanted() holds, with a reference (stream_unref()), as it
 * may be destroyed concurrently. nullptr: no more.
 */
stream *stream_next(size_t *at, bool (*wanted)(const stream *s, const void *arg), const void *arg);
void stream_unref(stream *s);
/* As stream_abort(); on return no host function of the stream starts or runs. -ETIMEDOUT: one still runs. */
int stream_abort_wait(stream *s, deadline until);
/* Aborts each stream of the device that has work; returns the first error. */
int device_abort(device *dev, deadline until);
int stream_set_fail_mode(stream *s, fail_mode mode);
/*
 * The operations that are accepted between these two, by the calling thread, belong together: a failure of one stops
 * the stream, and its owner's, whatever the mode, so that those behind it do not run.
 */
void stream_stop_begin(stream *s);
void stream_stop_end(stream *s);
bool stream_stops_at(const stream *s, u64 number);
/*
 * Waits for all streams of the device except those of synchronous calls in progress. Neither clears nor returns
 * stream errors: returns the result of the wait only.
 */
int device_sync(device *dev, deadline until);
/*
 * Returns the first pending error among the device's streams and leaves it pending. Each error is returned once.
 * unlisted: as stream_list_new() of all of them.
 */
int device_peek_error(device *dev, error_list *unlisted);

/*
 * The device is being closed: invalidates its remaining streams, and drops work that waits for a gate, also that of
 * streams which other threads destroy: calls that wait for it, or add to it, return -EBADF. internal: those, too.
 */
void streams_orphan(device *dev, bool internal);
/* Aborts streams with work in a ring, for the same reason. */
void streams_abort(device *dev);
/* False: at until_ns there are still calls in progress on orphaned streams. */
bool streams_wait_calls(device *dev, u64 until_ns);
/* Destroys the orphaned streams; the rings are empty. Returns the first error that no call has reported. */
int streams_reap(device *dev);

/*
 * Submits n requests in order; blocks only while the ring is full. found: what was looked up for them; null: they
 * access memory that the caller owns. stale: some of that was freed or unregistered since, before the rest was in the
 * ring or in the stream's queue. *posted (if not null): how many were accepted when it returns anything but 0. Their
 * cookies are overwritten.
 */
int stream_submit(stream *s, dma::request *r, size_t n, const lookups *found, op_numbers *numbers,
		  size_t *posted = nullptr);
/* The call has submitted less operations than it has numbers: gives the others back, unless later ones were taken. */
void stream_numbers_end(stream *s, const op_numbers *numbers, u64 used);
/*
 * Fast path for one copy of up to plain_len bytes: arguments stay in registers. Inside a read section; never
 * blocks. Returns its cookie (number_of_cookie()); 0: not possible now, nothing was done; take the slow path.
 */
u64 stream_submit_copy(stream *s, u32 spaces, u64 src, u64 dst, u64 len);

/* The number of the last operation that was accepted; exact with the hardware queue's lock held. */
inline u64 stream_number(const stream *s)
{
	return load_relaxed(&s->copies) + load_relaxed(&s->apart);
}
/* A cookie has the low bits of the number of an operation that is close to the stream's last one. */
inline u64 number_of_cookie(const stream *s, u64 cookie)
{
	const u64 last = stream_number(s);

	return last - u64(s64((last << dma::cookie_owner_bits) - (cookie & ~dma::cookie_owner(~u64(0)))) >>
			  dma::cookie_owner_bits);
}

/* As memory_upcalls. */
u64 stream_gated_last();
u64 stream_gated_posted(const device *dev);
bool stream_gated_await(const memory_use &use, deadline until);

/* ---- gates and callbacks ---------------------------------------------------------------------------- */

/* Gates the stream until the 64-bit word compares (dma::compare). word: CPU memory that outlives the stream's work. */
int stream_wait_word(stream *s, const u64 *word, dma::compare cmp, u64 value, deadline until);
/*
 * As stream_wait_word() for device or pinned memory that the CPU can access (word_view()). If that memory is
 * freed, the wait fails with EFAULT as the stream's error.
 */
int stream_wait_memory(stream *s, const void *addr, dma::compare cmp, u64 value);
/*
 * For custom conditions (count notify): check(arg) is called until it returns true and has taken effect. check
 * and release run under the stream's lock: they must not wait, free memory or call into the library. by: bits of
 * changed_by. uses (or nullptr): it is for work that accesses the memory. numbers (or nullptr): of the call whose work
 * it is for.
 */
enum changed_by : u8 {
	changed_by_library =
		0, /* what makes it true calls progress_kick() or rings the bell, or is a step of another stream */
	changed_by_device = 1, /* or a WRITE of a device of this process, with flag_interrupt */
	changed_by_others = 2, /* or something that does not report it: it is polled */
};
struct seen_word;
int stream_wait_check(stream *s, int (*check)(void *arg), void (*release)(void *arg), void *arg, deadline until,
		      const seen_word *seen = nullptr, u8 by = changed_by_device | changed_by_others,
		      bool (*uses)(const void *arg, const memory_use &use) = nullptr, op_numbers *numbers = nullptr);
/* For the race check: the word that check waits for, which other streams write. Without it any may have been waited
 * for. */
struct seen_word {
	const void *word; /* nullptr: it waits for no other stream */
	dma::compare cmp;
	u64 value;
	bool takes; /* and is reset to 0 */
};
/* Each library has its own: not to be recognized by its address. */
inline constexpr seen_word seen_nothing = {nullptr, dma::compare::eq, 0, false};

/*
 * Host call after all earlier work. deliver(arg, done) runs in whichever thread detects completion; it must not
 * block or call into the library, but hand the call to a thread that runs it. block: the stream waits for
 * call_done(done); else done is null. Calls of a stream are delivered in order. An accepted call is always
 * delivered, also when the stream is aborted or its device is lost; its thread checks with call_scope whether
 * it is still to run.
 */
struct call_token;

/* The host functions of one stream; each holds a reference. */
struct call_group;
call_group *call_group_of(stream *s); /* returns a reference; nullptr: no memory */
/* Scope in which a thread runs a host function. False: the function was dropped and must not run. */
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
 * -EDEADLK: this thread runs a host function that the stream waits for (before until_record, if given),
 * directly or through events of other streams; waiting would deadlock.
 */
int call_allows_wait(stream *s, const record *until_record = nullptr);
void call_group_unref(call_group *g);
/* Prevents further host functions of the stream from starting. */
void call_group_drop(stream *s);
/* Waits until none runs except the caller's own. -ETIMEDOUT. */
int call_group_wait(stream *s, deadline until);

/* by: identifies the thread that will run the call. mark: set at the call's position, has its result when it is
 * delivered. */
int stream_call(stream *s, void (*deliver)(void *arg, call_token *done), void *arg, bool block, u64 by = 0,
		stream_mark *mark = nullptr);
void call_done(call_token *done);
/* As stream_call(), without block: of the library, which the program does not see. */
int stream_notice(stream *s, void (*deliver)(void *arg, call_token *done), void *arg);
/*
 * As stream_call() for front ends without callback threads: runs fn(arg) on the library's callback thread of
 * the stream's owner or device.
 */
int stream_host_func(stream *s, void (*fn)(void *arg), void *arg, bool block);
/* The same with the result of the work behind the mark before it, as stream_mark_result(). */
int stream_host_func(stream *s, void (*fn)(void *arg, int status), void *arg, bool block);

/*
 * Work of the stream by another thread, which accesses memory of the program: waits for the stream, aborts and its end
 * wait for it, also when its gate was dropped. The other thread holds a reference to the stream.
 */
void stream_outside_enter(stream *s);
void stream_outside_leave(stream *s);
/* The stream has stopped, or lost its device, and what it dropped may still access the program's memory. */
bool stream_has_dropped_outside(const stream *s);
/* -ETIMEDOUT. */
int stream_outside_wait(stream *s, deadline until);

/* Adds 1 to fd (duplicated) after all earlier work; never blocks or raises a signal. */
int stream_signal_fd(stream *s, int fd);

/* ---- marks ---------------------------------------------------------------------------------------------- */

/*
 * Sets a mark behind all work submitted so far, if that is in the ring: m->seq. 1: it is not (nothing was done);
 * -errno: the stream accepts no work. With the hardware queue's lock held.
 */
int stream_mark_set(stream *s, stream_mark *m);
/*
 * 0, or the first failure of the mark's work, which is then out of its stream: *out (if not null) describes it.
 * -ENODEV: the device was lost before that work ended; -ECANCELED: it was dropped. -EAGAIN: it has not ended (no text).
 * Needs no handle: the stream may have been destroyed. Handles no fault: as long as the ring has halted, the work has
 * not ended.
 */
int stream_mark_result(stream_mark *m, stream_error *out = nullptr);
/* Takes one failure, before the result: *out, whose err may be 0. -EAGAIN. */
int stream_mark_take_error(stream_mark *m, stream_error *out);
/* The caller polls: lets the work go on, as stream_query(). True: the mark has its result. */
bool stream_mark_poll(stream_mark *m);

} // namespace usdma::core
#pragma GCC visibility pop
