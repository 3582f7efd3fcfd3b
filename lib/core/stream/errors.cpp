/* SPDX-License-Identifier: BSD-3-Clause */
/* The failures of a stream's operations, and the marks that own them. */
#include "driver/base/error.h"
#include "lib/core/base/trace.h"
#include "lib/core/queue/wait.h"
#include "lib/core/stream/stopped.h"
#include "lib/core/stream/task.h"

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

int fail_task(const stream *s, const stream_error &e)
{
	if (e.file)
		return fail(e.err, "stream %u: %s a file failed at offset %llu: %s", s->id, e.file, ull(e.address),
			    file_error_text(e.err));
	return fail(e.err, "stream %u: a task failed: %s (address 0x%llx, operation %llu)", s->id,
		    dma::fault_name(e.reason), static_cast<unsigned long long>(e.address),
		    static_cast<unsigned long long>(e.number));
}

/* Those that are not the first one of their owner, in order. */
struct later_error {
	stream_error e;
	const stream_mark *owner; /* null: the stream */
	later_error *next;
};

/* The next ten with errors_lock held. The first failure of a mark; null: of the stream. */
static stream_error *first_of(stream *s, stream_mark *m)
{
	return m ? &m->error : &s->error;
}

/* The owner of an operation's failures; null: the stream, also if the mark has returned its result. */
static stream_mark *owner_of(const stream *s, u64 number)
{
	stream_mark *m = s->marks;

	while (m && number - m->after - 1 >= m->number - m->after)
		m = m->next;
	return m;
}

static void count_only(stream *s, stream_mark *m)
{
	stream_error *e = first_of(s, m);

	for (later_error *at = s->later; at; at = at->next)
		if (at->owner == m)
			e = &at->e;
	e->more++;
}

static void list_later(stream *s, stream_mark *m, const stream_error &e)
{
	later_error *const last = s->n_later < most_errors - 1 ? new (std::nothrow) later_error{e, m, nullptr} :
								 nullptr;
	later_error **at = &s->later;

	if (!last)
		return count_only(s, m);
	while (*at)
		at = &(*at)->next;
	*at = last;
	s->n_later++;
}

static void list_error(stream *s, stream_mark *m, const stream_error &e)
{
	stream_error *const first = first_of(s, m);

	if (first->err)
		return list_later(s, m, e);
	*first = e;
	if (m)
		return;
	s->error_reported = s->error_peeked = false;
	store_release(&s->has_error, 1u);
}

/* Removes the entry at *at. */
static stream_error unlist(stream *s, later_error **at)
{
	const std::unique_ptr<later_error> l(*at);

	*at = l->next;
	s->n_later--;
	return l->e;
}

static void drop_later(stream *s, const stream_mark *m)
{
	for (later_error **at = &s->later; *at;)
		if ((*at)->owner == m)
			unlist(s, at);
		else
			at = &(*at)->next;
}

static void give_later(stream *s, const stream_mark *from, const stream_mark *to)
{
	for (later_error *l = s->later; l; l = l->next)
		if (l->owner == from)
			l->owner = to;
}

/* Another stream may stop this one meanwhile, without the lock: it stores has_error, then stopped. */
static void set_has_error(stream *s, bool on)
{
	store_fence(&s->has_error, u32(on));
	if (unlikely(!on && load_relaxed(&s->stopped)))
		store_release(&s->has_error, 1u);
}

/* What has no owner yet belongs to the next mark. A stopped stream reports its error in any case. */
static void take_over(stream *s, stream_mark *m)
{
	m->error = s->error;
	give_later(s, nullptr, m);
	if (s->stopped)
		return;
	s->error = {};
	set_has_error(s, false);
}

/* The first one becomes the next one, if there is any. */
static stream_error take_first(stream *s, stream_mark *m)
{
	later_error **at = &s->later;

	while (*at && (*at)->owner != m)
		at = &(*at)->next;
	return std::exchange(*first_of(s, m), *at ? unlist(s, at) : stream_error{});
}

static void take_own(stream *s)
{
	take_first(s, nullptr);
	s->error_reported = s->error_peeked = false;
	set_has_error(s, s->error.err != 0);
}

/* ---- marks ---------------------------------------------------------------------------------------------- */

/* The next seven with errors_lock held. Its work has ended as it should. */
static bool is_done(const stream *s, const stream_mark *m)
{
	return m->state == mark_in_ring && hwq_done(s->ln, m->seq);
}

/* Some of its own work was in the ring. */
static bool has_requests(const stream_mark *m)
{
	return m->seq > m->after_seq;
}

static void end_mark(stream *s, stream_mark *m, const stream_error &e)
{
	if (m->state == mark_ended)
		return;
	if (!is_done(s, m) && !m->error.err) {
		m->error = e;
		m->error.number = e.number ? e.number : m->number;
	}
	m->state = mark_ended;
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
}

void stream_mark_gated(stream *s, stream_mark *m)
{
	std::lock_guard guard(s->errors_lock);

	fetch_add_relaxed(&s->refs, 1);
	m->s = s;
	m->after = s->marked;
	m->number = s->marked = stream_number(s);
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
		s->marked = m->after;
		s->marked_seq = m->state == mark_in_ring ? m->after_seq : s->marked_seq;
		if (m->error.err && !s->stopped) {
			s->error = m->error;
			store_release(&s->has_error, 1u);
		}
		give_later(s, m, nullptr);
	}
	m->s = nullptr;
	stream_unref(s);
}

int stream_mark_set(stream *s, stream_mark *m)
{
	std::lock_guard guard(s->ln->lock);

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

/* With errors_lock held. in_ring: also those that do not wait for a gate. */
static void end_marks(stream *s, const stream_error &e, bool in_ring = true)
{
	for (stream_mark *m = s->marks; m; m = m->next)
		if (in_ring || m->state == mark_gated)
			end_mark(s, m, e);
}

void stream_marks_over(stream *s)
{
	std::lock_guard guard(s->errors_lock);

	end_marks(s, end_error(s->dev->lost()));
	s->ended = true;
}

int stream_mark_result(stream_mark *m, stream_error *out)
{
	stream *const s = m->s;
	stream_error e;

	{
		std::lock_guard guard(s->errors_lock);

		if (!has_ended(s, m))
			return -EAGAIN;
		e = m->error;
		drop_later(s, m);
		remove(s, m);
		s->error_reported |= e.err && e.number == s->error.number;
	}
	const int err = e.err ? fail_task(s, e) : 0;
	if (out)
		*out = e;
	m->error = {};
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
	*out = take_first(s, m);
	s->error_reported |= out->err && out->number == s->error.number;
	return 0;
}

/* ---- failures ------------------------------------------------------------------------------------------- */

/* The work behind a failure is dropped, by failure mode stop. */
static void stop_at(stream *s, const stream_error &e)
{
	if (s->mode != fail_mode::stop || s->stopped)
		return;
	store_relaxed(&s->stopped, u16(e.err));
	if (!s->error.err) {
		s->error = e;
		s->error_reported = s->error_peeked = false;
	}
	store_release(&s->has_error, 1u);
	end_marks(s, e);
	stream_stop_owned(s, u32(e.err));
}

static void note_error(stream *s, const stream_error &e)
{
	std::lock_guard guard(s->errors_lock);

	trace_error(s->id, e.err, e.reason, e.address, e.number);
	s->errors++;
	list_error(s, owner_of(s, e.number), e);
	stop_at(s, e);
}

void stream_note_error(stream *s, int err, dma::fault_reason reason, u64 address, u64 number)
{
	note_error(s, {-as_failure(-err), reason, address, number});
}

void stream_note_file_error(stream *s, int err, const char *what, u64 offset)
{
	note_error(s, {err, dma::fault_reason::none, offset, s->running, what});
}

void stream_note_loss(stream *s)
{
	stream_note_error(s, ENODEV, dma::fault_reason::lost, 0, stream_number(s));
	std::lock_guard guard(s->errors_lock);
	end_marks(s, end_error(true));
}

void stream_note_stop(stream *s, int why, bool in_ring)
{
	std::lock_guard guard(s->errors_lock);

	/* First: who finds the work ended must see that it was stopped. */
	store_release(&s->has_error, 1u);
	if (!s->stopped || why == ECANCELED)
		store_relaxed(&s->stopped, u16(why));
	end_marks(s, end_error(false), in_ring);
}

void stream_note_abort(stream *s)
{
	std::lock_guard guard(s->errors_lock);

	/* Keep an earlier failure: stream_destroy() returns it. */
	if (!s->error.err)
		s->error = {ECANCELED, dma::fault_reason::stopped, 0, stream_number(s)};
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

/* Work behind the last mark in the ring belongs to the one that waits, or to the stream. */
static void note_reset(stream *s)
{
	stream_mark *m = s->marks;
	const stream_error rest = reset_error(number_in_ring(s));

	for (; m && m->state != mark_gated; m = m->next)
		if (m->state == mark_in_ring && !is_done(s, m) && has_requests(m)) {
			s->errors++;
			list_error(s, m, reset_error(m->number));
		}
	if (s->last > s->marked_seq) {
		s->errors++;
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
	while (s->later)
		unlist(s, &s->later);
}

int fail_stopped(const stream *s)
{
	const u32 err = load_relaxed(&s->stopped);

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
	if (s->stopped == ECANCELED)
		return {ECANCELED, dma::fault_reason::stopped, 0, s->error.number};
	/* Another stream of its owner failed. */
	if (stream_failure(s) && !s->error.err)
		return {int(s->stopped), dma::fault_reason::stopped, 0, stream_number(s)};
	return s->error;
}

/* all: those behind it, too. */
static stream_error take_pending(stream *s, bool all)
{
	std::lock_guard guard(s->errors_lock);
	const stream_error e = pending_error(s);

	s->error_reported |= e.err == s->error.err;
	if (s->stopped)
		return e;
	if (all)
		drop_later(s, nullptr);
	take_own(s);
	return e;
}

static int take_error(stream *s, bool all, stream_error *out)
{
	const stream_error e = take_pending(s, all);

	if (out)
		*out = e;
	return e.err ? fail_task(s, e) : 0;
}

int stream_take_error(stream *s, stream_error *out)
{
	return likely(!load_acquire(&s->has_error)) ? 0 : take_error(s, true, out);
}

/* In the ring. What waits behind a gate is not lost before it is dropped, which is a failure of the stream. */
static bool has_lost_work(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	return !queue_waits(s) && !hwq_done(s->ln, s->last);
}

int stream_take_next_error(stream *s, stream_error *out)
{
	const int err = load_acquire(&s->has_error) ? take_error(s, false, out) : 0;

	if (err || !s->dev->lost() || !has_lost_work(s))
		return err;
	store_relaxed(&s->dev->loss_reported, 1u);
	*out = {ENODEV, dma::fault_reason::lost, 0, stream_number(s)};
	return fail_lost(s->dev);
}

int stream_take_error_locked(stream *s)
{
	return take_pending(s, true).err;
}

int peek_error(stream *s, bool once)
{
	if (likely(!load_acquire(&s->has_error)))
		return 0;
	std::lock_guard guard(s->errors_lock);
	const stream_error e = pending_error(s);
	return e.err && !(once && std::exchange(s->error_peeked, true)) ? fail_task(s, e) : 0;
}

int stream_see_error(stream *s)
{
	return peek_error(s, false);
}

int stream_unreported_error(stream *s)
{
	std::lock_guard guard(s->errors_lock);

	return s->error.err && s->error.err != ECANCELED && !s->error_reported ? fail_task(s, s->error) : 0;
}

int stream_set_fail_mode(stream *s, fail_mode mode)
{
	s->ln->lock.lock();
	s->mode = mode;
	s->ln->lock.unlock();
	return 0;
}

} // namespace usdma::core
