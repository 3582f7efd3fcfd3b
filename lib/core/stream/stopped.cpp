/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream/stopped.h"

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/wakes.h"
#include "lib/core/base/fork.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/wait.h"
#include "lib/core/stream/guard.h"
#include "lib/core/stream/task.h"

#include <climits>
#include <utility>

namespace usdma::core {

/* Streams that others stopped, ever; atomic. */
static u32 stops;

/* A stream of any hardware queue, whose lock is not held: the words are atomic. */
static void stop_one(stream *s, u32 err)
{
	u16 none = 0;

	/* First: who finds the work ended must see that it was stopped. */
	store_release(&s->has_error, 1u);
	cmpxchg_acq_rel(&s->stopped, &none, u16(err));
	/* Again: set_has_error() may have stored 0 before it could see the stop. */
	barrier_full();
	store_release(&s->has_error, 1u);
	fetch_add_seq_cst(&stops, 1);
	call_group_drop_made(s);
}

static bool waits_in_ring(const stream *s)
{
	return s->ln->exclusive && hwq_in_wait(s->ln) && !hwq_done(s->ln, s->last);
}

/* One that has ended may have given its hardware queue to another. False: the channel does not stop, or is reset. */
static bool leave_ring(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	if (!stream_is_there(*s) || s->dev->lost() || !waits_in_ring(s))
		return true;
	stream_note_stop(s, int(stream_failure(s)), true);
	const int err = hwq_cancel(s->ln, s->cookie);
	stream_note_cancelled(s, !err);
	if (err)
		log_warn_limited("stream %u: what it waits for in its ring is not dropped yet: %s", s->id,
				 error_text());
	return !err;
}

bool stopped_leave_rings()
{
	static u32 seen;
	static u64 again_at; /* 0: no channel has failed to stop */
	const u32 now = load_seq_cst(&stops);
	bool all = true;

	if (likely(now == seen))
		return true;
	if (unlikely(now_ns() < again_at))
		return false;
	for (size_t at = 0; stream *s = all_streams->next_of_all(&at, [](stream &one) {
		     return stream_is_there(one) && stream_failure(&one) && ref_if_any(&one.refs);
	     });) {
		all &= leave_ring(s);
		stream_unref(s);
	}
	again_at = all ? 0 : now_ns() + ns_per_ms;
	if (all)
		seen = now;
	return all;
}

/* The first failure is that of the owner. */
static void note_failure(stream_owner *o, const stream *s, const stream_error &e)
{
	if (o->failure)
		return;
	o->stream = s->id;
	o->number = e.number;
	store_release(&o->failure, u32(e.err));
}

/* The failure last: who reads it finds all stopped. Who finds one of the others stopped waits for the lock. */
static void stop_others(stream_owner *o, const stream *s, const stream_error &e)
{
	std::lock_guard guard(o->lock);

	for (stream *other = o->streams; other; other = other->next_owned)
		if (other != s)
			stop_one(other, u32(e.err));
	note_failure(o, s, e);
}

void stream_stop_owned(const stream *s, const stream_error &e)
{
	/* The functions of a stream without an owner are called, as those of dropped work are. */
	if (s->opt.owner) {
		call_group_drop_made(s);
		stop_others(s->opt.owner, s, e);
	}
	/* Which drops what they have queued: each is gated then. */
	progress_kick();
}

static stream *next_of(const stream_owner *o, size_t *at)
{
	return all_streams->next_of_all(
		at, [&](stream &s) { return stream_is_there(s) && s.opt.owner == o && ref_if_any(&s.refs); });
}

void streams_stop_at_failures(stream_owner *o)
{
	/* Full barrier: either the table is read behind it with the new stream, or that one sees it. */
	store_fence(&o->stops, 1u);
	for (size_t at = 0; stream *s = next_of(o, &at);) {
		stream_set_fail_mode(s, fail_mode::stop);
		stream_unref(s);
	}
}

void stream_follow_owner(stream *s)
{
	stream_owner *const o = s->opt.owner;

	barrier_full();
	if (load_acquire(&o->stops))
		stream_set_fail_mode(s, fail_mode::stop);
	std::lock_guard guard(o->lock);
	s->next_owned = std::exchange(o->streams, s);
	if (s->next_owned)
		s->next_owned->prev_owned = s;
	if (o->failure)
		stop_one(s, o->failure);
}

void stream_leave_owner(const stream *s)
{
	stream_owner *const o = s->opt.owner;
	std::lock_guard guard(o->lock);

	(s->prev_owned ? s->prev_owned->next_owned : o->streams) = s->next_owned;
	if (s->next_owned)
		s->next_owned->prev_owned = s->prev_owned;
	store_relaxed(&o->left, o->left + 1);
	futex_wake(&o->left, INT_MAX);
}

static bool has_streams(stream_owner *o, u32 *left)
{
	std::lock_guard guard(o->lock);

	*left = o->left;
	return o->streams;
}

void stream_owner_wait(stream_owner *o, bool force)
{
	static constexpr u64 again_ns = 20 * ns_per_ms;

	for (u32 left; !forked() && has_streams(o, &left);) {
		for (size_t at = 0; stream *s = force ? next_of(o, &at) : nullptr;) {
			stream_abort(s);
			stream_unref(s);
		}
		if (force)
			futex_wait_until(&o->left, left, now_ns() + again_ns);
		else
			futex_wait_checked(&o->left, left, any_value, ~u64(0), again_ns);
	}
}

bool stream_stops_with_others(const stream *s)
{
	return s->opt.owner && s->mode == fail_mode::stop;
}

u32 stream_failure(const stream *s)
{
	const u32 err = load_relaxed(&s->stopped);

	if (err && err != ECANCELED && err != EBADF)
		return err;
	return s->opt.owner ? load_acquire(&s->opt.owner->failure) : 0;
}

stream_error stream_owner_failure(const stream *s)
{
	stream_owner *const o = s->opt.owner;

	if (!o || !stream_failure(s))
		return {};
	std::lock_guard guard(o->lock);
	return {.err = int(o->failure), .reason = dma::fault_reason::stopped, .number = o->number, .stream = o->stream};
}

/* In the ring behind the failed operation; one that was dropped has `never`. A call may have taken the stream's error.
 */
static bool is_behind(const record *r, const stream *s)
{
	const stream_error e = stream_owner_failure(s);

	return e.err && e.stream == s->id && load_acquire(&r->at) == record::in_ring && r->ln == s->ln &&
	       r->op > e.number;
}

bool record_is_behind_failure(record *r)
{
	if (load_relaxed(&r->never))
		return true;
	const stream_guard on(load_relaxed(&r->on));
	const bool never = on && on->opt.owner && stream_failure(on) && is_behind(r, on);

	if (never)
		store_relaxed(&r->never, 1u);
	return never;
}

bool record_may_stop(const record *r)
{
	const stream_guard on(load_relaxed(&r->on));

	return on && on->opt.owner && (on->mode == fail_mode::stop || r->op >= load_relaxed(&on->stop_from));
}

} // namespace usdma::core
