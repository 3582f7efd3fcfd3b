/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream/ring.h"

#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/log.h"
#include "lib/core/base/section.h"
#include "lib/core/stream/task.h"

#include <sched.h>
#include <unistd.h>

namespace usdma::core {

/* The race check sees calls only. */
static bool has_interrupt(const stream *s)
{
	return signal_is_possible(s->ln) && !s->order;
}

/* The progress thread handles what the interrupt does not report. */
static int monitor_queue(hw_queue *l)
{
	if (likely(load_acquire(&l->monitored)))
		return 0;
	const int err = monitor_add(l);

	progress_kick();
	return err;
}

/* Of a set the number is armed later. */
static int mark_and_arm(stream *s, const u64 *count, stream_mark *mark, ring_signal **out, signalling *how)
{
	std::lock_guard guard(s->ln->lock);
	const int err = stream_mark_set(s, mark);

	*how = signalling::none;
	if (err)
		return err < 0 ? err : 0;
	*how = signal_arm(s->ln, mark->seq, count, out);
	if (*how == signalling::none)
		stream_mark_unset(s, mark);
	return 0;
}

/* A thread that monitors the queue must exist before the ring waits. Again behind it: see signal_check(). */
static int by_device(stream *s, const u64 *count, stream_mark *mark, ring_signal **out, signalling *how)
{
	if (const int err = monitor_queue(s->ln))
		return err;
	signal_prepare(s->ln);
	if (const int err = mark_and_arm(s, count, mark, out, how))
		return err;
	if (monitor_queue(s->ln))
		log_debug("a completion is not monitored");
	return 0;
}

static void add_one(int fd)
{
	const u64 one = 1;

	/* Its counter is never full. */
	if (write(fd, &one, sizeof(one)) < 0)
		log_warn("signalling a completion failed");
}

/* After this write the caller may close the eventfd. */
static void to_completion(void *arg, call_token *)
{
	add_one(int(reinterpret_cast<u64>(arg)));
}

int stream_signal_own(stream *s, int fd, stream_mark *mark)
{
	return stream_call(s, to_completion, reinterpret_cast<void *>(u64(fd)), false, 0, mark);
}

void stream_signals_deliver()
{
	progress_run_behind();
}

int stream_signal_ring(stream *s, const ring_read &read, stream_mark *mark, ring_signal **out, signalling *how)
{
	*how = signalling::none;
	/* Behind calls that the progress thread has yet to deliver. */
	if (has_interrupt(s) && !load_acquire(&s->pending_calls))
		if (const int err = by_device(s, read.count, mark, out, how))
			return err;
	if (*how != signalling::none)
		return 0;
	return stream_signal_own(s, read.fd, mark);
}

/* ---- sets --------------------------------------------------------------------------------------------- */

int set_signals_open(stream *s, set_signals *out)
{
	if (is_other_process())
		return fail_forked();
	out->dev = s->dev;
	out->ln = s->ln;
	out->opening = s->dev->opening;
	if (has_interrupt(s)) {
		signal_prepare(s->ln);
		std::lock_guard guard(s->ln->lock);

		out->by_device = signal_hold(s->ln);
	}
	if (out->by_device)
		return 0;
	out->own.reset(eventfd_make());
	return out->own.valid() ? 0 : fail_errno("eventfd for a set of completions");
}

void set_signals_close(set_signals *set)
{
	const timespec nap = {0, 50 * 1000};

	/* A delivery that has ended its mark is about to return, in a thread of another priority perhaps. */
	while (load_acquire(&set->calls))
		nanosleep(&nap, nullptr);
	if (set->by_device)
		signal_release(set->by_device);
	set->by_device = nullptr;
	set->own.reset();
}

void set_notify(set_signals *set)
{
	if (exchange_seq_cst(&set->notified, 1u))
		return;
	if (set->by_device)
		signal_raise(set->by_device);
	else
		add_one(set->own.get());
}

static void to_set(void *arg, call_token *)
{
	auto *const e = static_cast<set_entry *>(arg);
	set_signals *const set = e->set;

	/* Release: the entry is not used any more. */
	store_release(&e->called, 1u);
	set_notify(set);
	/* Release: the last access. */
	fetch_sub_release(&set->calls, 1);
}

void set_seen(set_signals *set)
{
	/* Not a plain store: what a delivery did before it found it set is seen by the caller. */
	if (load_relaxed(&set->notified))
		exchange_seq_cst(&set->notified, 0u);
}

static int mark_by_call(stream *s, set_signals *set, set_entry *e)
{
	e->set = set;
	store_relaxed(&e->called, 0u);
	fetch_add_relaxed(&set->calls, 1);
	const int err = stream_call(s, to_set, e, false, 0, &e->mark);
	if (err)
		fetch_sub_release(&set->calls, 1);
	return err;
}

int set_mark(stream *s, set_signals *set, set_entry *e)
{
	int err = 1;

	if (set->by_device) {
		if (const int unmonitored = monitor_queue(s->ln))
			return unmonitored;
		std::lock_guard guard(s->ln->lock);
		err = stream_mark_set(s, &e->mark);
	}
	e->in_ring = !err;
	return err == 1 ? mark_by_call(s, set, e) : err;
}

int set_result(set_entry *e, stream_error *out)
{
	return e->in_ring || load_acquire(&e->called) ? stream_mark_result(&e->mark, out) : -EAGAIN;
}

bool set_poll(set_entry *e)
{
	if (!stream_mark_poll(&e->mark))
		return false;
	if (!e->in_ring && !load_acquire(&e->called))
		progress_run_behind();
	return e->in_ring || load_acquire(&e->called);
}

/* The queue, counted as in use; nullptr: its device was closed. */
static hw_queue *enter_queue(const set_signals *set)
{
	const read_section in;

	/* device_close() clears this, then waits for read sections. */
	if (!in || load_acquire(&set->dev->opening) != set->opening)
		return nullptr;
	set->ln->calls.enter();
	return set->ln;
}

signalling set_await(set_signals *set, u64 seq)
{
	hw_queue *const l = set->by_device ? enter_queue(set) : nullptr;
	signalling how;

	if (!l)
		return signalling::armed;
	{
		std::lock_guard guard(l->lock);

		how = signal_next(l, set->by_device, seq);
	}
	if (monitor_queue(l))
		log_debug("a set of completions is not monitored");
	l->calls.leave();
	/* Behind it: what it has consumed may be the signal of a delivery, and the next one has to signal again. */
	set_seen(set);
	return how;
}

void set_await_nothing(set_signals *set)
{
	if (!set->by_device)
		return;
	signal_nothing(set->by_device);
	set_seen(set);
}

} // namespace usdma::core
