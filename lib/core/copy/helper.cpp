/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/copy/helper.h"

#include "driver/base/clock.h"
#include "driver/base/cpu.h"
#include "driver/base/cpus.h"
#include "driver/base/error.h"
#include "driver/base/futex_lock.h"
#include "driver/base/log.h"
#include "driver/base/no_destructor.h"
#include "driver/base/thread.h"

#include <algorithm>
#include <mutex>

namespace usdma::core {

/* How long it polls for the next copy before it sleeps, and a caller for the end of its last part. */
static constexpr u64 helper_spin_ns = 20 * ns_per_us;

enum : u32 { idle, busy, busy_with_waiter };

struct helper_state {
	futex_lock lock;             /* held by the caller whose copy it helps with */
	shared_work *work = nullptr; /* atomic, as are the next six */
	u32 state = idle;
	u32 offers = 0; /* counts, as the address of a new copy may be that of the one before */
	u32 asleep = 0;
	u32 quit = 0;
	u32 running = 0;
	u64 last_end = 0; /* of a copy; atomic */
	u64 in_a_row = 0; /* bytes of copies since it was last worth waking; under lock */
	std::mutex users_lock;
	u32 users = 0; /* under users_lock, which is held while the thread starts or stops */
	pthread_t thread = {};
};
static constinit no_destructor<helper_state> helper;

/* ---- the thread -------------------------------------------------------------------------------------- */

/* 0, or this_cpu() if that is the caller's: there the helper is of no use. */
static u32 take_parts(shared_work *w)
{
	const u64 part = w->part;

	/* Once a part has failed, no more are taken: the same work may be offered twice. */
	while (w->failed == shared_work::none) {
		const u32 cpu = this_cpu();

		if (cpu && cpu == load_relaxed(&w->cpu))
			return cpu;
		const u64 from = fetch_add_acq_rel(&w->next, part);
		if (from >= w->size)
			break;
		if (!w->copy(w->arg, from, std::min(from + part, w->size)))
			continue;
		w->failed = from;
		store_release(&w->next, w->size);
	}
	return 0;
}

/* It stores its state, then loads work; a caller clears work, then loads the state. */
static u32 take_from_work()
{
	store_fence(&helper->state, u32(busy));
	shared_work *const w = load_seq_cst(&helper->work);
	const u32 declined = w ? take_parts(w) : 0;
	if (exchange_acq_rel(&helper->state, u32(idle)) == busy_with_waiter)
		futex_wake(&helper->state, 1);
	return declined;
}

/*
 * The scheduler often wakes it on the caller's CPU, even beside an idle one. It leaves that while it is idle, as the
 * caller waits for a helper that is busy. False: it is still of no use.
 */
static bool serve_offer()
{
	const u32 cpu = take_from_work();

	if (!cpu)
		return true;
	const cpu_avoided scope(cpu - 1);
	return !take_from_work();
}

/* It stores asleep, then loads offers; a caller counts its offer, then loads asleep. The stop counts as an offer. */
static void sleep_until_offer(u32 seen)
{
	store_fence(&helper->asleep, 1u);
	if (load_seq_cst(&helper->offers) == seen && !load_acquire(&helper->quit))
		futex_wait_until(&helper->offers, seen, now_ns() + 60 * ns_per_s);
	store_relaxed(&helper->asleep, 0u);
}

static bool poll_for_offer(u32 seen)
{
	for (const u64 until = now_ns() + helper_spin_ns; now_ns() < until; cpu_relax())
		if (load_acquire(&helper->offers) != seen)
			return true;
	return false;
}

static void *helper_main(void *)
{
	u32 seen = 0;

	while (!load_acquire(&helper->quit)) {
		const u32 now = load_acquire(&helper->offers);

		if (now != seen) {
			seen = now;
			if (!serve_offer() || !poll_for_offer(seen))
				sleep_until_offer(seen);
		} else {
			sleep_until_offer(seen);
		}
	}
	return nullptr;
}

/* A short copy is done before a thread that was woken for it runs, but the copies that follow it gain. */
static bool is_worth_waking(u64 size)
{
	const bool follows = now_ns() < load_relaxed(&helper->last_end) + helper_spin_ns;

	helper->in_a_row = follows ? helper->in_a_row + size : size;
	if (helper->in_a_row < woken_from)
		return false;
	helper->in_a_row = 0;
	return true;
}

static void notify()
{
	fetch_add_seq_cst(&helper->offers, 1);
	if (load_seq_cst(&helper->asleep))
		futex_wake(&helper->offers, 1);
}

void helper_get()
{
	std::lock_guard guard(helper->users_lock);

	if (helper->users++ || usable_cpus() < 2)
		return;
	store_relaxed(&helper->quit, 0u);
	if (thread_start(&helper->thread, "usdma-copy", helper_main, nullptr)) {
		log_warn("long pageable copies use one CPU: %s", error_text());
		return;
	}
	leave_the_only_cpu(helper->thread);
	store_release(&helper->running, 1u);
}

void helper_put()
{
	std::lock_guard guard(helper->users_lock);

	if (--helper->users || !load_relaxed(&helper->running))
		return;
	store_release(&helper->running, 0u);
	store_release(&helper->quit, 1u);
	notify();
	pthread_join(helper->thread, nullptr);
}

/* ---- its callers --------------------------------------------------------------------------------------- */

/* False: the thread does not run, another copy has it, or it sleeps and this one is too short to wake it. */
static bool offer(shared_work *w)
{
	if (!load_acquire(&helper->running) || !helper->lock.try_lock())
		return false;
	if (!is_worth_waking(w->size) && load_relaxed(&helper->asleep)) {
		helper->lock.unlock();
		return false;
	}
	store_relaxed(&w->cpu, this_cpu());
	store_release(&helper->work, w);
	notify();
	return true;
}

/* On return the helper does not use the work. */
static void take_back()
{
	const u64 spin_until = now_ns() + helper_spin_ns;
	u32 seen;

	exchange_seq_cst(&helper->work, nullptr);
	while ((seen = load_seq_cst(&helper->state)) != idle) {
		if (now_ns() < spin_until)
			cpu_relax();
		else if (seen == busy_with_waiter || cmpxchg_seq_cst(&helper->state, &seen, u32(busy_with_waiter)))
			futex_wait_until(&helper->state, busy_with_waiter, ~u64(0));
	}
	helper->lock.unlock();
}

/* The parts that the helper leaves. Returns the start of one that failed, or the size. */
static u64 share_rest(shared_work *w)
{
	const u64 part = w->part;
	u64 from;

	while ((from = fetch_add_acq_rel(&w->next, part)) < w->size) {
		store_relaxed(&w->cpu, this_cpu());
		if (w->copy(w->arg, from, std::min(from + part, w->size)))
			return from;
	}
	return w->size;
}

u64 helper_share(shared_work *w)
{
	const bool offered = offer(w);
	const u64 end = share_rest(w);

	if (end < w->size)
		store_release(&w->next, w->size);
	if (offered)
		take_back();
	store_relaxed(&helper->last_end, now_ns());
	return std::min(end, w->failed);
}

} // namespace usdma::core
