/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that is gone without a word (its link is down) is given up by being asked, long before a hang's time
 * is over.
 */
#include "lib/core/queue/recover.h"
#include "lib/core/queue/wait.h"
#include "tests/support/core.h"
#include "tests/unit/core/fake_engine.h"

#include <cstdlib>

using namespace usdma;
using namespace usdma::core;
using test::soon;

struct rig : test::fake {
	rig() : fake(0, 0)
	{
		for (int &fd : ch.irq_fd)
			fd = -1;
	}
};

/* Looks until it has been asked so often. */
static void until_asked(rig *r, unsigned times)
{
	const deadline end = soon();

	while (r->vfio().asked < times && !end.passed())
		ok(device_alive(&r->dev));
	assert_true(r->vfio().asked >= times);
}

static void gone_without_a_word(void **)
{
	const deadline end = soon();
	rig r;

	r.vfio().silent = true;
	r.post(1);
	while (!device_alive(&r.dev))
		assert_false(end.passed());
	assert_int_equal(device_alive(&r.dev), -ENODEV);
	assert_non_null(strstr(error_text(), "was lost"));
	assert_int_equal(r.vfio().asked, 1);
}

static void slow_and_there(void **)
{
	rig r;

	r.post(1);
	until_asked(&r, 3);
	r.complete();
	ok(device_alive(&r.dev));
}

/* A bus access has no place beside work that goes on, nor where there is none. */
static void not_asked(void **)
{
	const deadline end = deadline::in_ms(300);
	rig idle, busy;

	busy.post(1);
	for (u64 beat = 1; !end.passed(); beat++) {
		store_release(&busy.record.heartbeat, decltype(busy.record.heartbeat)(beat));
		ok(device_alive(&idle.dev));
		ok(device_alive(&busy.dev));
	}
	assert_int_equal(idle.vfio().asked + busy.vfio().asked, 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(gone_without_a_word),
		cmocka_unit_test(slow_and_there),
		cmocka_unit_test(not_asked),
	};

	setenv("USDMA_HANG_MS", "600000", 1);
	return cmocka_run_group_tests_name("core-silent", tests, nullptr, nullptr);
}
