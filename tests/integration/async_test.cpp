/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When calls return, over a device that takes its time (the runner gives it a
 * low rate) and behind gates that only the test opens: no sleeps.
 */
#include "tests/integration/native.h"
#include "tests/support/sanitizer.h"

#include <vector>

TEST_TSAN_OPTIONS("report_thread_leaks=0")

using namespace usdma::test;

static constexpr size_t MiB = 1 << 20;

/* A word in device memory that a stream waits for until the test opens it. */
class gate {
public:
	explicit gate(usdma_device *dev) : word_(dev, kind::device, 4096), opener_(dev)
	{
		WORKS(usdma_fill_sync(dev, word_.data(), 0, 8, 4096, long_ms));
	}
	void close(usdma_stream *s) { WORKS(usdma_wait_value(s, word_.data(), USDMA_EQ, 1)); }
	void open() { WORKS(usdma_write_value(opener_, word_.data(), 1)); }

private:
	block word_;
	stream opener_;
};

static bool all_bytes(const unsigned char *p, size_t len, unsigned char want)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != want)
			return false;
	return true;
}

/*
 * The device is slow: 64 MiB take a second at least, the call a moment; one that is not is quicker than a look
 * now and then.
 */
static void pinned_copy_returns_before_the_data_is_there(void **)
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
	assert_true(pending);
}

/* The same without any speed: behind a closed gate nothing can have moved when the calls have returned. */
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
	assert_true(all_bytes(back.data(), size, 0));
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
	memset(plain.data(), 0xee, size); /* ours again: what was copied must not change */
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
	usdma_event *e;

	WORKS(usdma_event_create(dev, 0, &e));
	assert_int_equal(usdma_event_query(e), 1); /* never recorded */
	g.close(s);
	memset(host.data(), 0x11, 4096);
	WORKS(usdma_copy(s, mem.data(), host.data(), 4096));
	WORKS(usdma_event_record(e, s));
	assert_int_equal(usdma_stream_sync(s, 20), -ETIMEDOUT);
	assert_int_equal(usdma_event_sync(e, 20), -ETIMEDOUT);
	assert_int_equal(usdma_device_sync(dev, 20), -ETIMEDOUT);
	assert_int_equal(usdma_event_query(e), 0);
	g.open();
	WORKS(usdma_event_sync(e, long_ms));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_int_equal(usdma_event_query(e), 1);
	WORKS(usdma_event_destroy(e));
	assert_int_equal(usdma_event_destroy(e), -EBADF);
}

static void one_stream_waits_for_another(void **)
{
	device dev;
	gate g(dev);
	stream first(dev), second(dev);
	block a(dev, kind::pinned, 4096), b(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);
	usdma_event *e;

	WORKS(usdma_event_create(dev, USDMA_EVENT_TIMING, &e));
	memset(a.data(), 0x77, 4096);
	memset(b.data(), 0, 4096);
	g.close(first);
	WORKS(usdma_copy(first, mem.data(), a.data(), 4096));
	WORKS(usdma_event_record(e, first));
	WORKS(usdma_stream_wait_event(second, e));
	WORKS(usdma_copy(second, b.data(), mem.data(), 4096));
	assert_int_equal(usdma_stream_query(second), 0);
	g.open();
	WORKS(usdma_stream_sync(second, long_ms));
	assert_true(all_bytes(b.data(), 4096, 0x77));
	WORKS(usdma_event_destroy(e));
}

static void abort_ends_what_waits(void **)
{
	device dev;
	gate g(dev);
	usdma_stream *s;
	block host(dev, kind::pinned, 4096), mem(dev, kind::device, 4096);

	WORKS(usdma_stream_create(dev, nullptr, &s));
	g.close(s);
	WORKS(usdma_copy(s, host.data(), mem.data(), 4096));
	WORKS(usdma_stream_abort(s));
	assert_int_equal(usdma_stream_sync(s, long_ms), -ECANCELED);
	assert_int_equal(usdma_copy(s, host.data(), mem.data(), 4096), -ECANCELED);
	usdma_stream_destroy(s);
	assert_int_equal(usdma_stream_sync(s, 0), -EBADF);
}

/* The next object comes to the same place; the handle of the one before does not mean it. */
static void handles_of_what_is_gone(void **)
{
	device dev;
	usdma_stream *s, *next;
	usdma_event *e, *later;

	for (int i = 0; i < 100; i++) {
		WORKS(usdma_stream_create(dev, nullptr, &s));
		WORKS(usdma_stream_destroy(s));
		WORKS(usdma_stream_create(dev, nullptr, &next));
		WORKS(usdma_event_create(dev, 0, &e));
		WORKS(usdma_event_destroy(e));
		WORKS(usdma_event_create(dev, 0, &later));
		assert_int_equal(usdma_stream_sync(s, 0), -EBADF);
		assert_int_equal(usdma_stream_destroy(s), -EBADF);
		assert_int_equal(usdma_event_record(e, next), -EBADF);
		assert_int_equal(usdma_event_destroy(e), -EBADF);
		WORKS(usdma_event_record(later, next));
		WORKS(usdma_event_destroy(later));
		WORKS(usdma_stream_destroy(next));
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(pinned_copy_returns_before_the_data_is_there),
		cmocka_unit_test(nothing_moves_behind_a_closed_gate),
		cmocka_unit_test(pageable_copy_returns_when_it_is_done),
		cmocka_unit_test(pageable_copy_waits_for_earlier_work),
		cmocka_unit_test(a_timeout_leaves_the_work_running),
		cmocka_unit_test(one_stream_waits_for_another),
		cmocka_unit_test(abort_ends_what_waits),
		cmocka_unit_test(handles_of_what_is_gone),
	};

	return cmocka_run_group_tests_name("async", tests, nullptr, nullptr);
}
