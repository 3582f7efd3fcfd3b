/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/queue/wait.h"

#include "driver/base/cpu.h"
#include "driver/base/cpus.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/wakes.h"
#include "lib/core/base/trace.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/sleep.h"
#include "lib/core/queue/submit.h"

#include <sched.h>
#include <unistd.h>

namespace usdma::core {

struct waiter {
	u64 seq;
	waiter *next = nullptr;
	enum : u32 { asleep, recheck, done, lead };
	u32 word = asleep; /* futex */
};

/* Longest sleep without a check of the ring: bounds the cost of a lost interrupt. */
static constexpr u64 recheck_interval = 50 * ns_per_ms;
static constexpr unsigned fast_polls = 256; /* without reading the clock: about a microsecond */
static constexpr unsigned polls_per_clock = 32;

/* ---- timing late (docs/checking.md) ---------------------------------------------------------------- */

/* Of the threads that sleep; with the line's lock held. */
static u64 least_seq(const hw_queue *l)
{
	u64 least = ~u64(0);

	for (const waiter *w = l->waiters; w; w = w->next)
		least = std::min(least, w->seq);
	return least;
}

/*
 * A device that holds its work runs what an interrupt is armed for, and learns of that when it is awake. One number can
 * be armed, and another thread may replace it before the device reads it: a caller that goes on waiting repeats this.
 */
[[gnu::cold, gnu::noinline]] static void demand(hw_queue *l, u64 seq)
{
	std::lock_guard waiting(l->line->lock);
	std::lock_guard guard(l->lock);

	/* A thread that sleeps for less is woken first. */
	l->ch->ops->arm(l->ch, dma::irq_waiter, std::min(least_seq(l), seq));
	hwq_wake(l);
}

static bool holds_work(const hw_queue *l)
{
	return unlikely(l->dev->timing >= check_timing::late);
}

/* ---- spinning --------------------------------------------------------------------------------------- */

/* Classifies a wait by the bytes submitted since the last wait of this hardware queue. */
static unsigned wait_kind(hw_queue *l)
{
	const u64 now = load_relaxed(&l->count->bytes);

	return wait_history::kind_of(now - exchange_relaxed(&l->waited_bytes, now));
}

static u64 most_spin()
{
	return u64(config_get().spin_us) * ns_per_us;
}

static constexpr u64 poll_budget = ~u64(0);
/* A sched_yield() that took longer has run another program. */
static constexpr u64 long_yield_ns = 300 * ns_per_us;

static u64 spin_budget(hw_queue *l, unsigned kind, wait_mode mode)
{
	if (mode == wait_mode::poll)
		return poll_budget;
	return mode == wait_mode::interrupt ? 0 : l->waits.budget(kind, most_spin());
}

/* May lose a count when two threads race: an atomic addition is too expensive here. */
static void count_spin(hw_queue *l)
{
	store_relaxed(&l->count->spins, load_relaxed(&l->count->spins) + 1);
}

bool hwq_engine_is_here(const hw_queue *l)
{
	const u32 cpu = load_relaxed(l->ch->engine_cpu);

	return cpu != dma::cpu_unknown && unlikely(cpu == this_cpu());
}

static bool fast_spin(const hw_queue *l, u64 seq)
{
	for (unsigned i = 0; i < fast_polls; i++) {
		if (hwq_done(l, seq))
			return true;
		if (unlikely(dma::halted(l->ch)))
			return false;
	}
	return false;
}

bool hwq_spin(hw_queue *l, u64 seq)
{
	const bool done = hwq_done(l, seq) || (!hwq_engine_is_here(l) && fast_spin(l, seq));

	if (done)
		count_spin(l);
	return done;
}

/* Polls between two clock reads. */
static bool burst(const hw_queue *l, u64 seq)
{
	for (unsigned i = 0; i < polls_per_clock; i++) {
		if (hwq_done(l, seq))
			return true;
		cpu_relax();
	}
	return false;
}

/* An engine or a thread that waits for this CPU may have to end the queue's WAIT. */
static bool lets_others_run(const hw_queue *l)
{
	static const bool few_cpus = usable_cpus() <= 2;

	return few_cpus && hwq_in_wait(l);
}

/* Checks all devices, as its ring may wait for a ring of another one. */
static int check_channel(hw_queue *l)
{
	devices_poll();
	return device_alive(l->dev);
}

/* 0: done; -EAGAIN: budget used up; or an error. */
static int spin(hw_queue *l, u64 seq, deadline until, u64 budget)
{
	const u64 start = now_ns();
	u64 checked = start;

	for (;;) {
		if (burst(l, seq))
			return 0;
		const u64 now = now_ns();
		if (unlikely(dma::halted(l->ch)))
			hwq_check_fault(l);
		if (now >= until.at() && !until.is_never()) {
			const int err = check_channel(l);

			return err ? err : fail(ETIMEDOUT, "not done in time");
		}
		const bool here = hwq_engine_is_here(l);
		if (now - start > budget || (here && budget != poll_budget))
			return -EAGAIN;
		if (here || lets_others_run(l)) {
			sched_yield();
			/* Another program had this CPU for its slice: a wake-up is sooner. */
			if (budget != poll_budget && now_ns() - now > long_yield_ns)
				return -EAGAIN;
		}
		if (now - checked > ns_per_ms) {
			const int err = check_channel(l);

			if (err)
				return err;
			if (holds_work(l))
				demand(l, seq);
			checked = now;
			sched_yield(); /* the engine's thread may need this CPU */
		}
	}
}

/* ---- queries in a loop ------------------------------------------------------------------------------ */

static int sleep_until(hw_queue *l, u64 seq, deadline until);

/* The engine's thread may have a lower priority than this one, so that sched_yield() would not let it run. */
[[gnu::cold, gnu::noinline]] static void let_engine_run(hw_queue *l, u64 seq)
{
	static constexpr u64 pause = 100 * ns_per_us;
	static constexpr u32 every = 32;

	if (fetch_add_relaxed(&l->polls, 1) % every != every - 1)
		return;
	const saved_error before;
	if (sleep_until(l, seq, deadline::in_ns(pause)))
		before.again(0); /* not done yet */
}

void hwq_note_poll(hw_queue *l, u64 seq)
{
	static constexpr u32 every = 8;

	if (hwq_engine_is_here(l))
		let_engine_run(l, seq);
	else if (holds_work(l) && fetch_add_relaxed(&l->polls, 1) % every == every - 1)
		demand(l, seq);
}

void note_gated_poll()
{
	static constexpr timespec pause = {0, 50 * long(ns_per_us)};
	static constexpr u32 every = 256;
	static u32 polls;
	cpu_set_t cpus;

	if (fetch_add_relaxed(&polls, 1) % every != every - 1)
		return;
	if (!sched_getaffinity(0, sizeof(cpus), &cpus) && CPU_COUNT(&cpus) == 1)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
}

/* ---- sleeping --------------------------------------------------------------------------------------- */

/* With the line's lock held. The caller must recheck the completion record afterwards. */
static void arm_least(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	l->ch->ops->arm(l->ch, dma::irq_waiter, least_seq(l));
}

/* False: it was not in the list. */
static bool unlink_waiter(hw_queue *l, waiter *me)
{
	waiter **at = &l->waiters;

	while (*at && *at != me)
		at = &(*at)->next;
	if (!*at)
		return false;
	*at = me->next;
	return true;
}

static void wake_waiter(waiter *w, u32 what)
{
	/* w stays valid: the waiter takes the line's lock, held here, before it returns. */
	store_release(&w->word, what);
	futex_wake(&w->word, 1);
}

/*
 * Wakes waiters that are done or must recheck; with the line's lock held. True: some were done and the
 * interrupt was rearmed for the others, so the completion record must be rechecked.
 */
static bool serve_queue(hw_queue *l, const waiter *leader)
{
	const u64 done = dma::completed(l->ch);
	const bool must_check = exchange_acquire(&l->recheck, false) || dma::halted(l->ch);
	bool any = false;

	for (waiter *w = l->waiters, *next; w; w = next) {
		next = w->next;
		if (w == leader)
			continue;
		if (w->seq <= done) {
			unlink_waiter(l, w);
			wake_waiter(w, waiter::done);
			any = true;
		} else if (must_check) {
			wake_waiter(w, waiter::recheck);
		}
	}
	if (!any || !l->waiters)
		return false;
	arm_least(l);
	return true;
}

static void serve_line(irq_line *line)
{
	for (hw_queue *l = line->queues; l; l = l->next_on_line)
		while (l->waiters && serve_queue(l, line->leader))
			;
}

/* Prefers a waiter of the same ring, which rearms that ring's interrupt. */
static waiter *next_leader(const irq_line *line, const hw_queue *own)
{
	if (own->waiters)
		return own->waiters;
	for (const hw_queue *l = line->queues; l; l = l->next_on_line)
		if (l->waiters)
			return l->waiters;
	return nullptr;
}

static void leave(hw_queue *l, waiter *me)
{
	irq_line *const line = l->line;
	std::lock_guard guard(line->lock);
	const bool led = line->leader == me;

	/* The leader, of another ring, would find no one that its interrupt is for, and arm none for the others. */
	if (unlink_waiter(l, me) && !led && l->waiters)
		arm_least(l);
	if (led)
		line->leader = nullptr;
	serve_line(line);
	if (led && (line->leader = next_leader(line, l)))
		wake_waiter(line->leader, waiter::lead);
}

static u64 next_check(deadline until)
{
	return std::min(until.at(), now_ns() + recheck_interval);
}

/* Check of each wait iteration. 0: keep waiting; 1: done; or an error. */
static int wait_check(hw_queue *l, u64 seq, deadline until)
{
	if (dma::halted(l->ch))
		hwq_check_fault(l);
	if (hwq_done(l, seq))
		return 1;
	if (const int err = check_channel(l))
		return err;
	return until.passed() ? fail(ETIMEDOUT, "not done in time") : 0;
}

/*
 * Arming is ordered before the following check: either the device sees it, or the check sees the completion. Returns
 * how many requests have ended, on all rings of the interrupt.
 */
static u64 arm_and_serve(hw_queue *l)
{
	std::lock_guard guard(l->line->lock);
	u64 ended = 0;

	arm_least(l);
	serve_line(l->line);
	for (const hw_queue *q = l->line->queues; q; q = q->next_on_line)
		ended += dma::completed(q->ch);
	return ended;
}

/* Some thread's work is done: the interrupt that is armed for it has come, or is about to. */
static bool is_due(irq_line *line)
{
	std::lock_guard guard(line->lock);

	for (const hw_queue *q = line->queues; q; q = q->next_on_line)
		if (least_seq(q) <= dma::completed(q->ch))
			return true;
	return false;
}

/* True: woken, and not by the next check or the caller's time limit. */
static bool sleep_once(hw_queue *l, deadline until)
{
	const u64 check = next_check(until);
	const int fd = l->ch->irq_fd[dma::irq_waiter];

	fetch_add_relaxed(&l->count->sleeps, 1);
	const int err = eventfd_sleep(fd, check);
	/* Before it is armed again, which raises it at once for what is done. */
	if (err == -ETIMEDOUT && check < until.at() && is_due(l->line))
		wake_missed(fd);
	return !err;
}

static int lead(hw_queue *l, waiter *me, deadline until)
{
	bool woken = false;
	idle_sleeps idle;
	u64 before = 0;

	for (;;) {
		const u64 ended = arm_and_serve(l);

		if (const int err = wait_check(l, me->seq, until))
			return err;
		idle.note(woken && ended == before);
		before = ended;
		woken = sleep_once(l, until);
	}
}

static void arm_again(hw_queue *l)
{
	std::lock_guard guard(l->line->lock);

	arm_least(l);
}

static int follow(hw_queue *l, waiter *me, deadline until)
{
	for (bool checks = false;;) {
		u32 word = load_acquire(&me->word);
		int err;

		if (word == waiter::done)
			return 1;
		if (word == waiter::lead)
			return lead(l, me, until);
		/* Rearm unless it leads by now: the device may have dropped the armed number. */
		if (word == waiter::recheck && cmpxchg_acquire(&me->word, &word, u32(waiter::asleep)))
			arm_again(l);
		err = wait_check(l, me->seq, until);
		if (err > 0 && checks)
			wake_missed(&me->word, waiter::asleep);
		if (err)
			return err;
		const u64 check = next_check(until);
		checks = futex_wait_until(&me->word, waiter::asleep, check) == -ETIMEDOUT && check < until.at();
	}
}

static int sleep_until(hw_queue *l, u64 seq, deadline until)
{
	irq_line *const line = l->line;
	waiter me{seq};
	waiter **end;
	bool first;
	int err;

	line->lock.lock();
	for (end = &l->waiters; *end; end = &(*end)->next)
		;
	*end = &me;
	first = !line->leader;
	if (first)
		line->leader = &me;
	else
		arm_least(l);
	line->lock.unlock();
	err = first ? lead(l, &me, until) : follow(l, &me, until);
	leave(l, &me);
	return err < 0 ? err : 0;
}

/* After the fast spin of about a microsecond has failed. */
static int spin_then_sleep(hw_queue *l, u64 seq, deadline until, wait_mode mode)
{
	const unsigned kind = wait_kind(l);
	const u64 budget = spin_budget(l, kind, mode), start = now_ns();
	int err = -EAGAIN;

	if (holds_work(l))
		demand(l, seq);
	if (budget)
		err = spin(l, seq, until, budget);
	const bool slept = err == -EAGAIN;
	if (slept)
		err = sleep_until(l, seq, until);
	else if (!err)
		count_spin(l);
	l->waits.note(kind, now_ns() - start, slept, most_spin());
	return err;
}

static int wait_any(hw_queue *l, u64 seq, deadline until, wait_mode mode)
{
	if (hwq_done(l, seq))
		return 0;
	if (mode == wait_mode::hybrid && hwq_engine_is_here(l))
		return sleep_until(l, seq, until);
	if (mode == wait_mode::interrupt || !fast_spin(l, seq))
		return spin_then_sleep(l, seq, until, mode);
	count_spin(l);
	return 0;
}

int hwq_wait(hw_queue *l, u64 seq, deadline until, wait_mode mode)
{
	trace_wait_begin(l, seq);
	const int err = wait_any(l, seq, until, mode);
	trace_wait_end(l, seq, err);
	/* So that a caller that sees the loss can usually free its memory at once. */
	if (unlikely(err && l->dev->lost()))
		device_quiesce(l->dev);
	else if (err == -ETIMEDOUT)
		hwq_note_poll(l, seq);
	return err;
}

void hwq_arm_service(hw_queue *l, u64 seq)
{
	std::lock_guard guard(l->lock);

	l->ch->ops->arm(l->ch, dma::irq_service, seq);
}

bool hwq_is_idle(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	return hwq_done(l, l->ch->posted) || (l->ch->ops->in_wait && l->ch->ops->in_wait(l->ch));
}

bool hwq_drain(hw_queue *l, deadline until)
{
	l->lock.lock();
	const u64 posted = l->ch->posted;
	l->lock.unlock();
	return !l->dev->lost() && hwq_wait(l, posted, until, wait_mode::hybrid) == 0;
}

bool hwq_last_use(hw_queue *l, const dma::iova_range &where, u64 *seq, deadline until)
{
	if (!l->lock_until(until))
		return false;
	if (!l->ch->ops->last_use(l->ch, where, seq))
		*seq = 0;
	else if (l->dev->timing >= check_timing::late)
		/* The device runs nothing that is not waited for. */
		l->ch->ops->arm(l->ch, dma::irq_service, *seq);
	l->lock.unlock();
	return true;
}

} // namespace usdma::core
