/* SPDX-License-Identifier: BSD-3-Clause */
/* Submission: to the ring while the stream is not gated, else to its queue. */
#include "driver/base/error.h"
#include "lib/core/base/section.h"
#include "lib/core/queue/submit.h"
#include "lib/core/queue/wait.h"
#include "lib/core/stream/task.h"

namespace usdma::core {

static inline u64 bytes_of(const dma::request &r)
{
	return likely(r.op == dma::opcode::copy) ? r.len : r.op == dma::opcode::copy_2d ? r.len * r.height : 0;
}

/* With the hardware queue's lock held. */
[[gnu::always_inline]] static inline void count_copies(stream *s, hw_queue *l, u64 copies, u64 bytes)
{
	hwq_counters *const count = l->count;

	store_relaxed(&count->copies, count->copies + copies);
	store_relaxed(&count->bytes, count->bytes + bytes);
	store_relaxed(&s->copies, s->copies + copies);
	store_relaxed(&s->bytes, s->bytes + bytes);
}

[[gnu::always_inline]] static inline void note_posted(stream *s, hw_queue *l, const dma::request *r, unsigned n)
{
	u64 bytes = 0, copies = 0;

	store_relaxed(&s->last, l->ch->posted);
	for (unsigned i = 0; i < n; i++) {
		const u64 b = bytes_of(r[i]);

		bytes += b;
		copies += b != 0;
	}
	count_copies(s, l, copies, bytes);
	/* The operations were counted when they were accepted. */
	stream_accept(s, 0, copies);
	if (unlikely(r->op == dma::opcode::wait))
		store_relaxed(&l->wait_seq, l->ch->posted);
}

[[gnu::always_inline]] static inline unsigned post(stream *s, hw_queue *l, const dma::request *r, size_t n)
{
	return hwq_post(l, r, n, [&](unsigned done) { note_posted(s, l, r, done); });
}

unsigned stream_post(stream *s, const dma::request *r, size_t n)
{
	const unsigned done = post(s, s->ln, r, n);

	if (done)
		hwq_announce(s->ln);
	return done;
}

/* Waits until a quarter of the ring is free, so that a busy submitter is not woken for each slot. */
static int wait_slots(stream *s)
{
	hw_queue *l = s->ln;

	l->lock.lock();
	const u64 posted = l->ch->posted, part = l->ch->ring_size / 4;
	l->lock.unlock();
	const u64 free_from = posted - l->ch->ring_size + part;
	return hwq_wait(l, free_from, deadline::at_ns(s->until), stream_wait_mode(s));
}

/* What a call submits. */
struct submission {
	dma::request *r;
	size_t n;
	const lookups *found;
	op_numbers *numbers;
	size_t at = 0;  /* those before it were accepted */
	u64 cookie = 0; /* was added to theirs from `at` on */

	bool ended() const { return at == n; }
};

/* With the hardware queue's lock held, also where this is done for the first requests of several. */
[[gnu::always_inline]] static inline void set_cookies(submission *w, u64 cookie)
{
	for (size_t i = w->at; i < w->n; i++)
		w->r[i].cookie += cookie - w->cookie;
	w->cookie = cookie;
}

/* Once it is in the ring, a free of the memory waits for it. */
[[gnu::always_inline]] static inline int post_inside(stream *s, hw_queue *l, submission *w, unsigned *done)
{
	const read_section in;

	if (unlikely(!in))
		return in.error();
	if (unlikely(w->found && !w->found->are_current()))
		return stale;
	const u64 cookie = cookie_of(s, stream_next_number(s, w->numbers) + w->numbers->at);
	if (likely(w->cookie != cookie))
		set_cookies(w, cookie);
	*done = post(s, l, w->r + w->at, w->n - w->at);
	/* Not before: a full ring takes none, and another thread's operations come first. */
	if (likely(*done))
		stream_number_call(s, w->numbers);
	return 0;
}

/* As many as fit. With the hardware queue's lock held. */
[[gnu::always_inline]] static inline int post_found(stream *s, hw_queue *l, submission *w)
{
	unsigned done = 0;
	const int err = post_inside(s, l, w, &done);

	w->at += done;
	if (likely(done))
		hwq_announce(l);
	return err;
}

static int queue_requests(stream *s, submission *w)
{
	queued *first = nullptr, **end = &first;

	/* All or none: queued requests cannot be withdrawn. */
	for (size_t i = w->at; i < w->n; i++, end = &(*end)->next) {
		*end = new (std::nothrow) queued;
		if (!*end) {
			queued_delete(first);
			return no_memory("work behind a gate");
		}
		(*end)->t.req = w->r[i];
		(*end)->t.req.cookie -= w->cookie;
	}
	const int err = stream_push_all(s, first, w->found, w->numbers);
	if (!err)
		w->at = w->n;
	return err;
}

/* Posts as many as fit now. *gated: they have to wait in the stream's queue. */
static int post_some(stream *s, submission *w, bool *gated)
{
	hw_queue *l = s->ln;
	std::lock_guard guard(l->lock);

	/* Checked again under the lock: a failure may have stopped the stream meanwhile. */
	if (load_relaxed(&s->stopped))
		return fail_stopped(s);
	*gated = queue_waits(s);
	return *gated ? 0 : post_found(s, l, w);
}

/* The caller may poll. */
[[gnu::cold]] static int fail_full(const stream *s)
{
	hwq_note_poll(s->ln, dma::completed(s->ln->ch) + 1);
	return fail(EAGAIN, "stream %u: the ring has no free slot: try again when earlier work has ended", s->id);
}

/* Submits the rest: the ring was full, or the stream is gated or stopped. */
static int submit_rest(stream *s, submission *w)
{
	int err = 0;

	while (!w->ended() && !err) {
		const size_t before = w->at;
		bool gated = false;

		err = stream_refuses(s);
		if (!err)
			err = post_some(s, w, &gated);
		if (err || w->at > before)
			continue;
		err = gated || w->numbers->begun || hwq_in_wait(s->ln) ? queue_requests(s, w) :
		      w->numbers->may_wait                             ? wait_slots(s) :
									 fail_full(s);
	}
	return err;
}

/*
 * Not for long if a WAIT is in the ring, which may wait for something that the calling thread is yet to do; and not
 * beyond the call's own deadline.
 */
void stream_complete_early(stream *s)
{
	static constexpr u64 wait_ms = 1, most_ms = 1000;
	const saved_error why;
	hw_queue *l = s->ln;

	l->lock.lock();
	const u64 last = s->last;
	const bool waits = queue_waits(s);
	l->lock.unlock();
	const deadline most = deadline::in_ms(hwq_in_wait(l) ? wait_ms : most_ms);
	if (!waits)
		hwq_wait(l, last, deadline::sooner(deadline::at_ns(s->until), most), stream_wait_mode(s));
	why.again(0);
}

[[gnu::cold, gnu::noinline]] static int submit_slow(stream *s, submission w, size_t *posted)
{
	/* What was removed is not submitted, and its addresses may be those of other memory. */
	if (unlikely(s->order) && !stream_refuses(s) && (!w.found || w.found->are_current()))
		race().requests(s, w.r + w.at, w.n - w.at);
	const int err = submit_rest(s, &w);

	if (posted)
		*posted = w.at;
	if (unlikely(s->dev->timing == check_timing::early) && !err)
		stream_complete_early(s);
	return err;
}

int stream_submit(stream *s, dma::request *r, size_t n, const lookups *found, op_numbers *numbers, size_t *posted)
{
	hw_queue *l = s->ln;
	submission w = {r, n, found, numbers};

	l->lock.lock();
	if (likely(!(s->gated | load_relaxed(&s->stopped))))
		post_found(s, l, &w);
	l->lock.unlock_light();
	return likely(w.ended()) ? 0 : submit_slow(s, w, posted);
}

/* With the hardware queue's lock held. Returns its cookie, or 0. */
[[gnu::always_inline]] static inline u64 post_copy(stream *s, hw_queue *l, u32 spaces, u64 src, u64 dst, u64 len)
{
	const u64 cookie = s->cookie + op_cookie(s->copies + 1);
	const auto count = [&] {
		store_relaxed(&s->last, l->ch->posted + 1);
		count_copies(s, l, 1, len);
	};

	return likely(!(s->gated | load_relaxed(&s->stopped))) &&
			       hwq_submit_copy(l, spaces, src, dst, len, cookie, count) ?
		       cookie :
		       0;
}

void stream_numbers_end(stream *s, const op_numbers *numbers, u64 used)
{
	std::lock_guard guard(s->ln->lock);

	if (numbers->first && numbers->first + numbers->n - 1 == stream_number(s))
		stream_accept(s, used - numbers->n);
}

u64 stream_submit_copy(stream *s, u32 spaces, u64 src, u64 dst, u64 len)
{
	hw_queue *l = s->ln;

	if (unlikely(!l->lock.try_lock()))
		return 0;
	const u64 cookie = post_copy(s, l, spaces, src, dst, len);
	l->lock.unlock_light();
	return cookie;
}

} // namespace usdma::core
