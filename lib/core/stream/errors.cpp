/* SPDX-License-Identifier: BSD-3-Clause */
/* The failures of a stream's operations, and the marks that own them. */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "lib/core/base/trace.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/wait.h"
#include "lib/core/stream/listen.h"
#include "lib/core/stream/stopped.h"
#include "lib/core/stream/task.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace usdma::core {

int fail_dead()
{
	return fail(EBADF, "the stream is destroyed already, or is being destroyed");
}

const char *file_error_text(int err)
{
	return err == ETIME ? "the disk did not answer within USDMA_HANG_MS" : strerrordesc_np(err);
}

static const char *remote_error_text(int err)
{
	switch (err) {
	case ECONNRESET:
		return "the other program, its usdma-net, or this program's has ended, or the connection was lost";
	case ENOLINK:
		return "no answer for net_lost_ms";
	default:
		return strerrordesc_np(err);
	}
}

int fail_task(const stream *s, const stream_error &e)
{
	if (e.file)
		return fail(e.err, "stream %u: %s a file failed at offset %llu: %s", s->id, e.file, ull(e.address),
			    file_error_text(e.err));
	if (e.remote)
		return fail(e.err, "stream %u: operation %llu, with memory of another machine, failed at byte %llu: %s",
			    s->id, ull(e.number), ull(e.address), remote_error_text(e.err));
	return fail(e.err, "stream %u: a task failed: %s (address 0x%llx, operation %llu)", e.stream ? e.stream : s->id,
		    dma::fault_name(e.reason), static_cast<unsigned long long>(e.address),
		    static_cast<unsigned long long>(e.number));
}

/* Not the first one of its owner. */
struct later_error {
	stream_error e;
	later_error *next;
};

/* The next ten with errors_lock held. Of a mark; null: of the stream. */
static error_list *list_of(stream *s, stream_mark *m)
{
	return m ? &m->failures : &s->failures;
}

/*
 * The owner of the failures of a request in the ring, or (not_in_ring) of the task that runs; null: the stream, also if
 * the mark has returned its result. The search begins where the last one ended, as failures come in the ring's order,
 * but for those of several rings.
 */
static stream_mark *owner_of(stream *s, u64 seq)
{
	stream_mark *m = s->failing ? s->failing : s->marks_end;

	while (m && m->prev && m->prev->seq >= seq)
		m = m->prev;
	while (m && m->seq < seq)
		m = m->next;
	s->failing = m;
	return m && (m->seq == m->not_in_ring ? s->marked_seq : m->after_seq) < seq ? m : nullptr;
}

/* False: no memory. */
static bool add_later(error_list *l, const stream_error &e)
{
	later_error *const last = new (std::nothrow) later_error{e, nullptr};

	if (!last)
		return false;
	(l->last ? l->last->next : l->later) = last;
	l->last = last;
	return true;
}

static void list_later(stream *s, error_list *l, const stream_error &e)
{
	if (s->n_later < most_errors - 1 && add_later(l, e))
		s->n_later++;
	else
		(l->last ? l->last->e : l->first).more++;
}

static void list_error(stream *s, stream_mark *m, const stream_error &e)
{
	error_list *const l = list_of(s, m);

	if (l->first.err)
		return list_later(s, l, e);
	l->first = e;
	if (m)
		return;
	s->error_reported = s->error_peeked = false;
	store_release(&s->has_error, 1u);
}

bool error_list_take(error_list *l, stream_error *out)
{
	const std::unique_ptr<later_error> oldest(l->later);

	if (!oldest)
		return false;
	l->later = oldest->next;
	if (!l->later)
		l->last = nullptr;
	*out = oldest->e;
	return true;
}

/* The oldest one behind the first, of a list that has one. */
static stream_error pop_later(stream *s, error_list *l)
{
	stream_error oldest;

	s->n_later -= error_list_take(l, &oldest);
	return oldest;
}

static void drop_later(stream *s, error_list *l)
{
	while (l->later)
		pop_later(s, l);
}

/* Another stream may stop this one meanwhile, without the lock: it stores has_error, then stopped. */
static void set_has_error(stream *s, bool on)
{
	store_fence(&s->has_error, u32(on) | load_relaxed(&s->lost_work));
	if (unlikely(!on && load_relaxed(&s->stopped)))
		store_release(&s->has_error, 1u);
}

/* What has no owner yet belongs to the next mark. A stopped stream reports its error in any case. */
static void take_over(stream *s, stream_mark *m)
{
	m->failures = std::exchange(s->failures, {});
	if (load_relaxed(&s->stopped))
		s->failures.first = m->failures.first;
	else
		set_has_error(s, false);
}

/* The first one; the next one becomes that, if there is any. */
static stream_error take_first(stream *s, error_list *l)
{
	return std::exchange(l->first, l->later ? pop_later(s, l) : stream_error{});
}

static void take_own(stream *s)
{
	take_first(s, &s->failures);
	s->error_reported = s->error_peeked = false;
	set_has_error(s, s->failures.first.err != 0);
}

/* ---- marks ---------------------------------------------------------------------------------------------- */

/* The next eight with errors_lock held. Its work, and that of the marks before it, has ended as it should. */
static bool is_completed(const stream *s, const stream_mark *m)
{
	return m->seq != m->not_in_ring && hwq_done(s->ln, m->seq);
}

/* The same of one that has no result yet. Once the stream has ended, the others have theirs. */
static bool is_done(const stream *s, const stream_mark *m)
{
	return m->state == mark_in_ring && (s->ended || is_completed(s, m));
}

/* Some of its own work was in the ring. */
static bool has_requests(const stream_mark *m)
{
	return m->seq > m->after_seq;
}

static void end_undone(stream_mark *m, const stream_error &e)
{
	if (!m->failures.first.err) {
		m->failures.first = e;
		m->failures.first.number = e.number ? e.number : m->number;
	}
	m->state = mark_ended;
}

static void end_mark(stream *s, stream_mark *m, const stream_error &e)
{
	if (m->state == mark_ended)
		return;
	if (is_done(s, m))
		m->state = mark_ended;
	else
		end_undone(m, e);
}

/* Of what has not ended. */
static stream_error end_error(bool lost)
{
	return lost ? stream_error{ENODEV, dma::fault_reason::lost} :
		      stream_error{ECANCELED, dma::fault_reason::stopped};
}

/* True: it has its result. What is in the queue of a lost device is dropped by the progress thread. */
static bool has_ended(stream *s, stream_mark *m)
{
	if (m->state == mark_in_ring && (is_done(s, m) || s->dev->lost())) {
		if (!is_done(s, m))
			store_relaxed(&s->dev->loss_reported, 1u);
		end_mark(s, m, end_error(true));
	}
	return m->state == mark_ended;
}

static void append(stream *s, stream_mark *m)
{
	m->next = nullptr;
	m->prev = s->marks_end;
	(m->prev ? m->prev->next : s->marks) = m;
	s->marks_end = m;
}

static void remove(stream *s, stream_mark *m)
{
	(m->prev ? m->prev->next : s->marks) = m->next;
	(m->next ? m->next->prev : s->marks_end) = m->prev;
	if (s->failing == m)
		s->failing = m->next;
}

void stream_mark_gated(stream *s, stream_mark *m)
{
	std::lock_guard guard(s->errors_lock);

	fetch_add_relaxed(&s->refs, 1);
	m->s = s;
	m->number = stream_number(s);
	m->seq = m->not_in_ring;
	m->state = mark_gated;
	append(s, m);
	take_over(s, m);
}

void stream_mark_reached(stream *s, stream_mark *m)
{
	std::lock_guard guard(s->errors_lock);

	if (m->state != mark_gated)
		return;
	m->after_seq = s->marked_seq;
	m->seq = s->marked_seq = s->last;
	m->state = mark_in_ring;
}

/* Its stream returns what it took over to the next mark, or to a wait. */
void stream_mark_unset(stream *s, stream_mark *m)
{
	{
		std::lock_guard guard(s->errors_lock);

		remove(s, m);
		s->marked_seq = m->state == mark_in_ring ? m->after_seq : s->marked_seq;
		if (m->failures.first.err) {
			s->failures = std::exchange(m->failures, {});
			store_release(&s->has_error, 1u);
		}
	}
	m->s = nullptr;
	stream_unref(s);
}

int stream_mark_set(stream *s, stream_mark *m)
{
	if (const int err = stream_refuses(s))
		return err;
	if (queue_waits(s))
		return 1;
	stream_mark_gated(s, m);
	stream_mark_reached(s, m);
	return 0;
}

void stream_mark_end(stream_mark *m)
{
	if (!m)
		return;
	std::lock_guard guard(m->s->errors_lock);
	end_mark(m->s, m, end_error(m->s->dev->lost()));
}

/* With errors_lock held. in_ring: also those that do not wait for a gate. Not all: hundreds may wait to be read. */
static void end_marks(stream *s, const stream_error &e, bool in_ring = true)
{
	for (stream_mark *m = s->marks_end; m && !is_completed(s, m); m = m->prev)
		if (in_ring || m->state == mark_gated)
			end_mark(s, m, e);
}

void stream_marks_over(stream *s)
{
	std::lock_guard guard(s->errors_lock);

	end_marks(s, end_error(s->dev->lost()));
	s->ended = true;
}

/* With errors_lock held: counted as in use. nullptr: the work is not in a ring. */
static hw_queue *enter_queue_of(const stream *s, const stream_mark *m)
{
	hw_queue *const l = !s->ended && m->state == mark_in_ring ? s->ln : nullptr;

	if (l)
		l->calls.enter();
	return l;
}

bool stream_mark_poll(stream_mark *m)
{
	stream *const s = m->s;
	hw_queue *l;

	{
		std::lock_guard guard(s->errors_lock);

		if (has_ended(s, m))
			return true;
		l = enter_queue_of(s, m);
	}
	if (l) {
		if (dma::halted(l->ch))
			hwq_check_fault(l);
		hwq_note_poll(l, m->seq);
		l->calls.leave();
	} else {
		progress_run();
		note_gated_poll();
	}
	devices_poll();
	return false;
}

int stream_mark_result(stream_mark *m, stream_error *out)
{
	stream *const s = m->s;
	stream_error e;

	{
		std::lock_guard guard(s->errors_lock);

		if (!has_ended(s, m))
			return -EAGAIN;
		e = m->failures.first;
		drop_later(s, &m->failures);
		remove(s, m);
		s->error_reported |= e.err && e.number == s->failures.first.number;
	}
	if (e.err && stream_has_dropped_outside(s))
		stream_outside_wait(s, deadline::in_ms(hang_over_ms()));
	const int err = e.err ? fail_task(s, e) : 0;
	if (out)
		*out = e;
	m->failures = {};
	m->s = nullptr;
	stream_unref(s);
	return err;
}

int stream_mark_take_error(stream_mark *m, stream_error *out)
{
	stream *const s = m->s;
	std::lock_guard guard(s->errors_lock);

	if (!has_ended(s, m))
		return -EAGAIN;
	*out = take_first(s, &m->failures);
	s->error_reported |= out->err && out->number == s->failures.first.number;
	return 0;
}

/* ---- failures ------------------------------------------------------------------------------------------- */

/* The work behind a failure is dropped, by failure mode stop. */
static void stop_at(stream *s, const stream_error &e, bool in_ring = true)
{
	if (!stream_stops_at(s, e.number) || load_relaxed(&s->stopped))
		return;
	if (!s->failures.first.err) {
		s->failures.first = e;
		s->error_reported = s->error_peeked = false;
	}
	store_release(&s->has_error, 1u);
	end_marks(s, e, in_ring);
	stream_stop_owned(s, e);
	/* Last: a call that finds it without the lock returns the failure. */
	store_release(&s->stopped, u16(e.err));
}

/* Statistics read it without a lock. */
static void one_more(stream *s)
{
	store_relaxed(&s->errors, s->errors + 1);
}

/* With errors_lock held. */
static void count_error(stream *s, const stream_error &e)
{
	trace_error(s->id, e.err, e.reason, e.address, e.number);
	one_more(s);
	/* The ring does not show it: the calls after those that return the failure return it, too. */
	if (unlikely(e.err == ENODEV && s->dev->lost())) {
		store_relaxed(&s->lost_work, 1u);
		store_release(&s->has_error, 1u);
	}
}

/* seq: as owner_of(). */
static void note_error(stream *s, const stream_error &e, u64 seq)
{
	std::lock_guard guard(s->errors_lock);

	count_error(s, e);
	list_error(s, owner_of(s, seq), e);
	/* What is in the ring before a gate that failed goes on. */
	stop_at(s, e, seq != stream_mark::not_in_ring);
}

void stream_note_failure(stream *s, const dma::fault &f, u64 number)
{
	note_error(s, {-as_failure(-dma::fault_errno(f.reason)), f.reason, f.address, number}, f.seq);
}

void stream_note_error(stream *s, int err, dma::fault_reason reason, u64 address, u64 number)
{
	note_error(s, {-as_failure(-err), reason, address, number}, stream_mark::not_in_ring);
}

void stream_note_file_error(stream *s, int err, const char *what, u64 offset)
{
	note_error(s, {err, dma::fault_reason::none, offset, s->running, what}, stream_mark::not_in_ring);
}

void stream_note_remote_error(stream *s, int err, u64 item, u64 offset)
{
	stream_error e = {-as_failure(-err), dma::fault_reason::none, offset, s->running + item};

	e.remote = true;
	note_error(s, e, stream_mark::not_in_ring);
}

void stream_note_loss(stream *s)
{
	std::lock_guard guard(s->errors_lock);
	const stream_error e = {ENODEV, dma::fault_reason::lost, 0, stream_number(s)};

	count_error(s, e);
	/* The marks return it, and the stream for work behind them. */
	if (!s->marks_end || s->marks_end->number != e.number)
		list_error(s, nullptr, e);
	stop_at(s, e);
	end_marks(s, end_error(true));
}

void stream_note_stop(stream *s, int why, bool in_ring)
{
	std::lock_guard guard(s->errors_lock);

	/* First: who finds the work ended must see that it was stopped. */
	store_release(&s->has_error, 1u);
	if (!load_relaxed(&s->stopped) || why == ECANCELED)
		store_relaxed(&s->stopped, u16(why));
	for (stream_mark *m = in_ring ? s->marks_end : nullptr; m && !is_completed(s, m); m = m->prev)
		m->state = m->state == mark_in_ring ? mark_cancelling : m->state;
	end_marks(s, end_error(false), false);
}

void stream_note_cancelled(stream *s, bool removed)
{
	std::lock_guard guard(s->errors_lock);

	for (stream_mark *m = s->marks_end; m; m = m->prev) {
		if (m->state != mark_cancelling)
			continue;
		m->state = mark_in_ring;
		if (removed)
			end_undone(m, end_error(s->dev->lost()));
	}
}

void stream_note_abort(stream *s)
{
	std::lock_guard guard(s->errors_lock);

	/* Keep an earlier failure: stream_destroy() returns it. */
	if (!s->failures.first.err)
		s->failures.first = {ECANCELED, dma::fault_reason::stopped, 0, stream_number(s)};
}

/* The last operation in the ring, or before it. */
static u64 number_in_ring(const stream *s)
{
	return s->queue ? s->queue->t.op - 1 : stream_number(s);
}

static stream_error reset_error(u64 number)
{
	return {-as_failure(-dma::fault_errno(dma::fault_reason::reset)), dma::fault_reason::reset, 0, number};
}

/* The first mark that the ring has not completed. */
static stream_mark *first_open(const stream *s)
{
	stream_mark *first = nullptr;

	for (stream_mark *m = s->marks_end; m && !is_completed(s, m); m = m->prev)
		first = m;
	return first;
}

/* Work behind the last mark in the ring belongs to the one that waits, or to the stream. */
static void note_reset(stream *s)
{
	stream_mark *m = first_open(s);
	const stream_error rest = reset_error(number_in_ring(s));

	for (; m && m->state != mark_gated; m = m->next)
		if (m->state == mark_in_ring && !is_done(s, m) && has_requests(m)) {
			one_more(s);
			list_error(s, m, reset_error(m->number));
		}
	if (s->last > s->marked_seq) {
		one_more(s);
		list_error(s, m, rest);
	}
	stop_at(s, rest);
}

void stream_note_reset(stream *s)
{
	std::lock_guard guard(s->errors_lock);

	if (!hwq_done(s->ln, s->last))
		note_reset(s);
}

void stream_errors_free(stream *s)
{
	drop_later(s, &s->failures);
}

int fail_stopped(const stream *s)
{
	const u32 err = load_acquire(&s->stopped);

	/* If they stop together: when the call returns, the others have stopped, too. */
	stream_owner_failure(s);
	return fail(int(err), err == ECANCELED ? "the stream was aborted" :
			      err == EBADF     ? "the stream's device was closed, which dropped work that waited" :
						 "the stream stopped at an earlier failure (failure mode stop)");
}

static int fail_captured(const stream *s)
{
	return fail(EINPROGRESS, "stream %u is being captured", s->id);
}

int stream_refuses(const stream *s)
{
	if (load_relaxed(&s->stopped))
		return fail_stopped(s);
	if (unlikely(stream_is_captured(s)))
		return fail_captured(s);
	if (unlikely(!load_relaxed(&s->alive)))
		return fail_dead();
	return s->dev->lost() ? fail_lost(s->dev) : 0;
}

/* The pending error as reported to waiters; with errors_lock held. */
static stream_error pending_error(const stream *s)
{
	stream_error e = s->failures.first;

	e.stream = s->id;
	if (load_relaxed(&s->stopped) == ECANCELED)
		e = {ECANCELED, dma::fault_reason::stopped, 0, e.number};
	else if (!e.err)
		e = stream_owner_failure(s);
	return e;
}

/* What stopped all of its owner's streams; that is none of the stream's own then. */
static stream_error list_owners(stream *s, error_list *unlisted)
{
	stream_error e = stream_owner_failure(s);

	if (e.err) {
		std::lock_guard guard(s->opt.owner->lock);

		s->opt.owner->listed = s->opt.owner->listed || add_later(unlisted, e);
	}
	return e;
}

static void list_one(stream *s, stream_error *e, const stream_error &owners, error_list *unlisted)
{
	stream_error copy = *e;

	if (!e->err || e->err == ECANCELED || e->listed || (owners.stream == s->id && owners.number == e->number))
		return;
	copy.stream = s->id;
	e->listed = add_later(unlisted, copy);
}

/* With errors_lock held. */
static void list_new(stream *s, error_list *unlisted)
{
	const stream_error owners = list_owners(s, unlisted);

	list_one(s, &s->failures.first, owners, unlisted);
	for (later_error *l = s->failures.later; l; l = l->next)
		list_one(s, &l->e, owners, unlisted);
}

void stream_list_new(stream *s, error_list *unlisted)
{
	if (likely(!load_acquire(&s->has_error)))
		return;
	std::lock_guard guard(s->errors_lock);
	list_new(s, unlisted);
}

/* all: those behind it, too. */
static stream_error take_pending(stream *s, bool all, error_list *unlisted = nullptr)
{
	std::lock_guard guard(s->errors_lock);
	const stream_error e = pending_error(s);

	if (unlisted)
		list_new(s, unlisted);

	s->error_reported |= e.err == s->failures.first.err;
	if (load_relaxed(&s->stopped))
		return e;
	if (all)
		drop_later(s, &s->failures);
	take_own(s);
	return e;
}

/* Of an error that was taken. */
static int fail_taken(stream *s, const stream_error &e)
{
	if (!e.err && load_relaxed(&s->lost_work))
		return fail_lost(s->dev);
	return e.err ? fail_task(s, e) : 0;
}

int stream_take_error(stream *s, error_list *unlisted)
{
	return likely(!load_acquire(&s->has_error)) ? 0 : fail_taken(s, take_pending(s, true, unlisted));
}

/* In the ring. What waits behind a gate is not lost before it is dropped, which is a failure of the stream. */
static bool has_lost_work(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	return load_relaxed(&s->lost_work) || (!queue_waits(s) && !hwq_done(s->ln, s->last));
}

int stream_take_next_error(stream *s, stream_error *out)
{
	*out = load_acquire(&s->has_error) ? take_pending(s, false) : stream_error{};
	const int err = fail_taken(s, *out);

	if ((err && out->err) || !s->dev->lost() || !has_lost_work(s))
		return err;
	store_relaxed(&s->dev->loss_reported, 1u);
	*out = {ENODEV, dma::fault_reason::lost, 0, stream_number(s)};
	return fail_lost(s->dev);
}

int stream_take_error_locked(stream *s)
{
	return take_pending(s, true).err;
}

int peek_error(stream *s, bool once, error_list *unlisted)
{
	if (likely(!load_acquire(&s->has_error)))
		return 0;
	std::lock_guard guard(s->errors_lock);
	const stream_error e = pending_error(s);
	if (unlisted)
		list_new(s, unlisted);
	if (!e.err && !once && load_relaxed(&s->lost_work))
		return fail_lost(s->dev);
	if (!e.err || (once && std::exchange(s->error_peeked, true)))
		return 0;
	return fail_task(s, e);
}

int stream_see_error(stream *s, error_list *unlisted)
{
	return peek_error(s, false, unlisted);
}

int stream_unreported_error(stream *s)
{
	std::lock_guard guard(s->errors_lock);

	const stream_error &e = s->failures.first;

	return e.err && e.err != ECANCELED && !s->error_reported ? fail_task(s, e) : 0;
}

int stream_set_fail_mode(stream *s, fail_mode mode)
{
	/* A pass takes it out of its ring, and sees a failure for which the program makes no call. */
	if (mode == fail_mode::stop && s->opt.owner && monitor_halts(s->ln))
		log_warn("stream %u: a stop will not end what it waits for in its ring: %s", s->id, error_text());
	s->ln->lock.lock();
	s->mode = mode;
	s->ln->lock.unlock();
	return 0;
}

bool stream_stops_at(const stream *s, u64 number)
{
	return s->mode == fail_mode::stop ||
	       (number >= load_relaxed(&s->stop_from) && number <= load_relaxed(&s->stop_to));
}

void stream_stop_begin(stream *s)
{
	/* Once: it stays. */
	if (!load_relaxed(&s->stop_to) && s->opt.owner && monitor_halts(s->ln))
		log_warn_limited("stream %u: a failure is seen by calls only: %s", s->id, error_text());
	std::lock_guard guard(s->ln->lock);
	/* What is between two ranges counts as of them until both have ended. */
	if (!queue_waits(s) && hwq_done(s->ln, s->last))
		store_relaxed(&s->stop_from, stream_number(s) + 1);
	else
		store_relaxed(&s->stop_from, std::min(s->stop_from, stream_number(s) + 1));
	store_relaxed(&s->stop_to, ~u64(0));
}

void stream_stop_end(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	store_relaxed(&s->stop_to, stream_number(s));
}

} // namespace usdma::core
