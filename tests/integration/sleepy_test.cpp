/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine that sleeps as soon as its ring is empty (the runner sets spin=0), and two
 * threads that submit to one stream: copies are submitted about when the engine goes to
 * sleep, and each must be executed.  The test waits by queries only, so that nothing but
 * the submission wakes the engine.
 */
#include "driver/base/barrier.h"
#include "tests/integration/native.h"
#include "tests/support/sleeps.h"
#include "tests/support/until.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <thread>
#include <unistd.h>

using namespace usdma::test;

static bool wait_by_query(usdma_stream *s)
{
	const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(long_ms);

	while (WORKS(usdma_stream_query(s)) == 0)
		if (std::chrono::steady_clock::now() > until)
			return false;
	return true;
}

static void pause(unsigned n)
{
	for (; n; n--)
		usdma::cpu_relax();
}

static void each_copy_wakes_the_engine(void **)
{
	const size_t times = sized(20000, 20);
	device dev;
	stream s(dev);
	block host(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);
	auto gen = rng(1);

	for (size_t i = 0; i < times; i++) {
		memcpy(host.data(), &i, sizeof(i));
		WORKS(usdma_copy(s, mem.data(), host.data(), sizeof(i)));
		const bool ended = wait_by_query(s);

		if (!ended)
			print_error("copy %zu of %zu hangs\n", i, times);
		assert_true(ended);
		/* The engine takes some microseconds from its last check of the ring until it sleeps. */
		pause(gen() % 200);
	}
	WORKS(usdma_copy_sync(dev, host.data() + 64, mem.data(), sizeof(times), long_ms));
	const size_t last = times - 1;
	assert_memory_equal(host.data() + 64, &last, sizeof(last));
}

/* One thread submits many copies and another a few: the stream's lock changes its owner. */
static void two_threads_one_stream(void **)
{
	const size_t times = sized(60000, 80), slots = 4096 / 8;
	device dev;
	stream s(dev);
	block host(dev, kind::pinned, 4096 * 4), mem(dev, kind::device, 4096 * 2);
	usdma_stream_stats before = {}, after = {};
	auto gen = rng(2);

	before.struct_size = after.struct_size = sizeof(before);
	fill_random(host.data(), 4096 * 2, gen);
	WORKS(usdma_stream_get_stats(s, &before));
	const auto submit = [&](size_t from, size_t n, unsigned most) {
		std::mt19937_64 mine(from);

		for (size_t i = 0; i < n; i++) {
			const size_t at = from + i % slots * 8;

			WORKS(usdma_copy(s, mem.data() + at, host.data() + at, 8));
			pause(most ? unsigned(mine() % most) : 0);
		}
	};
	std::thread other(submit, 4096, times / 16, 2000);
	submit(0, times, 0);
	other.join();
	assert_true(wait_by_query(s));
	WORKS(usdma_stream_get_stats(s, &after));
	assert_int_equal(after.copies - before.copies, times + times / 16);
	WORKS(usdma_copy_sync(dev, host.data() + 4096 * 2, mem.data(), 4096 * 2, long_ms));
	const size_t first = std::min<size_t>(times, slots) * 8, second = std::min<size_t>(times / 16, slots) * 8;
	assert_memory_equal(host.data() + 4096 * 2, host.data(), first);
	assert_memory_equal(host.data() + 4096 * 3, host.data() + 4096, second);
}

/* Its thread sleeps in usdma_event_sync() when the constructor returns. */
class sleeper {
public:
	explicit sleeper(usdma_event *e)
		: thread_([this, e] {
			  usdma::store_release(&tid_, gettid());
			  result_ = usdma_event_sync(e, long_ms);
		  })
	{
		until("a thread sleeps", [this] {
			const std::string tid = std::to_string(usdma::load_acquire(&tid_));

			return line_of("/proc/self/task/" + tid + "/status", "State:").find('S') != std::string::npos;
		});
	}
	int end()
	{
		thread_.join();
		return result_;
	}

private:
	int tid_ = 0, result_ = -1; /* tid_: atomic */
	std::thread thread_;
};

/*
 * Three threads sleep on one ring, in each order, and their work is done one by one, each when the one before has
 * returned: the thread that gets the interrupt passes it on, arms it for the next, and is followed. A wake-up that is
 * lost is counted.
 */
static void each_sleeper_is_woken(void **)
{
	device dev;
	stream s(dev, USDMA_WAIT_INTERRUPT);
	std::array<unsigned, 3> order = {0, 1, 2};

	do {
		std::array<gate, 3> gates = {gate(dev), gate(dev), gate(dev)};
		const std::array<event, 3> events = {event(dev), event(dev), event(dev)};
		std::array<std::unique_ptr<sleeper>, 3> sleepers;

		for (unsigned i = 0; i < 3; i++) {
			gates[i].close(s);
			WORKS(usdma_event_record(events[i], s));
		}
		for (unsigned i : order)
			sleepers[i] = std::make_unique<sleeper>(events[i]);
		for (unsigned i = 0; i < 3; i++) {
			gates[i].open();
			assert_int_equal(sleepers[i]->end(), 0);
		}
	} while (std::next_permutation(order.begin(), order.end()));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(each_copy_wakes_the_engine),
		cmocka_unit_test(two_threads_one_stream),
		cmocka_unit_test(each_sleeper_is_woken),
	};

	return cmocka_run_group_tests_name("sleepy", tests, nullptr, nullptr);
}
