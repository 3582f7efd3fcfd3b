/* SPDX-License-Identifier: BSD-3-Clause */
/* The watchdog reports a hang of a hardware queue if successive samples show no progress for the limit. */
#include "lib/core/device/watchdog.h"

#include "driver/base/clock.h"
#include "tests/support/test.h"

using namespace usdma;
using core::watchdog;

static constexpr u64 ms = ns_per_ms, limit = 1000 * ms;

static void test_counts_from_the_first_sample(void **)
{
	watchdog s;

	for (u64 at = 5000; at <= 6000; at += 50)
		assert_false(s.sample(at * ms, true, 7, 3, limit));
	assert_true(s.sample(6050 * ms, true, 7, 3, limit));
	s.restart();
	assert_false(s.sample(6100 * ms, true, 7, 3, limit));
}

/* Two threads read the clock in one order and sample in the other. */
static void test_samples_out_of_order(void **)
{
	watchdog s;

	assert_false(s.sample(5000 * ms, true, 7, 3, limit));
	assert_false(s.sample(4999 * ms, true, 7, 3, limit));
	assert_false(s.sample(5001 * ms, true, 7, 3, limit));
	assert_int_equal(s.still_ns(), 1 * ms);
}

static void test_progress_restarts(void **)
{
	watchdog s;
	u64 at = 5000, done = 7, beat = 3;

	for (unsigned round = 0; round < 3; round++) {
		for (u64 until = at + 900; at < until; at += 100)
			assert_false(s.sample(at * ms, true, done, beat, limit));
		(round % 2 ? done : beat)++;
	}
	for (unsigned i = 0; i < 20; i++, at += 100)
		assert_false(s.sample(at * ms, false, done, beat, limit));
	assert_false(s.sample(at * ms, true, done, beat, limit));
}

/* The process or its virtual machine was stopped: one sample after that is no proof of a hang. */
static void test_a_long_gap(void **)
{
	watchdog s;

	assert_false(s.sample(5000 * ms, true, 7, 3, limit));
	assert_false(s.sample(500000 * ms, true, 7, 3, limit));
	assert_false(s.sample(500020 * ms, true, 8, 3, limit));
	/* If all samples are rare, a few more are sufficient. */
	for (u64 at = 600000; at < 1000000; at += 100000)
		assert_false(s.sample(at * ms, true, 8, 3, limit));
	assert_true(s.sample(1000000 * ms, true, 8, 3, limit));
}

/* Heartbeats alone extend the limit, but not forever, unless the queue waits for an external event. */
static void test_only_beats(void **)
{
	for (const bool waits : {false, true}) {
		watchdog s;
		u64 at = 5000, beat = 0;

		for (u64 until = at + watchdog::beats * 1000; at <= until; at += 50)
			assert_false(s.sample(at * ms, true, 7, beat++, limit, waits));
		assert_int_equal(s.sample(at * ms, true, 7, beat++, limit, waits), !waits);
		assert_int_equal(s.only_beats(), !waits);
		assert_int_equal(s.as_seen(7, beat), !waits);
		assert_false(s.as_seen(8, beat));
		assert_false(s.sample((at + 50) * ms, true, 8, beat, limit, waits));
		assert_false(s.only_beats());
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_counts_from_the_first_sample),
		cmocka_unit_test(test_samples_out_of_order),
		cmocka_unit_test(test_progress_restarts),
		cmocka_unit_test(test_a_long_gap),
		cmocka_unit_test(test_only_beats),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
