/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In the virtual machine: a copy that makes no progress on kernel VFIO.  Each of
 * edu's transfers takes 100 ms; USDMA_HANG_MS is less, so that the first one is
 * taken for a hang.  edu has no channel reset and cannot continue after a reset of
 * the device, so the library gives it up: it resets the device during the
 * transfer, or disables bus mastering if VFIO cannot reset it.
 * Run as: vm-reset resets|stays (whether VFIO can reset the device of USDMA_DEVICES).
 */
#include "lib/core/copy/copy.h"
#include "tests/support/core.h"
#include "tests/support/level.h"

#include <cstdlib>
#include <cstring>
#include <poll.h>

using namespace usdma;
using namespace usdma::core;
using test::ptr;
using test::soon;

static constexpr u64 size = 32 * KiB;
static constexpr u8 mark = 0x77;

static bool can_reset;

static bool is_bus_master(device *dev)
{
	u16 command = 0;

	ok(vfio::config_read16(dev->eng->transport(), 4, &command));
	return command & 4;
}

struct fixture {
	device *dev = nullptr;
	stream *s = nullptr;
	u8 *host = nullptr;
	u64 mem = 0;
};

static void make(fixture *t)
{
	ok(device_get(0, &t->dev));
	ok(stream_create(t->dev, {}, &t->s));
	ok(host_alloc(size, -1, reinterpret_cast<void **>(&t->host)));
	ok(device_alloc(t->dev, size, page_policy::normal_only, &t->mem));
}

static void unmake(fixture *t)
{
	stream_destroy(t->s);
	ok(host_free(t->host));
	ok(device_free(t->mem));
	device_put(t->dev);
}

/* Waits long enough for a device that still runs to write. */
static void wait_for_transfers()
{
	poll(nullptr, 0, 500);
}

static void vfio_reset_succeeds_or_is_refused(void **)
{
	fixture t;

	make(&t);
	const int err = t.dev->eng->transport().reset();
	assert_int_equal(err, can_reset ? 0 : -EOPNOTSUPP);
	assert_true(can_reset || strstr(error_text(), "cannot be reset by itself"));
	unmake(&t);
}

static void lost_during_a_copy(void **)
{
	fixture t;

	make(&t);
	assert_true(is_bus_master(t.dev));
	ok(copy_async(t.s, t.host, ptr(t.mem), size));
	assert_int_equal(stream_sync(t.s, soon()), -ENODEV);
	assert_non_null(strstr(error_text(), "resets did not help"));
	/* The device does not write into the memory any more. */
	assert_false(is_bus_master(t.dev));
	memset(t.host, mark, size);
	wait_for_transfers();
	for (u64 i = 0; i < size; i++)
		assert_int_equal(t.host[i], mark);
	assert_int_equal(copy_async(t.s, t.host, ptr(t.mem), 64) || stream_sync(t.s, soon()), true);
	unmake(&t);
}

/* The device opens again in the same process, without leaks of the first time. */
static void opens_again(void **)
{
	const test::level before;

	lost_during_a_copy(nullptr);
	assert_string_equal(test::leak_report(before, test::level()), "");
}

int main(int argc, char **argv)
{
	const CMUnitTest tests[] = {cmocka_unit_test(vfio_reset_succeeds_or_is_refused),
				    cmocka_unit_test(lost_during_a_copy), cmocka_unit_test(opens_again)};

	if (argc != 2)
		return 2;
	can_reset = !strcmp(argv[1], "resets");
	setenv("USDMA_HANG_MS", "30", 1);
	setenv("USDMA_TEST_LEND_MEMORY", "1", 1); /* edu's own memory is too small for several transfers */
	setenv("USDMA_POOL_SIZE", "8M", 1);
	setenv("USDMA_TEST_HOST_ARENA", "1M", 1);
	return cmocka_run_group_tests_name("vm-reset", tests, nullptr, nullptr);
}
