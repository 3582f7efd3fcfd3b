/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "lib/core/stripe.h"
#include "lib/core/task.h"
#include "lib/core/trace.h"
#include "lib/core/wait.h"

#include <optional>
#include <unistd.h>

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

	if (forked())
		return fail_forked();
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

void stream_unref(stream *s)
{
	if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) == 0)
		all_streams->put(s);
}

static void stream_end(stream *s)
{
	lane *l = s->ln;

	l->lock.lock();
	stripe_forget(s);
	stream_drop_queue(s);
	l->lock.unlock();
	pump_kick(); /* calls that were dropped with the queue may be its to make */
	lane_put(l);
	stream_unref(s);
}

int stream_destroy(stream *s)
{
	if (forked())
		return fail_forked();
	store_release(&s->alive, u64(0));
	stream_sync(s, deadline::never());
	stream_end(s);
	return 0;
}

int stream_destroy_force(stream *s)
{
	if (forked())
		return fail_forked();
	store_release(&s->alive, u64(0));
	stream_abort(s);
	stream_end(s);
	return 0;
}

/* ---- errors ----------------------------------------------------------------------------------------- */

void stream_note_error(stream *s, int err, dma::fault_reason reason, u64 address, u64 seq)
{
	trace_error(s->id, err, reason, address, seq);
	s->errors++;
	if (!s->error.err) {
		s->error = {err, reason, address, seq};
		store_release(&s->has_error, 1u);
	}
	if (s->mode == fail_mode::stop && !s->stopped)
		s->stopped = u32(err);
}

int stream_refuses(const stream *s)
{
	if (s->stopped)
		return fail(int(s->stopped), s->stopped == ECANCELED ? "the stream was aborted" :
				"the stream stopped at an earlier failure (failure mode stop)");
	if (s->dev->lost())
		return fail(ENODEV, "device %u (%s) is gone", s->dev->slot, s->dev->spec.c_str());
	return 0;
}

int stream_take_error(stream *s, stream_error *out)
{
	stream_error e;

	if (likely(!load_acquire(&s->has_error)))
		return 0;
	s->ln->lock.lock();
	e = s->error;
	if (!s->stopped) {
		s->error = {};
		store_relaxed(&s->has_error, 0u);
	}
	s->ln->lock.unlock();
	if (out)
		*out = e;
	if (!e.err)
		return 0;
	return fail(e.err, "stream %u: a task failed: %s (address 0x%llx, sequence %llu)", s->id, dma::fault_name(e.reason),
		    static_cast<unsigned long long>(e.address), static_cast<unsigned long long>(e.seq));
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

/* The doorbell and the counters for n requests just posted; with the lane's lock held. */
[[gnu::always_inline]] static inline void note_posted(stream *s, lane *l, const dma::request *r, size_t n)
{
	dma::channel *const ch = l->ch;
	u64 bytes = 0, copies = 0;

	trace_submit(ch, n);
	ch->ops->doorbell(ch);
	trace_doorbell(ch);
	s->last = ch->posted;
	for (size_t i = 0; i < n; i++) {
		const u64 b = bytes_of(r[i]);

		bytes += b;
		copies += b != 0;
	}
	count_posted(s, l, n, copies, bytes);
	if (unlikely(r->op == dma::opcode::wait))
		store_relaxed(&l->wait_seq, s->last);
}

void stream_note_posted(stream *s, const dma::request *r, size_t n)
{
	note_posted(s, s->ln, r, n);
}

/* The ring waits for something outside, perhaps for what this very thread will do next. */
static bool ring_waits(const lane *l)
{
	return dma::completed(l->ch) < load_relaxed(&l->wait_seq);
}

/* Waits until a good part of the ring is free, so that a busy submitter is not woken for each slot. */
static int wait_room(stream *s)
{
	lane *l = s->ln;

	l->lock.lock();
	const u64 posted = l->ch->posted, part = l->ch->ring_size / 4;
	l->lock.unlock();
	const u64 free_from = posted - l->ch->ring_size + part;
	return lane_wait(l, free_from, deadline::never(), stream_wait_mode(s));
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

/* The ring was full, or the stream is gated or stopped. */
[[gnu::cold, gnu::noinline]] static int submit_slow(stream *s, const dma::request *r, size_t n)
{
	lane *l = s->ln;

	while (n) {
		unsigned done;
		int err = stream_refuses(s);

		if (err)
			return err;
		l->lock.lock();
		if (s->gated) {
			l->lock.unlock();
			return queue_requests(s, r, n);
		}
		done = l->ch->ops->post(l->ch, r, unsigned(std::min<size_t>(n, l->ch->ring_size)));
		if (done)
			note_posted(s, l, r, done);
		l->lock.unlock();
		/* The unlock is a full barrier between the requests and this look (see wake_sleeper). */
		if (load_relaxed(l->ch->asleep))
			l->ch->ops->wake(l->ch);
		r += done;
		n -= done;
		if (n && !done && ring_waits(l))
			return queue_requests(s, r, n);
		if (n && !done && (err = wait_room(s)))
			return err;
	}
	return 0;
}

/*
 * After unlock_light().  The requests must be visible before this look at whether the device sleeps.
 * The device sets asleep, then looks at the ring: one of the two sees the other.
 */
[[gnu::always_inline]] static inline void wake_sleeper(lane *l, dma::channel *ch)
{
	if (likely(ch->asleep_ordered))
		barrier_light();
	else
		barrier_full();
	if (unlikely(load_relaxed(ch->asleep))) {
		ch->ops->wake(ch);
		__atomic_fetch_add(&l->count->wakes, 1, __ATOMIC_RELAXED);
	}
}

int stream_submit(stream *s, const dma::request *r, size_t n)
{
	lane *l = s->ln;
	dma::channel *ch = l->ch;
	unsigned done;

	l->lock.lock();
	if (unlikely(s->gated | s->stopped)) {
		l->lock.unlock();
		return submit_slow(s, r, n);
	}
	done = ch->ops->post(ch, r, unsigned(std::min<size_t>(n, ch->ring_size)));
	if (likely(done))
		note_posted(s, l, r, done);
	l->lock.unlock_light();
	wake_sleeper(l, ch);
	return likely(done == n) ? 0 : submit_slow(s, r + done, n - done);
}

[[gnu::noinline]] static int submit_copy_by_memory(stream *s, u32 spaces, u64 src, u64 dst, u64 len)
{
	dma::request r;

	dma::set_copy(&r, u8(spaces), src, dst, len, reinterpret_cast<u64>(s));
	return stream_submit(s, &r, 1);
}

/* With the lane's lock held. */
static inline bool is_as_usual(const stream *s, const dma::channel *ch)
{
	return !(s->gated | s->stopped) && ch->posted != ch->room_to && ch->ops->submit_copy;
}

int stream_submit_copy(stream *s, u32 spaces, u64 src, u64 dst, u64 len)
{
	lane *l = s->ln;
	dma::channel *ch = l->ch;

	if (unlikely(!l->lock.try_lock_own()))
		return submit_copy_by_memory(s, spaces, src, dst, len);
	if (unlikely(!is_as_usual(s, ch))) {
		l->lock.unlock_own();
		return submit_copy_by_memory(s, spaces, src, dst, len);
	}
	count_posted(s, l, 1, 1, len);
	ch->ops->submit_copy(ch, spaces, src, dst, len, reinterpret_cast<u64>(s));
	trace_submit(ch, 1);
	trace_doorbell(ch);
	s->last = ch->posted;
	l->lock.unlock_own();
	wake_sleeper(l, ch);
	return 0;
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
	if (!done)
		return stream_submit(s, &r, 1);
	/* As in submit_slow. */
	if (load_relaxed(l->ch->asleep))
		l->ch->ops->wake(l->ch);
	return 0;
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
		/* What it is gated by may stand still on any lane. */
		if ((err = device_alive(s->dev)))
			return err;
		pump_wait_progress(seen, std::min(until.at(), now_ns() + 20 * ns_per_ms));
	}
}

int stream_wait(stream *s, deadline until)
{
	u64 seq;
	int err;

	if (forked())
		return fail_forked();
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

int stream_query(stream *s)
{
	u64 seq;

	if (!ring_target(s, &seq)) {
		pump_run();
		if (!ring_target(s, &seq))
			return s->dev->lost() ? stream_refuses(s) : 1;
	}
	if (lane_halted(s->ln))
		lane_check_fault(s->ln);
	if (lane_done(s->ln, seq)) {
		trace_complete(s->ln, seq);
		return 0;
	}
	return s->dev->lost() ? fail(ENODEV, "device %u is gone", s->dev->slot) : 1;
}

/* A reference unless the last one is being given up at this time by a thread that destroys it. */
static bool ref_if_any(stream *s)
{
	u32 n = load_relaxed(&s->refs);

	while (n && !__atomic_compare_exchange_n(&s->refs, &n, n + 1, true, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		;
	return n != 0;
}

stream *stream_next(size_t *at, bool (*wanted)(const stream *s, const void *arg), const void *arg)
{
	return all_streams->next(at, [&](stream &s) { return wanted(&s, arg) && ref_if_any(&s); });
}

/* The next of the device's, but those of synchronous calls. */
static stream *next_stream(const device *dev, size_t *at)
{
	return stream_next(at, [](const stream *s, const void *arg) { return s->dev == arg && !s->opt.internal; }, dev);
}

int device_abort(device *dev)
{
	int first = 0;

	for (size_t at = 0; stream *s = next_stream(dev, &at);) {
		const int err = load_acquire(&s->alive) && stream_query(s) == 1 ? stream_abort(s) : 0;

		first = first ? first : err;
		stream_unref(s);
	}
	return first;
}

int device_sync(device *dev, deadline until, bool *late)
{
	bool waits = false;
	std::optional<kept_error> why;
	int first = 0;

	for (size_t at = 0; stream *s = next_stream(dev, &at);) {
		const bool alive = load_acquire(&s->alive) != 0;
		const int wait = alive ? stream_wait(s, until) : 0;
		const int err = wait || !alive ? wait : stream_take_error(s, nullptr);

		if (err && !first) {
			first = err;
			why.emplace();
			waits = wait == -ETIMEDOUT;
		}
		stream_unref(s);
	}
	memory_reclaim();
	if (late)
		*late = waits;
	return first ? why->again(first) : 0;
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

	if (forked())
		return fail_forked();
	l->lock.lock();
	s->stopped = ECANCELED;
	stream_drop_queue(s);
	err = s->dev->lost() ? 0 : cut_out(s);
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
