/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for streams and querying them. */
#include "driver/base/error.h"
#include "driver/base/wakes.h"
#include "lib/core/base/section.h"
#include "lib/core/base/trace.h"
#include "lib/core/queue/wait.h"
#include "lib/core/memory/memory.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/recover.h"
#include "lib/core/stream/task.h"

#include <climits>

namespace usdma::core {

/* The stream's last sequence number in the ring; false while work is queued behind a gate. */
static bool ring_target(stream *s, u64 *seq)
{
	std::lock_guard guard(s->ln->lock);

	*seq = s->last;
	return !queue_waits(s);
}

/* The ring whose event its first task waits for, counted as in use. nullptr: it waits for something else. */
static hw_queue *enter_awaited(stream *s, u64 *seq, deadline *until)
{
	std::lock_guard guard(s->ln->lock);
	const read_section in;
	const task *t = in && s->queue ? &s->queue->t : nullptr;
	hw_queue *l = t && t->kind == task_kind::gate_event ? record_hw_queue(t->rec) : nullptr;

	if (!l)
		return nullptr;
	l->calls.enter();
	*seq = t->rec->seq;
	*until = deadline::sooner(*until, t->until);
	return l;
}

/*
 * Waits there as for work of its own ring, instead of for a thread that does: one wake-up less. In parts, each as long
 * as all before, as an abort does not end them. False: not possible.
 */
static bool wait_for_event(stream *s, spinning_waiter *spin, deadline until, u64 *part_ns)
{
	const saved_error before;
	u64 seq;
	hw_queue *const l = enter_awaited(s, &seq, &until);

	if (!l)
		return false;
	spin->pause();
	hwq_wait(l, seq, deadline::sooner(until, deadline::in_ns(*part_ns)), stream_wait_mode(s));
	l->calls.leave();
	*part_ns = std::min(2 * *part_ns, 20 * ns_per_ms);
	before.again(0);
	progress_run_behind();
	return true;
}

/* The caller may poll. */
static int fail_not_yet(const stream *s, const char *what)
{
	note_gated_poll();
	return fail(ETIMEDOUT, "stream %u: %s", s->id, what);
}

static int wait_ungated(stream *s, deadline until)
{
	spinning_waiter spin(s->ln, stream_wait_mode(s));
	u64 part_ns = ns_per_ms;

	for (;;) {
		const u32 seen = progress_count();
		u64 seq;
		int err;

		if (ring_target(s, &seq))
			return 0;
		if (progress_run())
			continue;
		if ((err = call_allows_wait(s)))
			return err;
		if (until.passed())
			return fail_not_yet(s, "not done in time");
		/* The gate may depend on a ring of any device. */
		devices_poll();
		if ((err = device_alive(s->dev)))
			return err;
		if (wait_for_event(s, &spin, until, &part_ns) || spin.goes_on())
			continue;
		progress_wait(seen, until.at());
	}
}

/* ---- work outside of the ring ----------------------------------------------------------------------- */

void stream_outside_enter(stream *s)
{
	fetch_add_acquire(&s->outside, 1);
}

void stream_outside_leave(stream *s)
{
	/* Before: who waits for it may free the device then. */
	const bool dropped = load_relaxed(&s->stopped) || s->dev->lost();

	if (fetch_sub_acq_rel(&s->outside, 1) == 1)
		futex_wake(&s->outside, INT_MAX);
	/* Functions that were dropped are called behind it. */
	if (unlikely(dropped))
		progress_kick();
}

bool stream_has_dropped_outside(const stream *s)
{
	return unlikely(load_acquire(&s->outside)) && (load_relaxed(&s->stopped) || s->dev->lost());
}

/* Sleeps until some of it may have ended; -ETIMEDOUT. */
static int outside_step(stream *s, deadline until)
{
	const u32 n = load_acquire(&s->outside);

	if (n && until.passed())
		return fail_not_yet(s, "a file operation was not cancelled in time");
	if (n)
		futex_wait_checked(&s->outside, n, 0, until.at(), 20 * ns_per_ms);
	return 0;
}

int stream_outside_wait(stream *s, deadline until)
{
	int err = 0;

	while (load_acquire(&s->outside) && !err)
		err = outside_step(s, until);
	return err;
}

/* The device is lost: what it would have done is over, but for what other threads do. */
static int wait_failed(stream *s, int err)
{
	if (err != -ENODEV)
		return err;
	store_relaxed(&s->dev->loss_reported, 1u);
	if (unlikely(load_acquire(&s->outside)) && s->dev->lost()) {
		const saved_error why;

		stream_outside_wait(s, deadline::in_ms(hang_over_ms()));
		why.again(err);
	}
	return err;
}

[[gnu::always_inline]] static inline int wait_all(stream *s, deadline until)
{
	u64 seq;
	int err;

	do {
		while (!ring_target(s, &seq)) {
			err = wait_ungated(s, until);
			if (err)
				return wait_failed(s, err);
		}
		err = hwq_wait(s->ln, seq, until, stream_wait_mode(s));
		if (unlikely(err))
			return wait_failed(s, err);
		/* A gate that was dropped does not wait for its other thread. */
	} while (unlikely(load_acquire(&s->outside)) && !(err = outside_step(s, until)));
	return unlikely(stream_is_closed(s)) ? fail_stopped(s) : err;
}

/* The caller knows then that all work before has ended. */
[[gnu::cold, gnu::noinline]] static int wait_checked(stream *s, deadline until)
{
	const u64 mark = race().stream_mark(s->order);
	const int err = wait_all(s, until);

	if (!err || s->dev->lost())
		race().stream_waited(s->order, mark);
	return err;
}

int stream_wait(stream *s, deadline until)
{
	return likely(!s->order) ? wait_all(s, until) : wait_checked(s, until);
}

int stream_sync(stream *s, deadline until)
{
	const int err = stream_wait(s, until);

	/* Complete frees deferred while this work was in flight; one load if there are none. */
	memory_reclaim();
	return unlikely(err) ? err : stream_take_error(s, nullptr);
}

bool stream_is_done(const stream *s)
{
	/*
	 * The order matters: gated work is numbered in the ring before gated is cleared, and a failure is
	 * reported before its ring resumes.
	 */
	return !load_acquire(&s->gated) && hwq_done(s->ln, load_relaxed(&s->last)) && !load_acquire(&s->has_error) &&
	       !load_acquire(&s->outside);
}

bool stream_spin(const stream *s)
{
	if (!load_acquire(&s->gated) && stream_wait_mode(s) != wait_mode::interrupt)
		hwq_spin(s->ln, load_relaxed(&s->last));
	return stream_is_done(s);
}

/* Queued behind a gate, or outside of the ring. */
static int query_gated(stream *s)
{
	if (s->dev->lost() && !load_acquire(&s->outside))
		return stream_refuses(s);
	note_gated_poll();
	return 1;
}

[[gnu::always_inline]] static inline int query(stream *s)
{
	u64 seq;

	if (!ring_target(s, &seq)) {
		progress_run();
		devices_poll();
		if (!ring_target(s, &seq))
			return query_gated(s);
	}
	if (unlikely(load_acquire(&s->outside)))
		return query_gated(s);
	if (dma::halted(s->ln->ch))
		hwq_check_fault(s->ln);
	if (hwq_done(s->ln, seq)) {
		trace_complete(s->ln, seq);
		if (unlikely(load_relaxed(&s->lost_work)))
			return fail_lost(s->dev);
		return unlikely(stream_is_closed(s)) ? fail_stopped(s) : 0;
	}
	hwq_note_poll(s->ln, seq);
	/* Its ring may wait for another ring. */
	devices_poll();
	return s->dev->lost() ? fail_lost(s->dev) : 1;
}

[[gnu::cold, gnu::noinline]] static int query_checked(stream *s)
{
	const u64 mark = race().stream_mark(s->order);
	const int done = query(s);

	if (!done)
		race().stream_waited(s->order, mark);
	return done;
}

int stream_query(stream *s)
{
	return likely(!s->order) ? query(s) : query_checked(s);
}

stream *stream_next(size_t *at, bool (*wanted)(const stream *s, const void *arg), const void *arg)
{
	return all_streams->next(at, [&](stream &s) { return wanted(&s, arg) && ref_if_any(&s.refs); });
}

stream *stream_of_device(const device *dev, size_t *at)
{
	return all_streams->next_of_all(at, [&](stream &s) {
		return stream_is_there(s) && s.dev == dev && (!s.opt.internal || load_relaxed(&s.timed_out)) &&
		       ref_if_any(&s.refs);
	});
}

/* Does not wait: functions of one stream may wait for those of another. */
static int drop_work(stream *s)
{
	call_group_drop(s);
	return stream_abort(s);
}

int stream_abort_wait(stream *s, deadline until)
{
	const int err = drop_work(s);

	return err ? err : call_group_wait(s, until);
}

int device_abort(device *dev, deadline until)
{
	int first = 0;

	for (size_t at = 0; stream *s = stream_of_device(dev, &at);) {
		const int err = load_acquire(&s->alive) && stream_query(s) == 1 ? drop_work(s) : 0;

		first = first ? first : err;
		stream_unref(s);
	}
	for (size_t at = 0; stream *s = first ? nullptr : stream_of_device(dev, &at);) {
		first = load_relaxed(&s->stopped) ? call_group_wait(s, until) : 0;
		stream_unref(s);
	}
	return first;
}

int device_sync(device *dev, deadline until)
{
	int err = 0;

	for (size_t at = 0; stream *s = err ? nullptr : stream_of_device(dev, &at);) {
		err = stream_wait(s, until);
		stream_unref(s);
	}
	memory_reclaim();
	return err;
}

int device_peek_error(device *dev, error_list *unlisted)
{
	int err = 0;

	for (size_t at = 0; stream *s = stream_of_device(dev, &at);) {
		if (!err)
			err = peek_error(s, true, unlisted);
		else
			stream_list_new(s, unlisted);
		stream_unref(s);
	}
	return err;
}

} // namespace usdma::core
