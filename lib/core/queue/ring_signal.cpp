/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/queue/ring_signal.h"

#include "driver/base/await_fds.h"
#include "driver/base/clock.h"
#include "driver/base/eventfd.h"
#include "driver/base/fd.h"
#include "driver/base/log.h"

#include <algorithm>
#include <new>
#include <poll.h>
#include <utility>

namespace usdma::core {

/* A queue whose interrupt was not used for this long is not monitored any more. */
static constexpr u64 monitored_ns = ns_per_s;
/* A signal that has not come so long after its work has ended is late. */
static constexpr u64 late_ns = ns_per_ms;

static void unref(ring_signal *s)
{
	if (fetch_sub_acq_rel(&s->refs, 1) == 1)
		delete s;
}

static bool is_done(const hw_queue *l, u64 seq)
{
	return dma::completed(l->ch) >= seq;
}

/* ---- with its lock held ------------------------------------------------------------------------------- */

/* False: the signal of the number before has not come, which would else be one too many. */
static bool is_free(ring_signal *s)
{
	const u64 got = s->is_set && s->due ? eventfd_clear(s->fd.get()) : 0, own = std::min(s->due, got);

	s->due -= own;
	s->owed -= std::min(s->owed, got - own);
	return !s->is_set || !s->due;
}

/* The device's server shares the eventfd: it must not block. */
static void add_signal(ring_signal *s)
{
	if (eventfd_raise(s->fd.get()) || eventfd_signal(s->fd.get()))
		s->due++;
	else
		log_debug("signalling a completion failed");
	s->raised = true;
}

/* Ours replaces the device's, which is late, lost, or dropped by a reset, and lets the set call signal_next() again. */
static void replace_signal(ring_signal *s)
{
	add_signal(s);
	if (s->is_set && s->due) {
		s->due--;
		s->owed++;
		s->seq = s->nothing;
	}
}

static bool is_over(const hw_queue *l, const ring_signal *s)
{
	return s->seq != s->nothing && (is_done(l, s->seq) || l->dev->lost());
}

static void end_use(ring_signal *s, u64 got)
{
	s->owed += s->due;
	s->owed -= std::min(s->owed, got);
	s->used = false;
	s->seq = s->nothing;
}

/*
 * The ring's read has it, or will find it. Not that of a set: its eventfd may have other signals, which came before its
 * number had completed.
 */
static bool has_come(const ring_signal *s)
{
	return !s->is_set && (s->raised || load_acquire(s->count) || eventfd_ready(s->fd.get(), POLLIN));
}

static bool is_idle(ring_signal *s, u64 now)
{
	if (s->seq != s->nothing || std::exchange(s->seen_arms, s->arms) != s->arms)
		s->used_ns = now;
	return now - s->used_ns > monitored_ns;
}

static signal_state check(const hw_queue *l, ring_signal *s)
{
	const u64 now = now_ns();

	if (is_idle(s, now))
		return signal_state::idle;
	if (!is_over(l, s) || has_come(s))
		return signal_state::used;
	if (std::exchange(s->late_arms, s->arms) != s->arms)
		s->late_ns = now;
	if (now - s->late_ns < late_ns)
		return signal_state::late;
	log_debug("device %u channel %u: an interrupt for a completion is late, or lost", l->dev->slot, l->ch->index);
	replace_signal(s);
	return signal_state::used;
}

/* ---- its users ---------------------------------------------------------------------------------------- */

/* count: null for a set. */
static bool take(ring_signal *s, const u64 *count)
{
	std::lock_guard guard(s->lock);

	if (s->used)
		return false;
	if (unlikely(s->owed))
		s->owed -= std::min(s->owed, eventfd_clear(s->fd.get()));
	if (s->owed)
		return false;
	s->used = true;
	s->is_set = !count;
	s->count = count;
	s->due = 0;
	fetch_add_relaxed(&s->refs, 1);
	return true;
}

static ring_signal *signal_new(int queue_fd)
{
	auto *s = new (std::nothrow) ring_signal;

	if (!s)
		return nullptr;
	s->fd.reset(fd_copy(queue_fd));
	if (s->fd.valid()) {
		eventfd_clear(s->fd.get());
		return s;
	}
	delete s;
	return nullptr;
}

bool signal_is_possible(const hw_queue *l)
{
	return l->ch->ops->completion_fd && l->dev->timing < check_timing::late;
}

void signal_prepare(hw_queue *l)
{
	if (unlikely(!load_acquire(&l->signal)) && signal_is_possible(l))
		l->ch->ops->completion_fd(l->ch);
}

/* nullptr: this queue has none. */
static ring_signal *signal_of(hw_queue *l)
{
	const int fd = load_acquire(&l->ch->irq_fd[dma::irq_completion]);

	/* Release: recovery reads it without the queue's lock. */
	if (unlikely(!l->signal && fd >= 0 && signal_is_possible(l)))
		store_release(&l->signal, signal_new(fd));
	return l->signal;
}

static bool note_arm(ring_signal *s, u64 seq)
{
	std::lock_guard guard(s->lock);

	if (!is_free(s))
		return false;
	s->seq = seq;
	s->due++;
	s->arms++;
	s->raised = false;
	return true;
}

static void note_withdrawn(ring_signal *s)
{
	std::lock_guard guard(s->lock);

	s->due--;
	s->seq = s->nothing;
}

signalling signal_next(hw_queue *l, ring_signal *s, u64 seq)
{
	if (is_done(l, seq))
		return signalling::done;
	/* Before the device may signal it, and before the check for a loss: who marks the device lost then raises. */
	if (!note_arm(s, seq))
		return signalling::later;
	l->ch->ops->arm(l->ch, dma::irq_completion, seq);
	if (is_done(l, seq) && l->ch->ops->withdraw(l->ch, seq)) {
		note_withdrawn(s);
		return signalling::done;
	}
	if (unlikely(l->dev->lost()))
		signal_raise(s);
	return signalling::armed;
}

signalling signal_arm(hw_queue *l, u64 seq, const u64 *count, ring_signal **out)
{
	if (is_done(l, seq))
		return signalling::done;
	ring_signal *const s = signal_of(l);
	if (!s || !take(s, count))
		return signalling::none;
	const signalling how = signal_next(l, s, seq);
	if (how == signalling::armed)
		*out = s;
	else
		signal_release(s);
	return how;
}

ring_signal *signal_hold(hw_queue *l)
{
	ring_signal *const s = signal_of(l);

	return s && take(s, nullptr) ? s : nullptr;
}

bool signal_end(ring_signal *s)
{
	{
		std::lock_guard guard(s->lock);
		const u64 taken = load_acquire(s->count), got = taken ? taken : eventfd_clear(s->fd.get());

		if (!got)
			return false;
		end_use(s, got);
	}
	unref(s);
	return true;
}

void signal_await(ring_signal *s)
{
	pollfd p = {s->fd.get(), POLLIN, 0};

	/* Also if a signal's handler has run. */
	if (await_fds(&p, 1, 1) <= 0 && !load_acquire(s->count))
		signal_raise(s);
}

void signal_release(ring_signal *s)
{
	{
		std::lock_guard guard(s->lock);

		end_use(s, s->due ? eventfd_clear(s->fd.get()) : 0);
	}
	unref(s);
}

void signal_nothing(ring_signal *s)
{
	std::lock_guard guard(s->lock);

	/* Else the check raises it, if it is lost: the next use waits for it. */
	if (is_free(s))
		s->seq = s->nothing;
}

void signal_raise(ring_signal *s)
{
	std::lock_guard guard(s->lock);

	if (s->used)
		add_signal(s);
}

/* ---- the queue ---------------------------------------------------------------------------------------- */

/* Under the lock: the first completion of the queue sees that it has to be monitored. */
static signal_state check_unused(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	if (l->signal)
		return signal_state::used;
	store_relaxed(&l->monitored, false);
	return signal_state::idle;
}

signal_state signal_check(hw_queue *l)
{
	ring_signal *const s = load_acquire(&l->signal);

	if (!s)
		return check_unused(l);
	std::lock_guard guard(s->lock);
	const signal_state now = check(l, s);
	/* Under the lock: a next use sees that it has to be monitored. */
	if (now == signal_state::idle)
		store_relaxed(&l->monitored, false);
	return now;
}

void signal_lost(hw_queue *l)
{
	ring_signal *const s = load_acquire(&l->signal);

	if (!s)
		return;
	std::lock_guard guard(s->lock);
	if (s->used && is_over(l, s))
		replace_signal(s);
}

/* The number that is armed has not completed as far as its user knows. */
static void arm_again(hw_queue *l, ring_signal *s)
{
	const dma::channel_ops *const ops = l->ch->ops;

	s->due++;
	ops->arm(l->ch, dma::irq_completion, s->seq);
	if (is_done(l, s->seq) && ops->withdraw(l->ch, s->seq)) {
		s->due--;
		replace_signal(s);
	}
}

void signal_rearm(hw_queue *l)
{
	ring_signal *const s = l->signal;

	if (!s)
		return;
	std::lock_guard guard(s->lock);
	/* A completion that is in use has the only signal, or none. */
	if (s->used && !s->is_set && has_come(s))
		return;
	eventfd_clear(s->fd.get());
	s->due = s->owed = 0;
	if (s->seq != s->nothing)
		arm_again(l, s);
	/* The program may not have seen what was cleared. */
	if (s->used && s->is_set)
		add_signal(s);
}

void signal_close(hw_queue *l)
{
	ring_signal *const s = std::exchange(l->signal, nullptr);

	if (!s)
		return;
	signal_raise(s);
	unref(s);
}

} // namespace usdma::core
