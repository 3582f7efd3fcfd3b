/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When calls return: tests with a slow device (the runner sets a low rate) and with
 * gates that only the test opens, without sleeps.
 */
#include "tests/integration/native.h"
#include "tests/support/sanitizer.h"

#include <cstdlib>
#include <vector>

TEST_TSAN_OPTIONS("report_thread_leaks=0")

using namespace usdma::test;

static constexpr size_t MiB = 1 << 20;

/* Whether the work is not done when a copy of 64 MiB has returned. */
static bool seen_pending()
{
	const size_t size = sized(64 * MiB, MiB / 4);
	device dev;
	stream s(dev);
	block host(dev, kind::pinned, size), mem(dev, kind::device, size);
	auto gen = rng(1);

	fill_random(host.data(), size, gen);
	bool pending = false;
	for (int i = 0; i < 20 && !pending; i++) {
		WORKS(usdma_copy(s, mem.data(), host.data(), size));
		pending = usdma_stream_query(s) == 0 && usdma_stream_sync(s, 0) == -ETIMEDOUT;
		WORKS(usdma_stream_sync(s, long_ms));
		assert_int_equal(usdma_stream_query(s), 1);
	}
	return pending;
}

/*
 * With the low rate 64 MiB take at least a second, and the call must return before that.  A device without one may
 * have copied the data before each query, most of all that of a virtual machine: then the test has seen nothing.
 */
static void pinned_copy_returns_before_the_data_is_there(void **)
{
	const bool pending = seen_pending();

	if (!pending && !getenv("USDMA_TEST_RATED"))
		skip();
	assert_true(pending);
}

/* For any speed: a gated copy cannot have begun when the call returns. */
static void nothing_moves_behind_a_closed_gate(void **)
{
	const size_t size = sized(4 * MiB, MiB / 16);
	device dev;
	gate g(dev);
	stream s(dev);
	block host(dev, kind::pinned, size), back(dev, kind::pinned, size), mem(dev, kind::device, size);
	auto gen = rng(2);

	fill_random(host.data(), size, gen);
	memset(back.data(), 0, size);
	g.close(s);
	WORKS(usdma_copy(s, mem.data(), host.data(), size));
	WORKS(usdma_copy(s, back.data(), mem.data(), size));
	assert_int_equal(usdma_stream_query(s), 0);
	assert_true(all_are(back.data(), size, 0));
	g.open();
	WORKS(usdma_stream_sync(s, long_ms));
	assert_memory_equal(back.data(), host.data(), size);
}

static void pageable_copy_returns_when_it_is_done(void **)
{
	const size_t size = sized(8 * MiB, MiB / 16);
	device dev;
	stream s(dev);
	block plain(dev, kind::pageable, size), mem(dev, kind::device, size), pinned(dev, kind::pinned, size);
	std::vector<unsigned char> was(size);
	auto gen = rng(3);

	fill_random(was.data(), size, gen);
	memcpy(plain.data(), was.data(), size);
	WORKS(usdma_copy(s, mem.data(), plain.data(), size));
	assert_int_equal(usdma_stream_query(s), 1);
	memset(plain.data(), 0xee, size); /* the copied data must not change */
	WORKS(usdma_copy(s, plain.data(), mem.data(), size));
	assert_memory_equal(plain.data(), was.data(), size);
	WORKS(usdma_copy(s, pinned.data(), mem.data(), size));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_memory_equal(pinned.data(), was.data(), size);
}

static void pageable_copy_waits_for_earlier_work(void **)
{
	const size_t size = sized(8 * MiB, MiB / 16);
	device dev;
	stream s(dev);
	block pinned(dev, kind::pinned, size), mem(dev, kind::device, size), plain(dev, kind::pageable, 64);
	auto gen = rng(4);

	fill_random(pinned.data(), size, gen);
	WORKS(usdma_copy(s, mem.data(), pinned.data(), size));
	WORKS(usdma_copy(s, plain.data(), mem.data() + size - 64, 64));
	assert_memory_equal(plain.data(), pinned.data() + size - 64, 64);
	assert_int_equal(usdma_stream_query(s), 1);
}

static void a_timeout_leaves_the_work_running(void **)
{
	device dev;
	gate g(dev);
	stream s(dev);
	block host(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);
	event e(dev);

	assert_int_equal(usdma_event_query(e), 1); /* never recorded */
	g.close(s);
	memset(host.data(), 0x11, 4096);
	WORKS(usdma_copy(s, mem.data(), host.data(), 4096));
	WORKS(usdma_event_record(e, s));
	for (const int limit : {0, 20}) {
		assert_int_equal(usdma_stream_sync(s, limit), -ETIMEDOUT);
		assert_int_equal(usdma_event_sync(e, limit), -ETIMEDOUT);
		assert_int_equal(usdma_device_sync(dev, limit), -ETIMEDOUT);
	}
	assert_int_equal(usdma_event_query(e), 0);
	g.open();
	for (const int limit : {long_ms, 0}) {
		WORKS(usdma_event_sync(e, limit));
		WORKS(usdma_stream_sync(s, limit));
		WORKS(usdma_device_sync(dev, limit));
	}
	assert_int_equal(usdma_event_query(e), 1);
}

static void abort_drops_waiting_work(void **)
{
	device dev;
	gate g(dev);
	usdma_stream *s;
	block host(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);

	WORKS(usdma_stream_create(dev, nullptr, &s));
	WORKS(usdma_fill_sync(dev, mem.data(), 0x77, 1, 4096, long_ms));
	memset(host.data(), 0x11, 4096);
	g.close(s);
	WORKS(usdma_copy(s, host.data(), mem.data(), 4096));
	WORKS(usdma_stream_abort(s));
	assert_int_equal(usdma_stream_sync(s, long_ms), -ECANCELED);
	assert_int_equal(usdma_copy(s, host.data(), mem.data(), 4096), -ECANCELED);
	assert_true(all_are(host.data(), 4096, 0x11)); /* the gated copy was dropped */
	usdma_stream_destroy(s);
	assert_int_equal(usdma_stream_sync(s, 0), -EBADF);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(pinned_copy_returns_before_the_data_is_there),
		cmocka_unit_test(nothing_moves_behind_a_closed_gate),
		cmocka_unit_test(pageable_copy_returns_when_it_is_done),
		cmocka_unit_test(pageable_copy_waits_for_earlier_work),
		cmocka_unit_test(a_timeout_leaves_the_work_running),
		cmocka_unit_test(abort_drops_waiting_work),
	};

	return cmocka_run_group_tests_name("async", tests, nullptr, nullptr);
}
