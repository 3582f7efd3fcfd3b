/* SPDX-License-Identifier: BSD-3-Clause */
/* A host function is refused if its thread cannot be started, and the stream is unchanged. */
#include "driver/base/error.h"
#include "lib/core/stream/stream.h"
#include "tests/fault/failing.h"
#include "tests/support/core.h"

#include <atomic>

using namespace usdma;
using namespace usdma::core;
using namespace test::failing;

static constexpr u64 timeout_ms = 20000;

static void count(void *arg)
{
	++*static_cast<std::atomic<int> *>(arg);
}

static void refused_then_called(void **)
{
	std::atomic<int> runs{0};
	stream_options opt;
	device *dev;
	stream *s;

	assert_int_equal(device_get(0, &dev), 0);
	assert_int_equal(stream_create(dev, opt, &s), 0);
	for (const bool hold : {false, true}) {
		arm(call::thread, 1);
		assert_int_equal(stream_host_func(s, count, &runs, hold), -EAGAIN);
		disarm();
		assert_non_null(strstr(error_text(), "thread"));
	}
	assert_int_equal(stream_sync(s, deadline::in_ms(timeout_ms)), 0);
	assert_int_equal(runs, 0);
	assert_int_equal(stream_host_func(s, count, &runs, true), 0);
	assert_int_equal(stream_sync(s, deadline::in_ms(timeout_ms)), 0);
	assert_int_equal(runs, 1);
	assert_int_equal(stream_destroy(s), 0);
	device_put(dev);
}

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(refused_then_called)};

	return cmocka_run_group_tests_name("no thread", tests, nullptr, nullptr);
}
