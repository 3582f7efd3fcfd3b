/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream/event.h"
#include "lib/core/queue/recover.h"

#include "driver/base/error.h"
#include "lib/core/stream/guard.h"
#include "lib/core/stream/stopped.h"
#include "lib/core/base/section.h"
#include "lib/core/stream/task.h"
#include "lib/core/queue/wait.h"

#include <new>
#include <utility>

namespace usdma::core {

constinit no_destructor<slab<event, max_events, handle_kind::event>> all_events;
static u32 next_event_id;

int event_create(device *dev, u32 flags, event **out)
{
	if (is_other_process())
		return fail_forked();
	event *e = all_events->get();

	if (!e)
		return all_events->fail_full(ENOSPC, "events");
	e->dev = dev;
	e->flags = flags;
	e->id = fetch_add_relaxed(&next_event_id, 1) % max_events;
	all_events->publish(e);
	*out = e;
	return 0;
}

event *event_enter(const void *handle)
{
	return all_events->ref(handle, event_unref);
}

void event_ref(event *e)
{
	fetch_add_relaxed(&e->refs, 1);
}

void event_unref(event *e)
{
	if (!e || fetch_sub_acq_rel(&e->refs, 1) != 1)
		return;
	if (e->ended)
		e->ended(e);
	record_unref(e->rec);
	all_events->put(e);
}

int event_destroy(const void *handle)
{
	const no_cancel scope;

	if (forked())
		return fail_forked();
	event *e = event_find(handle);
	if (!e || !handle_end(e, handle))
		return fail(EBADF, "the event is destroyed already");
	/* Wait for readers without a reference (event_is_reached()). */
	grace_wait();
	event_unref(e);
	return 0;
}

size_t event_live()
{
	return all_events->live();
}

/* The latest record with a reference, or null. made: not the placeholder of a future record. */
static record *latest(event *e, bool made)
{
	std::lock_guard guard(e->lock);

	if (!e->rec || (made && e->rec->hidden == record::by_future))
		return nullptr;
	record_ref(e->rec);
	return e->rec;
}

class latest_record {
public:
	explicit latest_record(event *e, bool made = true) : r_(latest(e, made)) {}
	~latest_record() { record_unref(r_); }
	latest_record(const latest_record &) = delete;
	latest_record &operator=(const latest_record &) = delete;
	record *operator->() const { return r_; }
	operator record *() const { return r_; }

private:
	record *const r_;
};

/* r (a reference, may be null) becomes the latest. */
static void replace_latest(event *e, record *r)
{
	e->lock.lock();
	std::swap(e->rec, r);
	e->lock.unlock();
	record_unref(r);
}

/* With the lock held. */
static record *future_in(const event *e)
{
	return e->rec && e->rec->hidden == record::by_future ? e->rec : nullptr;
}

/* *stamp: taken over. */
static record *claim_with(event *e, const stream *s, u64 **stamp)
{
	std::lock_guard guard(e->lock);
	record *r = future_in(e);

	if (!r)
		return nullptr;
	r->stamp = std::exchange(*stamp, nullptr);
	r->hidden = s->order ? record::by_check : record::seen;
	store_relaxed(&r->on, stream_handle(s));
	record_ref(r);
	return r;
}

/* It was refused: those that wait wait for the next one, or, if there was one meanwhile, go on. */
static void unclaim(event *e, record *r)
{
	u64 *stamp = nullptr;

	e->lock.lock();
	store_relaxed(&r->on, static_cast<void *>(nullptr));
	if (e->rec == r) {
		r->hidden = record::by_future;
		std::swap(stamp, r->stamp);
	} else {
		store_release(&r->at, u32(record::reached));
	}
	e->lock.unlock();
	progress_kick();
	stamp_put(stamp);
	record_unref(r);
}

static bool has_future(event *e)
{
	std::lock_guard guard(e->lock);

	return future_in(e);
}

/* Takes the placeholder that waits already hold, to be recorded now. *out null: there is none. */
static int claim_future(event *e, const stream *s, record **out)
{
	u64 *stamp = nullptr;

	*out = nullptr;
	if (!has_future(e))
		return 0;
	if (e->flags & event_timing && !(stamp = stamp_get(s->dev)))
		return fail_in(-ENOMEM, "an event's record");
	*out = claim_with(e, s, &stamp);
	/* Another thread has recorded it meanwhile. */
	stamp_put(stamp);
	return 0;
}

static int push_record(stream *s, record *r)
{
	task t;

	if (s->order) {
		race().record(race_record::made, s->order, &r->order);
		store_relaxed(&r->hidden, u32(record::by_check));
	}

	t.kind = task_kind::record;
	t.rec = r;
	return stream_push(s, std::move(t));
}

/*
 * Publish the record to the event only after it is queued: else another thread could queue a wait for it before
 * it in the same stream, a deadlock.
 */
static int record_anew(event *e, stream *s)
{
	record *r = record_new(e->flags & event_timing ? s->dev : nullptr);

	if (!r)
		return fail_in(-ENOMEM, "an event's record");
	record_ref(r);
	r->on = stream_handle(s);
	if (const int err = push_record(s, r)) {
		const saved_error why;

		record_unref(r);
		return why.again(err);
	}
	replace_latest(e, r);
	return 0;
}

int event_record(event *e, stream *s)
{
	/* Before the event is changed: a refused call must have no effect. */
	if (const int err = stream_refuses(s))
		return err;
	record *r;
	/* Before a time-stamp word is allocated: it must not be one that a lost device can still write. */
	devices_note_loss();
	if (const int err = claim_future(e, s, &r))
		return err;
	if (!r)
		return record_anew(e, s);
	record_ref(r);
	if (const int err = push_record(s, r)) {
		const saved_error why;

		unclaim(e, r);
		return why.again(err);
	}
	record_unref(r);
	return 0;
}

int event_reset(event *e, stream *s)
{
	task t;

	t.kind = task_kind::reset;
	t.ev = e;
	event_ref(e);
	return stream_push(s, std::move(t));
}

/* A placeholder stays: streams wait for it already. */
void event_forget_record(event *e)
{
	record *r = nullptr;

	e->lock.lock();
	if (e->rec && e->rec->hidden != record::by_future)
		std::swap(e->rec, r);
	e->lock.unlock();
	record_unref(r);
}

/* The caller knows that it was reached. */
static void check_reached(record *r)
{
	if (r->order)
		race().record(race_record::reached, 0, &r->order);
}

/* The caller may poll. */
static bool poll_reached(record *r)
{
	const bool queued = load_acquire(&r->at) == record::queued;

	if (queued)
		progress_run();
	const bool reached = record_reached(r, true);
	if (reached)
		check_reached(r);
	else if (queued)
		note_gated_poll();
	return reached;
}

event_state event_query(event *e)
{
	const latest_record r(e);

	if (!r)
		return event_state::never;
	return poll_reached(r) ? event_state::done : event_state::pending;
}

bool event_is_behind_failure(event *e)
{
	const latest_record r(e);

	return r && record_is_behind_failure(r);
}

bool event_is_lost(event *e)
{
	const latest_record r(e);

	return r && record_lost(r);
}

/* Inside a read section. */
static inline bool is_set_inside(event *e, u32 hidden)
{
	std::lock_guard guard(e->lock);

	return e->rec && e->rec->hidden <= hidden && record_passed_inside(e->rec);
}

bool event_is_reached(const void *handle)
{
	/* Freed only after a grace period: valid until the end of the section. */
	event *e = event_find(handle);

	return e && is_set_inside(e, record::seen);
}

bool event_is_set(event *e)
{
	const read_section in;

	return in && is_set_inside(e, record::by_check);
}

static int recorder_allows_wait(const record *r)
{
	const stream_guard s(load_relaxed(&r->on));

	return s ? call_allows_wait(s, r) : 0;
}

static int wait_queued(record *r, deadline until)
{
	while (load_acquire(&r->at) == record::queued) {
		const u32 seen = progress_count();

		if (progress_run())
			continue;
		if (const int err = recorder_allows_wait(r))
			return err;
		devices_poll();
		if (until.passed()) {
			note_gated_poll();
			return fail(ETIMEDOUT, "the event was not reached in time");
		}
		progress_wait(seen, until.at());
	}
	return 0;
}

static int recorder_error(const record *r, error_list *unlisted = nullptr)
{
	const stream_guard s(load_relaxed(&r->on));

	return s ? stream_see_error(s, unlisted) : 0;
}

static int wait_made(record *r, deadline until)
{
	int err = wait_queued(r, until);

	if (!err)
		err = record_wait(r, until);
	if (!err)
		check_reached(r);
	return err;
}

int event_wait(event *e, deadline until)
{
	const latest_record r(e);

	return r ? wait_made(r, until) : 0;
}

int event_see_error(event *e, error_list *unlisted)
{
	const latest_record r(e);

	return r ? recorder_error(r, unlisted) : 0;
}

/* Uses one record throughout: the event may be recorded again meanwhile. */
int event_sync(event *e, deadline until)
{
	const latest_record r(e);
	const int err = r ? wait_made(r, until) : 0;

	return r && !err ? recorder_error(r) : err;
}

u32 event_waits(event *e)
{
	const latest_record r(e, false);

	progress_run();
	if (!r || record_reached(r, true)) {
		if (r)
			check_reached(r);
		return load_acquire(&e->waits);
	}
	return load_acquire(&e->waits) + load_relaxed(&r->ring_waits);
}

int event_time_ns(event *e, u64 *out)
{
	const latest_record r(e);

	if (!r)
		return fail(ENOENT, "the event was never recorded");
	if (!r->stamp)
		return fail(EINVAL, "the event was made without timing");
	if (!poll_reached(r))
		return record_lost(r) ? fail(ENODEV, "the event's device was lost before it was reached") :
					fail(EAGAIN, "the event was recorded but is not reached yet");
	*out = load_relaxed(r->stamp);
	return *out != record::no_time ? 0 :
					 fail(ECANCELED, "the event has no time: its stream was aborted or stopped at "
							 "a failure, or its device was closed, before it was reached");
}

/* ---- waiting by streams ------------------------------------------------------------------------------ */

/* The record of the event; if there is none, *made, which is taken over. */
static record *record_or(event *e, record **made)
{
	std::lock_guard guard(e->lock);

	if (!e->rec)
		e->rec = std::exchange(*made, nullptr);
	if (e->rec)
		record_ref(e->rec);
	return e->rec;
}

/* For a wait before any record: a placeholder for the first event_record(), where its time-stamp word is allocated. */
static record *future_of(event *e)
{
	record *made = nullptr, *r = record_or(e, &made);

	if (r || !(made = record_new(nullptr)))
		return r;
	made->hidden = record::by_future;
	r = record_or(e, &made);
	record_unref(made);
	return r;
}

/*
 * In the same ring the record precedes anything that this stream will post. Advance last, so that a
 * synchronization or an event of this stream covers the record as well.
 */
static bool behind_in_ring(stream *s, const record *r)
{
	/* The hardware queue lives at least as long as the stream. */
	if (load_acquire(&r->at) != record::in_ring || r->ln != s->ln || r->opening != s->dev->opening ||
	    (load_relaxed(&r->on) != stream_handle(s) && record_may_stop(r)))
		return false;
	std::lock_guard guard(s->ln->lock);
	if (stream_is_gated(s))
		return false;
	store_relaxed(&s->last, std::max(s->last, r->seq));
	return true;
}

/* Posts a WAIT for another ring of the same device: no CPU involved. */
static bool wait_in_ring(stream *s, record *r)
{
	hw_queue *l = s->ln;
	dma::request q;

	/* Only for the stream's own device, which cannot be closed meanwhile. */
	if (!l->exclusive || load_acquire(&r->at) != record::in_ring || r->dev != s->dev ||
	    r->opening != s->dev->opening || !r->ln->ch->record_iova || stream_stops_with_others(s) ||
	    record_may_stop(r))
		return false;
	q.op = dma::opcode::wait;
	q.arg = u8(dma::compare::geq);
	q.spaces = dma::spaces(dma::space::host, dma::space::host);
	q.src = r->ln->ch->record_iova;
	q.len = sizeof(u64);
	q.a = r->seq;
	std::lock_guard guard(l->lock);
	q.cookie = cookie_of(s, stream_number(s) + 1);
	if (stream_is_gated(s) || load_relaxed(&s->stopped) || !stream_post(s, &q, 1))
		return false;
	stream_accept(s, 1);
	fetch_add_relaxed(&r->ring_waits, 1);
	return true;
}

int stream_wait_event(stream *s, event *e, deadline until)
{
	/* Also if there is nothing to wait for. */
	if (const int err = stream_refuses(s))
		return err;
	record *r = latest(e, false);
	task t;

	if (!r && (e->flags & event_wait_future) && !(r = future_of(e)))
		return fail_in(-ENOMEM, "an event's record");
	if (r && s->order)
		race().record(race_record::wait, s->order, &r->order);
	if (!r || (record_reached(r) && !record_is_behind_failure(r)) || behind_in_ring(s, r)) {
		record_unref(r);
		return 0;
	}
	if (until.is_never() && wait_in_ring(s, r)) {
		record_unref(r);
		return 0;
	}
	fetch_add_acq_rel(&e->waits, 1);
	event_ref(e);
	t.kind = task_kind::gate_event;
	t.rec = r;
	t.ev = e;
	t.until = until;
	return stream_push(s, std::move(t));
}

} // namespace usdma::core
