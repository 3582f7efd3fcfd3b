/* SPDX-License-Identifier: BSD-3-Clause */
/* Who of many submitters wakes an engine that sleeps. The pair itself is in tests/unit/base/pairs_model.cpp. */
#include "lib/core/queue/submit.h"
#include "tests/support/core.h"
#include "tests/unit/core/fake_engine.h"

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

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(none_wakes_an_engine_that_is_awake),
		cmocka_unit_test(a_burst_wakes_once),
		cmocka_unit_test(each_post_wakes_where_the_engine_needs_it),
		cmocka_unit_test(one_of_several_threads_wakes),
	};

	return cmocka_run_group_tests_name("core-wake", tests, nullptr, nullptr);
}
