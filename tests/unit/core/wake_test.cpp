/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who of many submitters wakes an engine that sleeps (the pair itself is in tests/unit/base/pairs_model.cpp), and who
 * of many sleepers is woken by the interrupt of several rings.
 */
#include "driver/base/eventfd.h"
#include "driver/base/unique_fd.h"
#include "driver/base/wakes.h"
#include "lib/core/queue/recover.h"
#include "lib/core/queue/submit.h"
#include "lib/core/queue/wait.h"
#include "tests/support/core.h"
#include "tests/unit/core/fake_engine.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

using namespace usdma;
using namespace usdma::core;

static constexpr unsigned burst = 64;

struct rig : test::fake {
	u32 asleep = dma::awake;
	u32 woken = 0; /* atomic */

	rig() : fake(0, 0)
	{
		ch.asleep = &asleep;
		ops.doorbell = [](dma::channel *) {};
		ops.wake = [](dma::channel *c) {
			rig *const r = reinterpret_cast<rig *>(c->record_iova);

			fetch_add_relaxed(&r->woken, 1);
		};
		ch.record_iova = reinterpret_cast<u64>(this);
	}
	hw_queue *queue() { return dev.hw_queues[1].get(); }
	void announce(unsigned n)
	{
		for (unsigned i = 0; i < n; i++)
			hwq_announce(queue());
	}
};

static void none_wakes_an_engine_that_is_awake(void **)
{
	rig r;

	r.announce(burst);
	assert_int_equal(r.woken, 0);
	assert_int_equal(r.queue()->count->wakes, 0);
}

static void a_burst_wakes_once(void **)
{
	rig r;

	for (unsigned sleeps = 1; sleeps <= 10; sleeps++) {
		store_relaxed(&r.asleep, u32(dma::asleep_once));
		r.announce(burst);
		assert_int_equal(r.woken, sleeps);
		assert_int_equal(r.asleep, dma::awake);
	}
	assert_int_equal(r.queue()->count->wakes, 10);
}

/* Of an engine that learns of posts by nothing else; the word is never written again. */
static void each_post_wakes_where_the_engine_needs_it(void **)
{
	rig r;

	r.asleep = dma::asleep_each;
	r.announce(burst);
	assert_int_equal(r.woken, burst);
	assert_int_equal(r.asleep, dma::asleep_each);
}

/* With asleep set as often as the engine sleeps, exactly one of the threads wakes it each time. */
static void one_of_several_threads_wakes(void **)
{
	static constexpr u32 threads = 4, sleeps = 2000;
	std::vector<std::thread> all;
	u32 over = 0;
	rig r;

	for (u32 i = 0; i < threads; i++)
		all.emplace_back([&] {
			while (!load_acquire(&over))
				r.announce(1);
		});
	for (u32 n = 1; n <= sleeps; n++) {
		const deadline until = test::soon();

		store_release(&r.asleep, u32(dma::asleep_once));
		while (load_acquire(&r.woken) < n && !until.passed())
			std::this_thread::yield();
		assert_int_equal(load_acquire(&r.woken), n);
	}
	store_release(&over, 1u);
	for (std::thread &t : all)
		t.join();
	assert_int_equal(r.woken, sleeps);
}

/* ---- sleepers ---------------------------------------------------------------------------------------- */

/* Raises the interrupt exactly when the number that is armed has ended, once. */
struct ring {
	static constexpr u64 none = ~u64(0);

	dma::channel ch = {};
	dma::completion_record record = {};
	std::mutex lock;
	u64 armed = none;
	unsigned arms = 0;
	bool hangs = false;
	hw_queue *queue = nullptr;

	void raise_if_due()
	{
		if (armed == none || record.completed < armed)
			return;
		armed = none;
		eventfd_signal(ch.irq_fd[dma::irq_waiter]);
	}
	void arm(u64 seq)
	{
		std::lock_guard guard(lock);

		arms++;
		armed = seq;
		raise_if_due();
	}
	void complete(u64 seq)
	{
		std::lock_guard guard(lock);

		store_release(&record.completed, seq);
		raise_if_due();
	}
	/* What is armed goes with the reset. */
	int abort()
	{
		std::lock_guard guard(lock);

		if (!std::exchange(hangs, false))
			return -EAGAIN;
		armed = none;
		record.fault_seq = record.completed + 1;
		record.reason = u32(dma::fault_reason::reset);
		store_release(&record.state, u32(dma::state_halted));
		return 0;
	}
	int resume()
	{
		complete(record.fault_seq);
		store_release(&record.state, u32(dma::state_running));
		return 0;
	}
};

/* Some rings of a device that have one interrupt. */
struct line_rig : test::fake {
	static constexpr unsigned rings = 3;

	std::unique_ptr<ring[]> all{new ring[rings]};
	unique_fd fd{eventfd_make_for_ring()};
	std::mt19937_64 gen = test::rng(4);

	line_rig() : fake(0, 0)
	{
		static const auto of = [](dma::channel *c) { return reinterpret_cast<ring *>(c->record_iova); };

		dev.hw_queues.clear();
		dev.opened = nullptr;
		dev.hw_queues.resize(rings);
		ops.arm = [](dma::channel *c, unsigned, u64 seq) { of(c)->arm(seq); };
		ops.abort = [](dma::channel *c) { return of(c)->abort(); };
		ops.resume = [](dma::channel *c) { return of(c)->resume(); };
		for (unsigned i = 0; i < rings; i++)
			add(i, all[i]);
	}
	void add(unsigned i, ring &r)
	{
		auto l = std::make_unique<hw_queue>();

		r.queue = l.get();
		r.ch.ops = &ops;
		r.ch.record = &r.record;
		r.ch.index = i;
		r.ch.ring_size = 1 << 16;
		r.ch.record_iova = reinterpret_cast<u64>(&r);
		std::fill(r.ch.irq_fd, r.ch.irq_fd + dma::irq_slots, fd.get());
		l->dev = &dev;
		l->ch = &r.ch;
		l->line = &all[0].queue->own_line;
		l->next_on_line = i ? std::exchange(l->line->queues, l.get()) : nullptr;
		dev.add(i, std::move(l));
	}
	ring &any() { return all[gen() % rings]; }
	unsigned arms()
	{
		unsigned n = 0;

		for (unsigned i = 0; i < rings; i++) {
			std::lock_guard guard(all[i].lock);

			n += all[i].arms;
		}
		return n;
	}
};

/* A thread that waits for the ring's next number. */
struct sleeper {
	ring &r;
	u64 seq;
	std::atomic<int> result{1};
	std::thread thread;

	sleeper(ring &on, deadline until) : r(on), seq(on.ch.posted + 1)
	{
		store_relaxed(&r.ch.posted, seq);
		thread = std::thread([this, until] { result = hwq_wait(r.queue, seq, until, wait_mode::interrupt); });
	}
	~sleeper() { thread.join(); }
	int await() const
	{
		for (const deadline until = test::soon(); result > 0 && !until.passed();)
			std::this_thread::yield();
		return result;
	}
};

using sleepers = std::vector<std::unique_ptr<sleeper>>;

/* All have armed an interrupt: those who come first are about to sleep, or do. Some soon give up. */
static sleepers put_to_sleep(line_rig &rig, unsigned n, bool one_gives_up)
{
	const unsigned before = rig.arms();
	sleepers all;

	for (unsigned i = 0; i < n; i++) {
		const bool leaves = one_gives_up && i == n / 2;

		all.push_back(std::make_unique<sleeper>(rig.any(), leaves ? deadline::in_ms(1) : test::soon()));
		for (const deadline until = test::soon(); rig.arms() < before + i + 1 && all[i]->result > 0;) {
			assert_false(until.passed());
			std::this_thread::yield();
		}
	}
	if (one_gives_up)
		assert_int_equal(all[n / 2]->await(), -ETIMEDOUT);
	return all;
}

/* One request after the other completes, on any ring: who waits for it returns before the next one completes. */
static void end_one_by_one(line_rig &rig, const sleepers &all)
{
	for (unsigned left = line_rig::rings; left;) {
		ring &r = rig.any();

		if (r.record.completed == r.ch.posted) {
			left = unsigned(
				std::count_if(rig.all.get(), rig.all.get() + line_rig::rings,
					      [](const ring &one) { return one.record.completed != one.ch.posted; }));
			continue;
		}
		r.complete(r.record.completed + 1);
		for (const auto &s : all)
			if (&s->r == &r && s->seq == r.record.completed && s->result != -ETIMEDOUT)
				assert_int_equal(s->await(), 0);
	}
}

static void each_sleeper_is_woken(void **)
{
	const u64 lost = wakes->lost;
	line_rig rig;

	for (unsigned round = 0; round < 150 * test::scale(); round++) {
		const sleepers all = put_to_sleep(rig, 1 + unsigned(rig.gen() % 6), round % 3 == 0);

		end_one_by_one(rig, all);
		assert_int_equal(wakes->lost, lost);
	}
}

/* One ring hangs, and is reset by a thread that sleeps for another one: its sleepers arm the interrupt again. */
static void sleepers_of_a_ring_that_is_reset(void **)
{
	const u64 lost = wakes->lost;
	line_rig rig;

	for (unsigned round = 0; round < 4; round++) {
		sleepers all;
		ring &r = rig.all[round % line_rig::rings];

		all = put_to_sleep(rig, 6, false);
		for (unsigned i = 0; i < 3; i++)
			all.push_back(std::make_unique<sleeper>(r, test::soon()));
		const u64 first = r.record.completed + 1;
		{
			std::lock_guard guard(r.lock);

			r.hangs = true;
		}
		for (const deadline until = test::soon(); load_acquire(&r.record.completed) < first;) {
			assert_false(until.passed());
			std::this_thread::yield();
		}
		for (const auto &s : all)
			if (&s->r == &r && s->seq == first)
				assert_int_equal(s->await(), 0);
		end_one_by_one(rig, all);
		assert_int_equal(wakes->lost, lost);
	}
}

static void all_sleepers_see_the_loss(void **)
{
	line_rig rig;
	const sleepers all = put_to_sleep(rig, 6, false);

	device_fail(&rig.dev, ENODEV, "as the test says");
	for (const auto &s : all)
		assert_int_equal(s->await(), -ENODEV);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(none_wakes_an_engine_that_is_awake),
		cmocka_unit_test(a_burst_wakes_once),
		cmocka_unit_test(each_post_wakes_where_the_engine_needs_it),
		cmocka_unit_test(one_of_several_threads_wakes),
		cmocka_unit_test(each_sleeper_is_woken),
		cmocka_unit_test(sleepers_of_a_ring_that_is_reset),
		cmocka_unit_test(all_sleepers_see_the_loss),
	};

	setenv("USDMA_CONFIG", "/dev/null", 1);
	setenv("USDMA_HANG_MS", "200", 1);
	setenv("USDMA_LOG", "none", 1);
	return cmocka_run_group_tests_name("core-wake", tests, nullptr, nullptr);
}
