/* SPDX-License-Identifier: BSD-3-Clause */
/* Work of a stream as it stands in its queue behind a gate. */
#pragma once

#include "lib/core/stream/event.h"
#include "lib/core/stream/stream.h"

#include <memory>

namespace usdma::core {

enum class task_kind : u8 { request, record, reset, gate_event, gate_check, call };

struct watch;
struct watch_forgo {
	void operator()(watch *w) const;
};

struct task {
	task_kind kind = task_kind::request;
	bool block = false;     /* call: the stream waits for call_done */
	bool delivered = false; /* call: handed over, not yet done */
	u64 number = 0;         /* for queue_epoch */
	deadline until = deadline::never();
	dma::request req{};
	record *rec = nullptr; /* record, gate_event: a reference */
	event *ev = nullptr;   /* reset, gate_event: a reference */
	int (*check)(void *arg) =
		nullptr; /* gate_check: 1 when it has taken effect, 0: not yet; -errno: it never will */
	void (*release)(void *arg) = nullptr; /* gate_check: at its end, whatever that is */
	void (*deliver)(void *arg, call_token *done) = nullptr;
	void *arg = nullptr;
	u64 by = 0;                  /* call: as stream_call() */
	call_token *token = nullptr; /* call: a reference */
	std::unique_ptr<watch, watch_forgo>
		place; /* call: the progress thread's room for it; null once the progress thread has it */
};

/* A task in its stream's queue. */
struct queued {
	task t;
	queued *next = nullptr;
};

/* What run_task says. */
enum class outcome : u8 { done, later };

/*
 * Runs a task now if its stream has nothing before it; with the hardware queue's lock held.
 * later: a gate that is shut, or a full ring.
 */
outcome run_task(stream *s, task &t);
/* Gives back what a task holds, without running it; accepted: its submitter was told that it will run. */
void drop_task(task &t, bool accepted);
/* Runs the task, or queues it for the progress thread. 0 or -errno (then it is dropped). */
int stream_push(stream *s, task &&t);
/* The same for a list of requests, or a call: all of them, or none and -errno. Takes the list. */
int stream_push_all(stream *s, queued *first);
/* Tasks that were not accepted. */
void queued_delete(queued *first);
/* Moves a gated stream's queue on as far as it goes; true when something moved. Takes the hardware queue's lock. */
bool stream_advance(stream *s);
/*
 * Drops all that is queued; with the hardware queue's lock held. Its calls are made, after those that the
 * progress thread still has.
 */
void stream_drop_queue(stream *s);
void stream_note_error(stream *s, int err, dma::fault_reason reason, u64 address, u64 seq);
/* As many of n requests as fit now, with the hardware queue's lock held: that many. */
unsigned stream_post(stream *s, const dma::request *r, size_t n);
/* Back to never recorded. */
void event_forget_record(event *e);
/* Errors that end a call at once: stopped, dead. */
int stream_refuses(const stream *s);
/* Of a stream that has stopped; with the hardware queue's lock held, or as a hint without. */
int fail_stopped(const stream *s);
/* The pending error, which stays pending.  once: and is not told so again. */
int peek_error(stream *s, bool once);

/* ---- records ---------------------------------------------------------------------------------------- */

/* on: the device that stores the time, where it is taken; null: no time, or record_time() later. */
record *record_new(const device *on);
int record_time(record *r, const device *on);
void record_ref(record *r);
void record_unref(record *r);
/* Puts it into the ring, with the hardware queue's lock held; false: no room. */
bool record_place(record *r, stream *s);
/* The hardware queue whose ring it is in, inside a read section; nullptr: in none, or the device was closed. */
hw_queue *record_hw_queue(const record *r);
/*
 * Notices that it is reached; true when so. Handles its hardware queue's faults, which takes locks of hardware
 * queues.
 */
bool record_reached(record *r);
/* The same without: for those who hold one. */
bool record_passed(const record *r);
/* … and are inside a read section. */
bool record_passed_inside(const record *r);
/* It is in a ring of a device that is lost, and was not reached there: it never will be. */
bool record_lost(const record *r);
/* Words of an older generation (lent_renew()) are given back where nobody uses them any more.  As host_free(). */
void stamps_trim();
/* Waits for it; the hardware queue it is on is counted as in use. */
int record_wait(record *r, deadline until);

/* ---- progress thread ------------------------------------------------------------------------------------------- */

/* A stream's queue has become non-empty; with its hardware queue's lock held. Starts the thread at the first time. */
int progress_add(stream *s);
/* It leaves the list; true: the list's reference is the caller's now. With its hardware queue's lock held. */
bool progress_remove(stream *s);
/* Room for a call; nullptr: no memory. */
std::unique_ptr<watch, watch_forgo> progress_place();
/*
 * Once all that s has in the ring now has ended (or its device is dead): t.deliver(t.arg, nullptr). With the
 * hardware queue's lock held.
 */
int progress_watch(stream *s, bool tells, task &t);
/* How often a device's interrupt woke the progress thread. */
u64 progress_interrupts();
/* One pass over all that is gated or watched, by whoever waits; true when something moved. */
bool progress_run();
/* The same, after the pass that another thread may be in. */
bool progress_run_behind();
/* Tells the progress thread to look again. */
void progress_kick();
/* Sleeps until a pass has moved something, or the time has come. */
void progress_wait(u32 seen, u64 abs_ns);
u32 progress_count();
/* The device goes: nothing watches it any more. */
void progress_forget(device *dev);
/* After a device's opening was cleared and its streams are gone: nothing looks at its hardware queues after this. */
void progress_quiesce();

} // namespace usdma::core
