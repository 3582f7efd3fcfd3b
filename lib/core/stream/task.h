/* SPDX-License-Identifier: BSD-3-Clause */
/* Work of a stream that is queued behind a gate. */
#pragma once

#include "lib/core/config/race.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/event.h"
#include "lib/core/stream/stream.h"

#include <memory>
#include <poll.h>
#include <vector>

namespace usdma::core {

/* As `by` of stream_call(): no thread of the program runs the call. */
inline constexpr u64 by_library = ~u64(0);

enum class task_kind : u8 { request, record, reset, gate_event, gate_check, call };

/* A call that the progress thread delivers. Allocated with the task, so that delivery cannot fail. */
struct call_slot {
	stream *s = nullptr; /* a reference */
	u64 seq = 0;
	u64 by = 0;                  /* as stream_call() */
	stream_mark *mark = nullptr; /* as stream_call() */
	bool marked = false;         /* a request in the ring raises the interrupt: none is armed */
	bool due = false;            /* used within a pass */
	void (*deliver)(void *arg, call_token *done) = nullptr;
	void *arg = nullptr;
	call_slot *next = nullptr; /* atomic: a pass iterates while others append */
};

struct task {
	task_kind kind = task_kind::request;
	bool block = false;     /* call: the stream waits for call_done */
	u8 changed_by = 0;      /* gate_check: as stream_wait_check() */
	bool delivered = false; /* call: delivered, not yet done */
	u64 number = 0;         /* as stream_gated_last() */
	u64 op = 0;             /* its number in the stream; of a call: that of the next operation */
	deadline until = deadline::never();
	dma::request req{};
	record *rec = nullptr;                /* record, gate_event: a reference */
	event *ev = nullptr;                  /* reset, gate_event: a reference */
	int (*check)(void *arg) = nullptr;    /* gate_check: 1: met and taken effect; 0: not yet; -errno: never */
	void (*release)(void *arg) = nullptr; /* gate_check: always called at its end */
	bool (*uses)(const void *arg, const memory_use &use) = nullptr; /* gate_check: as stream_wait_check() */
	void (*deliver)(void *arg, call_token *done) = nullptr;
	void *arg = nullptr;
	u64 by = 0;                      /* call: as stream_call() */
	call_token *token = nullptr;     /* call: a reference */
	stream_mark *mark = nullptr;     /* call: as stream_call(); null once passed to the progress thread */
	std::unique_ptr<call_slot> slot; /* call: null once passed to the progress thread */
};

/* A task in its stream's queue. */
struct queued {
	task t;
	queued *next = nullptr;
};

/* Result of run_task(). */
enum class outcome : u8 { done, later };

/*
 * Runs the first task of a stream; with the hardware queue's lock held. later: the gate is closed or the ring
 * is full.
 */
outcome run_task(stream *s, task &t);
/* Releases a task's resources without running it; accepted: its submission had succeeded. */
void drop_task(task &t, bool accepted);
/*
 * Runs the task, or queues it for the progress thread. On -errno the task is dropped. numbers: of the call, of which it
 * is the operation at numbers->at; else it has the next number.
 */
int stream_push(stream *s, task &&t, op_numbers *numbers = nullptr);
/* As stream_push() for a list of requests or a call: all or none. found: as stream_submit(). Takes the list over. */
int stream_push_all(stream *s, queued *first, const lookups *found = nullptr, op_numbers *numbers = nullptr);
/* Frees tasks that were not accepted. */
void queued_delete(queued *first);
/* Runs a gated stream's queue until a task has to wait; true: progress was made. Takes the hardware queue's lock. */
bool stream_advance(stream *s);
/*
 * Drops the queue; with the hardware queue's lock held. The progress thread still delivers its calls, after those
 * that it has.
 */
void stream_drop_queue(stream *s);
/* The next eleven with the hardware queue's lock held. Of a request in the ring, of the operation with this number. */
void stream_note_failure(stream *s, const dma::fault &f, u64 number);
/* Of the task that runs. */
void stream_note_error(stream *s, int err, dma::fault_reason reason, u64 address, u64 number);
/* what: "reading", … */
void stream_note_file_error(stream *s, int err, const char *what, u64 offset);
/* Of work with another machine: the item of the task, and the bytes before that succeeded. */
[[gnu::visibility("default")]] void stream_note_remote_error(stream *s, int err, u64 item, u64 offset);
/* A reset has ended the stream's requests in the ring, or the device was lost: what has not ended has this error. */
void stream_note_reset(stream *s);
void stream_note_loss(stream *s);
/*
 * The stream accepts no work any more, and what has not ended is dropped; in_ring: also requests in the ring. Its marks
 * have -ECANCELED. why: as stream::stopped.
 */
void stream_note_stop(stream *s, int why, bool in_ring);
/* Behind it with in_ring: its work was removed from the ring, or could not be, and goes on. */
void stream_note_cancelled(stream *s, bool removed);
/* It was aborted: -ECANCELED, unless there was a failure before. */
void stream_note_abort(stream *s);
/* Sets a mark that waits for its turn; reached: it comes now; unset: it was not accepted. */
void stream_mark_gated(stream *s, stream_mark *m);
void stream_mark_reached(stream *s, stream_mark *m);
void stream_mark_unset(stream *s, stream_mark *m);
/* Its call is delivered: the result is there. Does nothing for null. */
void stream_mark_end(stream_mark *m);
/* The stream has ended: its marks have their results, and do not use its hardware queue any more. */
void stream_marks_over(stream *s);
/* When it is freed. */
void stream_errors_free(stream *s);
/* The failure that no call has returned; an abort does not count as one. */
int stream_unreported_error(stream *s);
/* The next request of the operation with this number. */
inline u64 cookie_of(const stream *s, u64 number)
{
	return op_cookie(number) | dma::cookie_owner(s->cookie);
}
/* With the hardware queue's lock held, as the next one: n operations were accepted, or so many copies were counted. */
inline void stream_accept(stream *s, u64 n, u64 copies = 0)
{
	store_relaxed(&s->apart, s->apart + n - copies);
	s->cookie = op_cookie(s->apart) | dma::cookie_owner(s->cookie);
}
/* The call's first number, which stream_number_call() takes once a request was accepted. */
inline u64 stream_next_number(const stream *s, const op_numbers *numbers)
{
	return numbers->first ? numbers->first : stream_number(s) + 1;
}
inline void stream_number_call(stream *s, op_numbers *numbers)
{
	if (numbers->first)
		return;
	numbers->first = stream_number(s) + 1;
	stream_accept(s, numbers->n);
}
/* Posts as many of n requests as fit and returns their number; with the hardware queue's lock held. */
unsigned stream_post(stream *s, const dma::request *r, size_t n);
/* Timing early: the stream's work is done before the call returns, unless it waits for other work. */
void stream_complete_early(stream *s);
/* Resets the event to "never recorded". */
void event_forget_record(event *e);
/* Alive, or being destroyed. */
inline bool stream_is_there(const stream &s)
{
	return load_acquire(&s.alive) || load_acquire(&s.ending);
}
/* Its device was closed, which dropped work of it. */
inline bool stream_is_closed(const stream *s)
{
	return load_relaxed(&s->stopped) == EBADF;
}
/* Its queue is not empty; with the hardware queue's lock held. */
inline bool queue_waits(const stream *s)
{
	return s->gated & gate_queue;
}
/* -errno if the stream accepts no work: stopped, held, destroyed, or its device lost. */
[[gnu::visibility("default")]] int stream_refuses(const stream *s);
/* The error of a stopped stream; exact with the hardware queue's lock held, else a hint. */
int fail_stopped(const stream *s);
/* The device is closed: drops what waits for a gate; the stream then returns -EBADF. */
void stream_close_gates(stream *s);
/*
 * The device's next stream from index *at (start with 0) with a reference, including those being destroyed, excluding
 * those of synchronous calls in progress.
 */
stream *stream_of_device(const device *dev, size_t *at);
/* The pending error, left pending. once: reported once. */
int peek_error(stream *s, bool once, error_list *unlisted);

/* ---- records ---------------------------------------------------------------------------------------- */

/* on: the device that stores the time stamp; null: no time, or set later. */
record *record_new(const device *on);
/* A word for a time stamp, which may be allocated: without locks. nullptr: no memory. Unused, it is given back. */
u64 *stamp_get(const device *on);
void stamp_put(u64 *word);
void record_ref(record *r);
void record_unref(record *r);
/* Posts it to the ring; with the hardware queue's lock held. False: ring full. */
bool record_start(record *r, stream *s);
/* It was accepted, and does not get there: reached when what the stream has in its ring has ended. */
void record_drop(record *r, const stream *s, u64 op);
/* The hardware queue whose ring holds it; nullptr: none, or the device was closed. Inside a read section. */
hw_queue *record_hw_queue(const record *r);
/* True: reached. Also handles faults of its hardware queue, which takes locks of hardware queues. */
bool record_reached(record *r, bool polled = false);
/* As record_reached() without fault handling: the caller may hold a queue lock. */
bool record_passed(const record *r);
/* As record_passed() inside a read section. */
bool record_passed_inside(const record *r);
/* Never to be reached: it is in a ring of a lost device. */
bool record_lost(const record *r);
/* Frees unused time-stamp words of older generations (host_generation_renew()). Called as host_free(). */
void stamps_trim();
/* Waits for it; its hardware queue counts as in use meanwhile. */
int record_wait(record *r, deadline until);

/* ---- progress thread ------------------------------------------------------------------------------------------- */

/* The number of a task that is queued next, for stream_gated_last(). */
u64 progress_number();
/* Lists a stream whose queue is not empty; with its hardware queue's lock held. Starts the thread on first use. */
int progress_add(stream *s);
/* Writes to eventfds that were full, if they have space now. */
void signals_retry();
/* Adds those that still are. False: poll them. */
bool signals_listen(std::vector<pollfd> *fds);
/* Unlists it; true: the caller now owns the list's reference. With its hardware queue's lock held. */
bool progress_remove(stream *s);
/*
 * Calls t.deliver(t.arg, nullptr) once the ring of s has completed seq or its device is dead. marked: a request in the
 * ring raises the interrupt. With the hardware queue's lock held.
 */
int progress_add_call(stream *s, u64 seq, bool marked, task &t);
/* It sleeps, and wakes rings that wait for what other devices write. */
bool progress_listens();
/* Number of device interrupts that woke the progress thread. */
u64 progress_interrupts();
/* One pass over all gated streams and pending calls, in the caller's thread; true: progress was made. */
bool progress_run();
/* As progress_run(), but waits for another thread's pass first instead of returning. */
[[gnu::visibility("default")]] bool progress_run_behind();
/* Wakes the progress thread. */
[[gnu::visibility("default")]] void progress_kick();
/* Something has ended without a pass: who waits for one checks again. */
void progress_note();
/* Sleeps until a pass has made progress, or until abs_ns. */
void progress_wait(u32 seen, u64 abs_ns);
/*
 * A thread that waits for a stream of the hardware queue behind a gate, and makes one pass after the other as its wait
 * mode says. Meanwhile the progress thread neither spins nor polls.
 */
class spinning_waiter {
public:
	spinning_waiter(const hw_queue *l, wait_mode mode);
	~spinning_waiter() { pause(); }
	spinning_waiter(const spinning_waiter &) = delete;
	spinning_waiter &operator=(const spinning_waiter &) = delete;
	/* True: it makes the next pass at once, also after a pause. */
	bool goes_on();
	/* Before it sleeps elsewhere: until goes_on() the progress thread polls. */
	void pause();

private:
	void start();

	const hw_queue *const l_;
	u64 until_ = 0; /* 0: it does not spin */
	bool counted_ = false;
};
u32 progress_count();
/* The progress thread monitors this queue, see ring_signal.h. The caller then kicks it. */
int monitor_add(hw_queue *l);
/* The progress thread handles halts of this queue, until its device is closed. */
int monitor_halts(hw_queue *l);
/* Some are checked every 50 ms. */
bool monitor_any();
/* In a pass. True: again in a millisecond. */
bool monitor_run();
/*
 * The i-th queue (nullptr: no more), and the number to arm its service interrupt for; ~0: it is armed. interrupts: as
 * progress_interrupts(). With scan_lock held, as the next.
 */
hw_queue *monitor_interest(size_t i, u64 interrupts, u64 *seq);
void monitor_note_arm(hw_queue *l, u64 seq, u64 interrupts);
void monitor_forget(const device *dev);
/* The device is closing: delivers its pending calls. */
void progress_forget(device *dev);
/* Called after a device's opening was cleared and its streams ended: on return no pass uses its hardware queues. */
void progress_quiesce();

} // namespace usdma::core
