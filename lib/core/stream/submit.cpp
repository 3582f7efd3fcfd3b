/* SPDX-License-Identifier: BSD-3-Clause */
/* Submission: to the ring while the stream is not gated, else to its queue. */
#include "driver/base/error.h"
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
	if (unlikely(r->op == dma::opcode::wait))
		store_relaxed(&l->wait_seq, l->ch->posted);
}

[[gnu::always_inline]] static inline unsigned post(stream *s, hw_queue *l, const dma::request *r, size_t n)
{
	return hwq_submit(l, r, n, [&](unsigned done) { note_posted(s, l, r, done); });
}

unsigned stream_post(stream *s, const dma::request *r, size_t n)
{
	return post(s, s->ln, r, n);
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

static int queue_requests(stream *s, const dma::request *r, size_t n)
{
	queued *first = nullptr, **end = &first;

	/* All or none: queued requests cannot be withdrawn. */
	for (size_t i = 0; i < n; i++, end = &(*end)->next) {
		*end = new (std::nothrow) queued;
		if (!*end) {
			queued_delete(first);
			return no_memory("work behind a gate");
		}
		(*end)->t.req = r[i];
	}
	return stream_push_all(s, first);
}

enum class posting : u8 { done, refused, gated };

/* Posts as many of n as fit now. */
static posting post_some(stream *s, const dma::request *r, size_t n, unsigned *done)
{
	hw_queue *l = s->ln;
	std::lock_guard guard(l->lock);

	/* Checked again under the lock: a failure may have stopped the stream meanwhile. */
	if (s->stopped)
		return posting::refused;
	if (queue_waits(s))
		return posting::gated;
	*done = post(s, l, r, n);
	return posting::done;
}

/* Submits the rest, from *at on: the ring was full, or the stream is gated or stopped. */
static int submit_rest(stream *s, const dma::request *r, size_t n, size_t *at)
{
	while (*at < n) {
		unsigned done = 0;
		int err = stream_refuses(s);

		if (err)
			return err;
		const posting p = post_some(s, r + *at, n - *at, &done);
		if (p == posting::refused)
			return fail_stopped(s);
		*at += done;
		if (p == posting::gated || (*at < n && !done && hwq_in_wait(s->ln))) {
			err = queue_requests(s, r + *at, n - *at);
			*at = err ? *at : n;
		} else if (*at < n && !done) {
			err = wait_slots(s);
		}
		if (err)
			return err;
	}
	return 0;
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

[[gnu::cold, gnu::noinline]] static int submit_slow(stream *s, const dma::request *r, size_t n, size_t at,
						    size_t *posted)
{
	if (unlikely(s->order) && !stream_refuses(s))
		stream_check_requests(s, r + at, n - at);
	const int err = submit_rest(s, r, n, &at);

	if (posted)
		*posted = at;
	if (unlikely(s->dev->timing == check_timing::early) && !err)
		stream_complete_early(s);
	return err;
}

int stream_submit(stream *s, const dma::request *r, size_t n, size_t *posted)
{
	hw_queue *l = s->ln;

	l->lock.lock();
	if (unlikely(s->gated | s->stopped)) {
		l->lock.unlock();
		return submit_slow(s, r, n, 0, posted);
	}
	const unsigned done = post(s, l, r, n);
	l->lock.unlock_light();
	return likely(done == n) ? 0 : submit_slow(s, r, n, done, posted);
}

/* With the hardware queue's lock held. */
[[gnu::always_inline]] static inline bool post_copy(stream *s, hw_queue *l, u32 spaces, u64 src, u64 dst, u64 len)
{
	const auto count = [&] {
		store_relaxed(&s->last, l->ch->posted + 1);
		count_copies(s, l, 1, len);
	};

	return likely(!(s->gated | s->stopped)) &&
	       hwq_submit_copy(l, spaces, src, dst, len, reinterpret_cast<u64>(s), count);
}

/* The lock is not biased to this thread. */
[[gnu::noinline]] static int submit_copy_shared(stream *s, u32 spaces, u64 src, u64 dst, u64 len)
{
	hw_queue *l = s->ln;

	if (!l->lock.try_lock())
		return 1;
	const bool done = post_copy(s, l, spaces, src, dst, len);
	l->lock.unlock_light();
	return !done;
}

int stream_submit_copy(stream *s, u32 spaces, u64 src, u64 dst, u64 len)
{
	hw_queue *l = s->ln;

	if (unlikely(!l->lock.try_lock_own()))
		return submit_copy_shared(s, spaces, src, dst, len);
	const bool done = post_copy(s, l, spaces, src, dst, len);
	l->lock.unlock_own();
	return !done;
}

} // namespace usdma::core
