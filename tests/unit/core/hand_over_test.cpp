/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way staging buffers are handed over, learned from laps whose times are made up here. */
#include "lib/core/device/hand_over.h"
#include "tests/support/test.h"

using namespace usdma;
using core::hand_over;

struct machine {
	u64 by_caches, past; /* ns of a lap */
	u64 now = 1000;
	unsigned laps_past = 0, laps = 0;
	bool before = false;

	/* A copy of so many laps; a lap takes half of its time the way of the one before. */
	void copy(hand_over *h, unsigned n)
	{
		h->begin(now, n);
		before = h->past();
		for (unsigned i = 0; i < n; i++) {
			const bool way = h->past();

			now += (cost(way) + cost(before)) / 2;
			before = way;
			laps++;
			laps_past += way;
			h->lap(now);
		}
	}
	u64 cost(bool way) const { return way ? past : by_caches; }
	void forget() { laps = laps_past = 0; }
};

static void near_stays_in_the_caches(void **)
{
	hand_over h;
	machine m{350000, 420000};

	m.copy(&h, 1000);
	/* Two laps of 64 are trials. */
	assert_in_range(m.laps_past, 1, 2 * (1000 / 64 + 2));
}

static void far_goes_past_them(void **)
{
	hand_over h;
	machine m{800000, 350000};

	m.copy(&h, 16);
	assert_in_range(m.laps_past, 11, 16);
	m.forget();
	m.copy(&h, 1000);
	assert_in_range(m.laps_past, 1000 - 2 * (1000 / 64 + 2), 999);
}

/* The host moves the CPUs: heard of by laps that take longer, or by the next trial where the way taken did not change. */
static void follows_a_change(void **)
{
	hand_over h;
	machine m{350000, 420000};

	m.copy(&h, 100);
	m.forget();
	m.by_caches = 800000;
	m.copy(&h, 100);
	assert_in_range(m.laps_past, 80, 100);
	m.forget();
	m.by_caches = 300000;
	m.copy(&h, 200);
	assert_in_range(m.laps_past, 1, 80);
}

/* Copies of two laps have no room for a trial but as a whole; those of one teach nothing. */
static void short_copies(void **)
{
	hand_over h;
	machine m{800000, 350000};

	for (unsigned i = 0; i < 100; i++)
		m.copy(&h, 1);
	assert_int_equal(m.laps_past, 0);
	for (unsigned i = 0; i < 100; i++)
		m.copy(&h, 2);
	assert_in_range(m.laps_past, 180, 198);
	m.forget();
	for (unsigned i = 0; i < 100; i++)
		m.copy(&h, 1);
	assert_int_equal(m.laps_past, 100);
}

static void one_disturbed_lap(void **)
{
	hand_over h;
	machine m{350000, 500000};

	m.copy(&h, 20);
	m.forget();
	for (unsigned i = 0; i < 30; i++) {
		m.by_caches = 600000;
		m.copy(&h, 2);
		m.by_caches = 350000;
		m.copy(&h, 60);
	}
	assert_true(m.laps_past * 5 < m.laps);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(near_stays_in_the_caches), cmocka_unit_test(far_goes_past_them), cmocka_unit_test(follows_a_change),
		cmocka_unit_test(short_copies),             cmocka_unit_test(one_disturbed_lap),
	};

	return cmocka_run_group_tests_name("hand-over", tests, nullptr, nullptr);
}
