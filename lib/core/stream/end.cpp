/* SPDX-License-Identifier: BSD-3-Clause */
/* Destroying streams, by the user or when the device is closed. */
#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "lib/core/base/section.h"
#include "lib/core/memory/memory.h"
#include "lib/core/queue/hw_queues.h"
#include "lib/core/stream/guard.h"
#include "lib/core/stream/stream.h"
#include "lib/core/stream/task.h"
#include "lib/core/queue/wait.h"

namespace usdma::core {

void stream_unref(stream *s)
{
	if (fetch_sub_acq_rel(&s->refs, 1) != 1)
		return;
	/* Not in stream_end(): device_abort() may hold ended streams and read their call group. */
	call_group_unref(s->group);
	if (s->order)
		race_stream_remove(s->order);
	all_streams->put(s);
}

static void stream_end(stream *s)
{
	hw_queue *l = s->ln;

	if (s->order)
		race_stream_waited(s->order);
	l->lock.lock();
	stream_drop_queue(s);
	/* Not left to the progress thread: streams may end faster than it runs. */
	const bool listed = progress_remove(s);
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

static stream *dead(int *err)
{
	*err = fail_dead();
	return nullptr;
}

/* Succeeds for one of several concurrent destroyers; holds the device until device_leave(). nullptr: see *err. */
static stream *claim(const void *handle, int *err)
{
	const read_section in;

	*err = in ? 0 : in.error();
	if (!in)
		return nullptr;
	stream *s = stream_find(handle);
	if (!s)
		return dead(err);
	device *dev = s->dev;
	dev->calls.enter();
	/* Before the handle is invalidated: device_sync() must keep waiting for its work. */
	store_release(&s->ending, 1u);
	if (!handle_end(s, handle)) {
		dev->calls.leave();
		return dead(err);
	}
	return s;
}

/* After the grace period no new call starts; calls in progress may still submit, so wait again after them. */
static int wait_last_calls(stream *s)
{
	const int err = stream_wait(s, deadline::never());

	s->calls.drain();
	return err ? err : stream_wait(s, deadline::never());
}

/* An abort does not count as a failure of its work. */
static int last_error(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	return s->error.err && s->error.err != ECANCELED && !s->error_reported ? fail_task(s, s->error) : 0;
}

/* Destroys a claimed stream. Returns its unreported task error, else err. */
static int finish(stream *s, int err)
{
	device *dev = s->dev;
	const int failed = last_error(s);

	stream_end(s);
	device_leave(dev);
	memory_reclaim();
	return failed ? failed : err;
}

/* Checked before the handle is invalidated: on error the stream remains usable. */
static int refuse_own(const void *handle)
{
	const stream_guard s(handle);

	return s ? call_allows_wait(s) : 0;
}

int stream_destroy(const void *handle)
{
	const no_cancel scope;
	int err = refuse_own(handle);

	if (err)
		return err;
	stream *s = claim(handle, &err);

	if (!s)
		return err;
	grace_wait();
	err = wait_last_calls(s);
	return finish(s, err);
}

int stream_destroy_force(const void *handle)
{
	const no_cancel scope;
	int err;
	stream *s = claim(handle, &err);

	if (!s)
		return err;
	grace_wait();
	call_group_drop(s);
	err = stream_abort(s);
	s->calls.drain();
	/* Their submissions after the abort were refused. */
	const int functions = call_group_wait(s, deadline::in_ms(config_get().hang_ms));
	return finish(s, err ? err : functions);
}

/* ---- the device is closed --------------------------------------------------------------------------- */

void streams_orphan(device *dev)
{
	const auto of_device = [](const stream *s, const void *arg) { return s->dev == arg; };

	dev->idle = dev->timed_out = nullptr;
	for (size_t at = 0; stream *s = stream_next(&at, of_device, dev);) {
		store_release(&s->alive, u64(0));
		s->next_idle = dev->orphaned;
		dev->orphaned = s;
		stream_unref(s);
	}
	grace_wait();
	for (stream *s = dev->orphaned; s; s = s->next_idle) {
		std::lock_guard guard(s->ln->lock);

		stream_drop_queue(s);
	}
	progress_kick();
}

void streams_reap(device *dev)
{
	while (stream *s = dev->orphaned) {
		dev->orphaned = s->next_idle;
		s->calls.drain();
		stream_outside_wait(s, deadline::in_ms(hang_over_ms()));
		stream_end(s);
	}
}

} // namespace usdma::core
