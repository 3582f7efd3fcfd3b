/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that is lost without notification (its link is down) is detected by a query, long before the hang timeout
 * expires.
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

/* Calls device_alive() until it has queried the device so many times. */
static void wait_for_queries(rig *r, unsigned times)
{
	const deadline end = soon();

	while (r->vfio().queries < times && !end.passed())
		ok(device_alive(&r->dev));
	assert_true(r->vfio().queries >= times);
}

static void lost_without_notification(void **)
{
	const deadline end = soon();
	rig r;

	r.vfio().silent = true;
	r.post(1);
	while (!device_alive(&r.dev))
		assert_false(end.passed());
	assert_int_equal(device_alive(&r.dev), -ENODEV);
	assert_non_null(strstr(error_text(), "was lost"));
	assert_int_equal(r.vfio().queries, 1);
}

static void slow_but_alive(void **)
{
	rig r;

	r.post(1);
	wait_for_queries(&r, 3);
	r.complete();
	ok(device_alive(&r.dev));
}

/* Neither a device that makes progress nor an idle one is queried: that is a bus access. */
static void not_queried(void **)
{
	const deadline end = deadline::in_ms(300);
	rig idle, busy;

	busy.post(1);
	for (u64 beat = 1; !end.passed(); beat++) {
		store_release(&busy.record.heartbeat, decltype(busy.record.heartbeat)(beat));
		ok(device_alive(&idle.dev));
		ok(device_alive(&busy.dev));
	}
	assert_int_equal(idle.vfio().queries + busy.vfio().queries, 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(lost_without_notification),
		cmocka_unit_test(slow_but_alive),
		cmocka_unit_test(not_queried),
	};

	setenv("USDMA_HANG_MS", "600000", 1);
	return cmocka_run_group_tests_name("core-silent", tests, nullptr, nullptr);
}
