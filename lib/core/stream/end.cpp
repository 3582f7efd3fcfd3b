/* SPDX-License-Identifier: BSD-3-Clause */
/* Destroying streams, by the user or when the device is closed. */
#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "lib/core/base/fork.h"
#include "lib/core/base/section.h"
#include "lib/core/memory/memory.h"
#include "lib/core/queue/hw_queues.h"
#include "lib/core/stream/stopped.h"
#include "lib/core/stream/stream.h"
#include "lib/core/stream/task.h"
#include "lib/core/queue/wait.h"

#include <mutex>

namespace usdma::core {

void stream_unref(stream *s)
{
	if (fetch_sub_acq_rel(&s->refs, 1) != 1)
		return;
	/* Not in stream_end(): device_abort() may hold ended streams and read their call group. */
	call_group_unref(s->group);
	stream_errors_free(s);
	if (s->order)
		race().stream_remove(s->order);
	all_streams->put(s);
}

static void stream_end(stream *s)
{
	hw_queue *l = s->ln;

	if (s->order)
		race().stream_waited(s->order, race_everything);
	l->lock.lock();
	stream_marks_over(s);
	stream_drop_queue(s);
	if (s->opt.owner)
		stream_leave_owner(s);
	/* Not left to the progress thread: streams may end faster than it runs. */
	const bool listed = progress_remove(s);
	/* Its marks may hold it for long, also when its device is closed. */
	store_release(&s->ending, 0u);
	l->lock.unlock();
	progress_kick(); /* others may wait for the dropped work */
	/* Its calls are due: its work has ended or was dropped. */
	if (load_acquire(&s->pending_calls))
		progress_run_behind();
	hwq_put(l);
	if (listed)
		stream_unref(s);
	stream_unref(s);
}

void stream_give_back(stream *s)
{
	handle_end(s, stream_handle(s));
	stream_end(s);
}

/*
 * Held to end a handle. A thread that destroys a stream needs no read section, for which there may be no memory: it is
 * counted in its device before the close of that takes the rest.
 */
static constinit std::mutex ending_lock;

/* With ending_lock held. 0: no other thread destroys it; the device stays until device_leave(). */
static int claim_live(const void *handle, bool waits)
{
	stream *s = stream_find(handle);
	if (!s)
		return fail_dead();
	/* Before the handle is invalidated: the stream remains usable. */
	if (const int err = waits ? call_allows_wait(s) : 0)
		return err;
	s->dev->calls.enter();
	/* First: it stays in stream_of_device(). */
	store_release(&s->ending, 1u);
	store_release(&s->alive, u64(0));
	return 0;
}

/* Succeeds for one of several concurrent destroyers. waits: for the stream's work. */
static int claim(const void *handle, bool waits)
{
	if (forked())
		return fail_forked();
	std::lock_guard guard(ending_lock);

	return claim_live(handle, waits);
}

/* After the grace period no new call starts; calls in progress may still submit, so wait again after them. */
static int wait_last_calls(stream *s)
{
	const int err = stream_wait(s, deadline::never());

	s->calls.drain();
	const int later = stream_wait(s, deadline::never());
	return err ? err : later;
}

/* Destroys a claimed stream. Returns its unreported task error, else err. */
static int finish(stream *s, int err)
{
	device *dev = s->dev;
	const int failed = stream_unreported_error(s);

	stream_end(s);
	device_leave(dev);
	memory_reclaim();
	return failed ? failed : err;
}

int stream_destroy(const void *handle)
{
	const no_cancel scope;

	if (const int err = claim(handle, true))
		return err;
	stream *s = stream_of(handle);
	grace_wait();
	return finish(s, wait_last_calls(s));
}

int stream_destroy_force(const void *handle)
{
	const no_cancel scope;

	if (const int err = claim(handle, false))
		return err;
	stream *s = stream_of(handle);
	grace_wait();
	call_group_drop(s);
	const int err = stream_abort(s);
	/* What is not dropped completes, at the latest by a reset: the next stream may get the number and the queue. */
	if (err)
		hwq_wait(s->ln, s->last, deadline::in_ms(hang_over_ms()), wait_mode::hybrid);
	s->calls.drain();
	/* Their submissions after the abort were refused. */
	const int functions = call_group_wait(s, deadline::in_ms(config_get().hang_ms));
	return finish(s, err ? err : functions);
}

/* ---- the device is closed --------------------------------------------------------------------------- */

/* With ending_lock held. */
static stream *next_alive(const device *dev, bool internal, size_t *at)
{
	return all_streams->next(at, [&](stream &s) { return s.dev == dev && (internal || !s.opt.internal); });
}

static void take_streams(device *dev, bool internal)
{
	std::lock_guard guard(ending_lock);

	if (internal)
		dev->idle = dev->timed_out = nullptr;
	for (size_t at = 0; stream *s = next_alive(dev, internal, &at);) {
		/* First: it stays in stream_of_device(). */
		store_release(&s->ending, 1u);
		store_release(&s->alive, u64(0));
		s->next_idle = dev->orphaned;
		dev->orphaned = s;
	}
}

void streams_orphan(device *dev, bool internal)
{
	take_streams(dev, internal);
	grace_wait();
	for (size_t at = 0; stream *s = stream_of_device(dev, &at);) {
		stream_close_gates(s);
		stream_unref(s);
	}
	progress_kick();
}

void streams_abort(device *dev)
{
	for (size_t at = 0; stream *s = stream_of_device(dev, &at);) {
		if (!hwq_done(s->ln, load_relaxed(&s->last)))
			stream_abort(s, EBADF);
		stream_unref(s);
	}
}

bool streams_wait_calls(device *dev, u64 until_ns)
{
	bool ended = true;

	for (stream *s = dev->orphaned; s && ended; s = s->next_idle)
		ended = s->calls.drain(until_ns);
	return ended;
}

/* As stream_destroy(); the calls of internal streams have reported theirs. */
static int final_error(stream *s)
{
	if (s->opt.internal)
		return 0;
	const bool reported = load_relaxed(&s->dev->loss_reported);
	const int failed = stream_unreported_error(s);
	if (failed)
		return failed == -ENODEV && reported ? 0 : failed;
	return s->dev->lost() && !reported && !hwq_done(s->ln, s->last) ? fail_lost(s->dev) : 0;
}

int streams_reap(device *dev)
{
	int first = 0;

	for (stream *s = dev->orphaned; s; s = s->next_idle)
		stream_outside_wait(s, deadline::in_ms(hang_over_ms()));
	for (stream *s = dev->orphaned; s && !first; s = s->next_idle)
		first = final_error(s);
	const saved_error why;
	while (stream *s = dev->orphaned) {
		dev->orphaned = s->next_idle;
		stream_end(s);
	}
	return why.again(first);
}

} // namespace usdma::core
