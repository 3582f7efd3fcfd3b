/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream.h"

#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "lib/core/section.h"
#include "lib/core/stripe.h"
#include "lib/core/task.h"
#include "lib/core/trace.h"
#include "lib/core/wait.h"

#include <utility>

namespace usdma::core {

constinit immortal<slab<stream, max_streams>> all_streams;
static u32 next_id;

wait_mode stream_wait_mode(const stream *s)
{
	return s->opt.wait >= 0 ? wait_mode(s->opt.wait) : config_get().wait;
}

/* ---- life ------------------------------------------------------------------------------------------- */

int stream_create(device *dev, const stream_options &opt, stream **out)
{
	stream *s;
	int err;

	if (dev->lost())
		return fail(ENODEV, "device %u is gone", dev->slot);
	s = all_streams->get();
	if (!s)
		return fail(ENOSPC, "%zu streams are open, there can be no more", max_streams);
	err = lane_get(dev, &s->ln);
	if (err) {
		all_streams->put(s);
		return err;
	}
	s->dev = dev;
	s->opt = opt;
	s->max_len = dev->eng->limits().max_len;
	s->plain_len = stripe_plain_len(dev);
	s->id = __atomic_add_fetch(&next_id, 1, __ATOMIC_RELAXED);
	s->last = dma::completed(s->ln->ch);
	all_streams->enliven(s);
	*out = s;
	return 0;
}

size_t stream_live()
{
	return all_streams->live();
}

/* ---- errors ----------------------------------------------------------------------------------------- */

int fail_dead()
{
	return fail(EBADF, "the stream is destroyed already, or is just being destroyed");
}

int fail_task(const stream *s, const stream_error &e)
{
	return fail(e.err, "stream %u: a task failed: %s (address 0x%llx, sequence %llu)", s->id, dma::fault_name(e.reason),
		    static_cast<unsigned long long>(e.address), static_cast<unsigned long long>(e.seq));
}

void stream_note_error(stream *s, int err, dma::fault_reason reason, u64 address, u64 seq)
{
	trace_error(s->id, err, reason, address, seq);
	s->errors++;
	if (!s->error.err) {
		s->error = {err, reason, address, seq};
		s->error_told = s->error_peeked = false;
		store_release(&s->has_error, 1u);
	}
	if (s->mode == fail_mode::stop && !s->stopped)
		store_relaxed(&s->stopped, u32(err));
}

/* With the lane's lock held, or as a hint without. */
static int fail_stopped(const stream *s)
{
	const u32 err = load_relaxed(&s->stopped);

	return fail(int(err), err == ECANCELED ? "the stream was aborted" :
						 "the stream stopped at an earlier failure (failure mode stop)");
}

int stream_refuses(const stream *s)
{
	if (load_relaxed(&s->stopped))
		return fail_stopped(s);
	if (unlikely(!load_relaxed(&s->alive)))
		return fail_dead();
	if (s->dev->lost())
		return fail(ENODEV, "device %u (%s) is gone", s->dev->slot, s->dev->spec.c_str());
	return 0;
}

/* What is pending, as those who wait are to hear it; with the lane's lock held. */
static stream_error pending_error(const stream *s)
{
	if (s->stopped == ECANCELED)
		return {ECANCELED, dma::fault_reason::stopped, 0, s->error.seq};
	return s->error;
}

int stream_take_error(stream *s, stream_error *out)
{
	stream_error e;

	if (likely(!load_acquire(&s->has_error)))
		return 0;
	s->ln->lock.lock();
	e = pending_error(s);
	s->error_told |= e.err == s->error.err;
	if (!s->stopped) {
		s->error = {};
		store_relaxed(&s->has_error, 0u);
	}
	s->ln->lock.unlock();
	if (out)
		*out = e;
	return e.err ? fail_task(s, e) : 0;
}

/* It stays pending.  once: and is not told so again. */
static int peek_error(stream *s, bool once)
{
	if (likely(!load_acquire(&s->has_error)))
		return 0;
	std::lock_guard guard(s->ln->lock);
	const stream_error e = pending_error(s);
	return e.err && !(once && std::exchange(s->error_peeked, true)) ? fail_task(s, e) : 0;
}

int stream_see_error(stream *s)
{
	return peek_error(s, false);
}

int stream_set_fail_mode(stream *s, fail_mode mode)
{
	s->ln->lock.lock();
	s->mode = mode;
	s->ln->lock.unlock();
	return 0;
}

/* ---- submission ------------------------------------------------------------------------------------- */

static inline u64 bytes_of(const dma::request &r)
{
	return likely(r.op == dma::opcode::copy) ? r.len : r.op == dma::opcode::copy_2d ? r.len * r.height : 0;
}

/* For n requests that the device is told of; with the lane's lock held. */
[[gnu::always_inline]] static inline void count_posted(stream *s, lane *l, u64 n, u64 copies, u64 bytes)
{
	lane_counters *const count = l->count;

	store_relaxed(&count->doorbells, count->doorbells + 1);
	store_relaxed(&count->requests, count->requests + n);
	store_relaxed(&count->copies, count->copies + copies);
	store_relaxed(&count->bytes, count->bytes + bytes);
	store_relaxed(&s->copies, s->copies + copies);
	store_relaxed(&s->bytes, s->bytes + bytes);
}

/*
 * The doorbell, the counters and the wake-up for n requests just posted; with the lane's lock held.
 */
[[gnu::always_inline]] static inline void note_posted(stream *s, lane *l, const dma::request *r, size_t n)
{
	dma::channel *const ch = l->ch;
	u64 bytes = 0, copies = 0;

	trace_submit(ch, n);
	ch->ops->doorbell(ch);
	trace_doorbell(ch);
	store_relaxed(&s->last, ch->posted);
	for (size_t i = 0; i < n; i++) {
		const u64 b = bytes_of(r[i]);

		bytes += b;
		copies += b != 0;
	}
	count_posted(s, l, n, copies, bytes);
	if (unlikely(r->op == dma::opcode::wait))
		store_relaxed(&l->wait_seq, ch->posted);
	lane_wake(l);
}

void stream_note_posted(stream *s, const dma::request *r, size_t n)
{
	note_posted(s, s->ln, r, n);
}

/* Waits until a good part of the ring is free, so that a busy submitter is not woken for each slot. */
static int wait_room(stream *s)
{
	lane *l = s->ln;

	l->lock.lock();
	const u64 posted = l->ch->posted, part = l->ch->ring_size / 4;
	l->lock.unlock();
	const u64 free_from = posted - l->ch->ring_size + part;
	return lane_wait(l, free_from, deadline::at_ns(s->until), stream_wait_mode(s));
}

static int queue_requests(stream *s, const dma::request *r, size_t n)
{
	queued *first = nullptr, **end = &first;

	/* All of them or none: what is only begun cannot be taken back. */
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

/* As many of n as fit now. */
static posting post_some(stream *s, const dma::request *r, size_t n, unsigned *done)
{
	lane *l = s->ln;
	std::lock_guard guard(l->lock);

	/* Under the lock: a failure may have stopped the stream since it was asked. */
	if (s->stopped)
		return posting::refused;
	if (s->gated)
		return posting::gated;
	*done = l->ch->ops->post(l->ch, r, unsigned(std::min<size_t>(n, l->ch->ring_size)));
	if (*done)
		note_posted(s, l, r, *done);
	return posting::done;
}

/* The rest, from *at on: the ring was full, or the stream is gated or stopped. */
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
		if (p == posting::gated || (*at < n && !done && lane_in_wait(s->ln))) {
			err = queue_requests(s, r + *at, n - *at);
			*at = err ? *at : n;
		} else if (*at < n && !done) {
			err = wait_room(s);
		}
		if (err)
			return err;
	}
	return 0;
}

[[gnu::cold, gnu::noinline]] static int submit_slow(stream *s, const dma::request *r, size_t n, size_t at, size_t *posted)
{
	const int err = submit_rest(s, r, n, &at);

	if (posted)
		*posted = at;
	return err;
}

int stream_submit(stream *s, const dma::request *r, size_t n, size_t *posted)
{
	lane *l = s->ln;
	dma::channel *ch = l->ch;
	unsigned done;

	l->lock.lock();
	if (unlikely(s->gated | s->stopped)) {
		l->lock.unlock();
		return submit_slow(s, r, n, 0, posted);
	}
	done = ch->ops->post(ch, r, unsigned(std::min<size_t>(n, ch->ring_size)));
	if (likely(done))
		note_posted(s, l, r, done);
	l->lock.unlock_light();
	return likely(done == n) ? 0 : submit_slow(s, r, n, done, posted);
}

/* With the lane's lock held. */
[[gnu::always_inline]] static inline bool post_copy(stream *s, lane *l, u32 spaces, u64 src, u64 dst, u64 len)
{
	dma::channel *ch = l->ch;

	if (unlikely((s->gated | s->stopped) || ch->posted == ch->room_to || !ch->ops->submit_copy))
		return false;
	count_posted(s, l, 1, 1, len);
	ch->ops->submit_copy(ch, spaces, src, dst, len, reinterpret_cast<u64>(s));
	trace_submit(ch, 1);
	trace_doorbell(ch);
	store_relaxed(&s->last, ch->posted);
	lane_wake(l);
	return true;
}

/* The lock is another thread's, or several use it. */
[[gnu::noinline]] static int submit_copy_shared(stream *s, u32 spaces, u64 src, u64 dst, u64 len)
{
	lane *l = s->ln;

	if (!l->lock.try_lock())
		return 1;
	const bool done = post_copy(s, l, spaces, src, dst, len);
	l->lock.unlock_light();
	return !done;
}

int stream_submit_copy(stream *s, u32 spaces, u64 src, u64 dst, u64 len)
{
	lane *l = s->ln;

	if (unlikely(!l->lock.try_lock_own()))
		return submit_copy_shared(s, spaces, src, dst, len);
	const bool done = post_copy(s, l, spaces, src, dst, len);
	l->lock.unlock_own();
	return !done;
}

int stream_submit_long(stream *s, const dma::request &r)
{
	lane *l = s->ln;
	bool done;

	if (r.len <= s->plain_len)
		return stream_submit(s, &r, 1);
	stripe_prepare(s);
	l->lock.lock();
	done = !s->gated && !s->stopped && stripe_post(s, r);
	l->lock.unlock();
	return done ? 0 : stream_submit(s, &r, 1);
}

/* ---- waiting ---------------------------------------------------------------------------------------- */

/* The last number of ours in the ring; false while work is queued behind a gate. */
static bool ring_target(stream *s, u64 *seq)
{
	std::lock_guard guard(s->ln->lock);

	*seq = s->last;
	return !s->gated;
}

static int wait_ungated(stream *s, deadline until)
{
	for (;;) {
		const u32 seen = pump_progress();
		u64 seq;
		int err;

		if (ring_target(s, &seq))
			return 0;
		if (pump_run())
			continue;
		if (until.passed())
			return fail(ETIMEDOUT, "stream %u: not done in time", s->id);
		/* What it is gated by may be a ring of any device. */
		watch_all();
		if ((err = device_alive(s->dev)))
			return err;
		pump_wait_progress(seen, std::min(until.at(), now_ns() + 20 * ns_per_ms));
	}
}

int stream_wait(stream *s, deadline until)
{
	u64 seq;
	int err;

	while (!ring_target(s, &seq)) {
		err = wait_ungated(s, until);
		if (err)
			return err;
	}
	return lane_wait(s->ln, seq, until, stream_wait_mode(s));
}

int stream_sync(stream *s, deadline until)
{
	const int err = stream_wait(s, until);

	/* What was freed while this work was under way can be given back now; one load when there is nothing. */
	memory_reclaim();
	return unlikely(err) ? err : stream_take_error(s, nullptr);
}

bool stream_is_done(const stream *s)
{
	/*
	 * In this order: what was queued behind a gate has its number in the ring when the gate is seen open, and a
	 * failure was told before its ring went on.
	 */
	return !load_acquire(&s->gated) && lane_done(s->ln, load_relaxed(&s->last)) && !load_acquire(&s->has_error);
}

bool stream_spin(const stream *s)
{
	if (!load_acquire(&s->gated) && stream_wait_mode(s) != wait_mode::interrupt)
		lane_spin(s->ln, load_relaxed(&s->last));
	return stream_is_done(s);
}

int stream_query(stream *s)
{
	u64 seq;

	if (!ring_target(s, &seq)) {
		pump_run();
		watch_all();
		if (!ring_target(s, &seq))
			return s->dev->lost() ? stream_refuses(s) : 1;
	}
	if (lane_halted(s->ln))
		lane_check_fault(s->ln);
	if (lane_done(s->ln, seq)) {
		trace_complete(s->ln, seq);
		return 0;
	}
	/* Its ring may wait for another one. */
	watch_all();
	return s->dev->lost() ? fail(ENODEV, "device %u is gone", s->dev->slot) : 1;
}

stream *stream_next(size_t *at, bool (*wanted)(const stream *s, const void *arg), const void *arg)
{
	return all_streams->next(at, [&](stream &s) { return wanted(&s, arg) && ref_if_any(&s.refs); });
}

static bool is_there(const stream &s)
{
	return load_acquire(&s.alive) || load_acquire(&s.ending);
}

/* The next of the device's, those that are being destroyed as well, but not those of synchronous calls in progress. */
static stream *next_stream(const device *dev, size_t *at)
{
	return all_streams->next_of_all(at, [&](stream &s) {
		return is_there(s) && s.dev == dev && (!s.opt.internal || load_relaxed(&s.abandoned)) && ref_if_any(&s.refs);
	});
}

/* Without a wait: the functions of one may wait for those of another. */
static int drop_work(stream *s)
{
	call_group_drop(s);
	return stream_abort(s);
}

int stream_cut(stream *s, deadline until)
{
	const int err = drop_work(s);

	return err ? err : call_group_wait(s, until);
}

int device_cut(device *dev, deadline until)
{
	int first = 0;

	for (size_t at = 0; stream *s = next_stream(dev, &at);) {
		const int err = load_acquire(&s->alive) && stream_query(s) == 1 ? drop_work(s) : 0;

		first = first ? first : err;
		stream_unref(s);
	}
	for (size_t at = 0; stream *s = first ? nullptr : next_stream(dev, &at);) {
		first = load_relaxed(&s->stopped) ? call_group_wait(s, until) : 0;
		stream_unref(s);
	}
	return first;
}

int device_sync(device *dev, deadline until)
{
	int err = 0;

	for (size_t at = 0; stream *s = err ? nullptr : next_stream(dev, &at);) {
		err = stream_wait(s, until);
		stream_unref(s);
	}
	memory_reclaim();
	return err;
}

int device_peek_error(device *dev)
{
	int err = 0;

	for (size_t at = 0; stream *s = err ? nullptr : next_stream(dev, &at);) {
		err = peek_error(s, true);
		stream_unref(s);
	}
	return err;
}

/* ---- abort ------------------------------------------------------------------------------------------ */

/* Stops the channel, takes this stream's requests out, lets the others go on; with the lane's lock held. */
static int cut_out(stream *s)
{
	dma::channel *ch = s->ln->ch;
	dma::fault f;
	int err;

	if (lane_done(s->ln, s->last))
		return 0;
	err = ch->ops->stop(ch);
	if (err)
		return err;
	ch->ops->squash(ch, reinterpret_cast<u64>(s));
	err = stripe_cut(s);
	if (dma::read_fault(ch, &f) && f.reason != dma::fault_reason::stopped)
		lane_handle_fault(s->ln);
	else
		ch->ops->resume(ch);
	return err;
}

int stream_abort(stream *s)
{
	lane *l = s->ln;
	u64 seq;
	int err;

	l->lock.lock();
	store_relaxed(&s->stopped, u32(ECANCELED));
	stream_drop_queue(s);
	err = s->dev->lost() ? 0 : cut_out(s);
	/* A failure before it is what the stream's end returns. */
	if (!s->error.err)
		s->error = {ECANCELED, dma::fault_reason::stopped, 0, s->last};
	store_release(&s->has_error, 1u);
	seq = s->last;
	l->lock.unlock();
	pump_kick();
	if (err)
		return err;
	err = lane_wait(l, seq, deadline::in_ms(hang_over_ms()), wait_mode::hybrid);
	return err == -ENODEV ? 0 : err;
}

/* ---- faults ----------------------------------------------------------------------------------------- */

void lane_handle_fault(lane *l)
{
	dma::channel *ch = l->ch;
	dma::fault f;

	if (!dma::read_fault(ch, &f))
		return;
	auto *s = reinterpret_cast<stream *>(f.cookie & ~stripe_plumbing);
	/* The cookie went through the device: believe it only if it is one of ours on this lane. */
	const bool ours = all_streams->within(s) && s->ln == l, plumbing = f.cookie & stripe_plumbing;
	/* A WAIT for parts that failed: the CPU waits instead, and no more than that is wrong. */
	if (ours && plumbing && stripe_pending(s, f.seq))
		return;
	store_relaxed(&l->count->faults, l->count->faults + 1);
	log_warn("device %u channel %u: request %llu failed: %s at 0x%llx", l->dev->slot, ch->index,
		 static_cast<unsigned long long>(f.seq), dma::fault_name(f.reason), static_cast<unsigned long long>(f.address));
	if (ours) {
		if (f.reason != dma::fault_reason::stopped && !plumbing && stripe_tells(s, f.seq))
			stream_note_error(s, dma::fault_errno(f.reason), f.reason, f.address, f.seq);
		if (s->stopped) {
			ch->ops->squash(ch, reinterpret_cast<u64>(s));
			stream_drop_queue(s);
			if (stripe_cut(s))
				return; /* its parts must not run: once more when it was looked at */
		}
	}
	const int err = ch->ops->resume(ch);
	if (err && !load_relaxed(&l->stuck))
		log_error("device %u channel %u cannot be resumed: %s", l->dev->slot, ch->index, error_text());
	store_relaxed(&l->stuck, u32(err != 0));
}

void lane_check_fault(lane *l)
{
	if (load_acquire(&l->parts))
		return stripe_check_fault(l);
	if (lane_joins(l))
		stripe_check_helpers(l->dev);
	std::lock_guard guard(l->lock);

	lane_handle_fault(l);
}

} // namespace usdma::core
