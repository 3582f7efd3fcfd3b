/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous copies that are spread over a device's engines (setting "stripe"): the data, and waits for them.
 * Test copies-striped checks their order.
 */
#include "driver/base/barrier.h"
#include "lib/core/copy/copy.h"
#include "lib/core/stream/event.h"
#include "lib/core/info.h"
#include "lib/core/stream/stream.h"
#include "tests/support/core.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using usdma::test::ptr;
using usdma::test::soon;

static constexpr u64 size = 3 * MiB, guard = 4 * KiB;
static device *dev, *peer;

static int open_devices(void **)
{
	ok(device_get(0, &dev));
	ok(device_get(1, &peer));
	return 0;
}

static int close_devices(void **)
{
	device_put(peer);
	device_put(dev);
	return 0;
}

struct memories {
	u8 *a, *b;
	u64 d, e, p;

	memories()
	{
		ok(host_alloc(size + 2 * guard, -1, reinterpret_cast<void **>(&a)));
		ok(host_alloc(size + 2 * guard, -1, reinterpret_cast<void **>(&b)));
		for (u64 *at : {&d, &e})
			ok(device_alloc(dev, size + 2 * guard, page_policy::huge_first, at));
		ok(device_alloc(peer, size + 2 * guard, page_policy::huge_first, &p));
	}
	~memories()
	{
		ok(host_free(a));
		ok(host_free(b));
		for (u64 at : {d, e, p})
			ok(device_free(at));
	}
};

static stream *new_stream(int wait = -1)
{
	stream_options opt;
	stream *s;

	opt.wait = wait;
	ok(stream_create(dev, opt, &s));
	return s;
}

/* Number of requests that were executed by rings other than the first. */
static u64 requests_on_other_rings()
{
	u64 sum = 0;

	for (const auto &l : dev->hw_queues)
		for (u32 k = 1; l && k < l->ch->n_rings; k++)
			sum += dma::completed(l->ch->rings[k]);
	return sum;
}

/* ---- data -------------------------------------------------------------------------------------------- */

/* Any length and alignment, from host over both devices to host; memory next to the data is not changed. */
static void any_size(void **)
{
	auto gen = test::rng(1);
	memories m;
	stream *s = new_stream();

	for (int i = 0; i < 40; i++) {
		const u64 len = i % 2 ? 1 + gen() % size : 256 * KiB + gen() % 5, x = gen() % guard, y = gen() % guard,
			  z = gen() % guard;
		const u64 before = requests_on_other_rings();

		test::fill_random(m.a, size + 2 * guard, gen);
		memset(m.b, 0x5a, size + 2 * guard);
		ok(copy_async(s, ptr(m.d + y), m.a + x, len));
		ok(copy_async(s, ptr(m.e + x), ptr(m.d + y), len));
		ok(copy_async(s, ptr(m.p + z), ptr(m.e + x), len));
		ok(copy_async(s, m.b + y, ptr(m.p + z), len));
		ok(stream_sync(s, soon()));
		assert_memory_equal(m.a + x, m.b + y, len);
		for (u64 k = 0; k < size + 2 * guard; k++)
			if (k < y || k >= y + len)
				assert_int_equal(m.b[k], 0x5a);
		assert_true(len < 256 * KiB || requests_on_other_rings() > before);
	}
	ok(stream_destroy(s));
}

static void in_a_batch(void **)
{
	auto gen = test::rng(3);
	memories m;
	stream *s = new_stream();
	const copy_item in[] = {{ptr(m.d), m.a, 100},
				{ptr(m.d + 100), m.a + 100, MiB},
				{ptr(m.d + 100 + MiB), m.a + 100 + MiB, 7},
				{ptr(m.d + 107 + MiB), m.a + 107 + MiB, MiB}};
	size_t done;

	test::fill_random(m.a, size, gen);
	const u64 before = requests_on_other_rings();
	ok(copy_submit(s, in, 4, nullptr, &done));
	assert_int_equal(done, 4);
	ok(copy_async(s, m.b, ptr(m.d), 107 + 2 * MiB));
	ok(stream_sync(s, soon()));
	assert_memory_equal(m.a, m.b, 107 + 2 * MiB);
	assert_true(requests_on_other_rings() - before >= 2 * 3);
	ok(stream_destroy(s));
}

/* ---- waits for striped copies --------------------------------------------------------------------------- */

/* An event after a copy covers all its parts, for a stream and for each kind of wait by the host. */
static void events_cover_all_parts(void **)
{
	auto gen = test::rng(4);
	memories m;
	stream *s = new_stream(), *t = new_stream();
	event *e;

	ok(event_create(dev, event_timing, &e));
	for (int i = 0; i < 30; i++) {
		test::fill_random(m.a, size, gen);
		ok(copy_async(s, ptr(m.d), m.a, size));
		ok(event_record(e, s));
		ok(stream_wait_event(t, e, deadline::never()));
		ok(copy_async(t, m.b, ptr(m.d), size));
		if (i % 3 == 0)
			ok(stream_sync(t, soon()));
		else if (i % 3 == 1)
			while (stream_query(t) == 1)
				;
		else {
			event *f;

			ok(event_create(dev, 0, &f));
			ok(event_record(f, t));
			ok(event_sync(f, soon()));
			ok(event_destroy(f));
		}
		assert_memory_equal(m.a, m.b, size);
		assert_int_equal(event_query(e), int(event_state::done));
	}
	ok(event_destroy(e));
	ok(stream_destroy(s));
	ok(stream_destroy(t));
}

struct snapshot {
	const u8 *at;
	std::vector<u8> seen;
	std::atomic<bool> made{false};
};

static void save_snapshot(void *arg)
{
	auto *s = static_cast<snapshot *>(arg);

	s->seen.assign(s->at, s->at + size);
	s->made = true;
}

/* Copies after a wait are posted by the progress thread; a later callback sees all their data. */
static void copies_after_a_wait(void **)
{
	auto gen = test::rng(5);
	memories m;
	stream *s = new_stream();
	u64 word = 0;
	snapshot shot{m.b, {}};
	const u64 before = requests_on_other_rings();

	test::fill_random(m.a, size, gen);
	memset(m.b, 0, size);
	ok(stream_wait_word(s, &word, dma::compare::eq, 1, deadline::never()));
	ok(copy_async(s, ptr(m.d), m.a, size));
	ok(copy_async(s, m.b, ptr(m.d), size));
	ok(stream_host_func(s, save_snapshot, &shot, true));
	ok(fill_async(s, m.b, 0, 1, size));
	assert_int_equal(stream_query(s), 1);
	assert_int_equal(m.b[size - 1], 0);
	store_release(&word, u64(1));
	ok(stream_sync(s, soon()));
	assert_true(shot.made);
	assert_memory_equal(shot.seen.data(), m.a, size);
	assert_true(requests_on_other_rings() > before);
	ok(stream_destroy(s));
}

/* The first stream's copies wait in the rings for values that follow the second stream's copies: no deadlock. */
static void streams_wait_for_each_other(void **)
{
	memories m;
	stream *s = new_stream(), *t = new_stream();
	u64 cell;

	ok(device_alloc(dev, 64, page_policy::normal_only, &cell));
	for (u64 i = 1; i < 20; i++) {
		const u64 old = i - 1;

		if (i == 1)
			ok(copy_sync(dev, ptr(cell), &old, 8, soon()));
		ok(wait_value_async(s, ptr(cell), dma::compare::geq, i));
		ok(copy_async(s, ptr(m.d), m.a, size));
		ok(copy_async(t, ptr(m.e), m.b, size));
		ok(write_value_async(t, ptr(cell), i));
		ok(copy_async(t, ptr(m.e), m.b, size));
	}
	ok(stream_sync(t, soon()));
	ok(stream_sync(s, soon()));
	ok(device_free(cell));
	ok(stream_destroy(s));
	ok(stream_destroy(t));
}

/* Memory is freed while copies run: it is not reused before their last part has ended. */
static void freed_during_copies(void **)
{
	memories m;
	stream *s = new_stream();

	for (int i = 0; i < 30; i++) {
		u8 *h, *again;
		u64 d;

		ok(host_alloc(size, -1, reinterpret_cast<void **>(&h)));
		ok(device_alloc(dev, size, page_policy::huge_first, &d));
		memset(h, i, size);
		for (int k = 0; k < 4; k++)
			ok(copy_async(s, ptr(d), m.a, size));
		ok(copy_async(s, ptr(m.d), h, size));
		ok(host_free(h));
		ok(device_free(d));
		ok(host_alloc(size, -1, reinterpret_cast<void **>(&again)));
		memset(again, 0xff, size);
		ok(copy_async(s, m.b, ptr(m.d), size));
		ok(stream_sync(s, soon()));
		for (u64 k = 0; k < size; k += 512)
			assert_int_equal(m.b[k], i);
		assert_int_equal(again[size - 1], 0xff);
		ok(host_free(again));
	}
	ok(stream_destroy(s));
}

static void counted_once(void **)
{
	memories m;
	stream *s = new_stream();
	const device_stats before = device_stats_get(dev);

	for (int i = 0; i < 10; i++)
		ok(copy_async(s, ptr(m.d), m.a, size));
	ok(stream_sync(s, soon()));
	const device_stats after = device_stats_get(dev);
	const stream_stats own = stream_stats_get(s);
	assert_int_equal(own.copies, 10);
	assert_int_equal(own.bytes, 10 * size);
	assert_int_equal(after.copies - before.copies, 10);
	assert_int_equal(after.bytes - before.bytes, 10 * size);
	assert_int_equal(after.streams, before.streams);
	ok(stream_destroy(s));
}

/* ---- many -------------------------------------------------------------------------------------------- */

static std::atomic<u64> wrong;

static void round_trips(unsigned number, int rounds)
{
	auto gen = test::rng(100 + number);
	stream *s = new_stream(int(number % 3));
	memories m;

	for (int i = 0; i < rounds; i++) {
		const u64 len = 1 + gen() % size;

		test::fill_random(m.a, len, gen);
		ok(copy_async(s, ptr(m.d), m.a, len));
		ok(copy_async(s, ptr(m.e), ptr(m.d), len));
		ok(copy_async(s, m.b, ptr(m.e), len));
		ok(stream_sync(s, soon()));
		wrong += memcmp(m.a, m.b, len) != 0;
		if (i % 4 == 0) {
			/* Replace the stream, sometimes with unfinished work. */
			ok(copy_async(s, ptr(m.d), m.a, size));
			ok(i % 8 ? stream_destroy(s) : stream_destroy_force(s));
			s = new_stream(int(number % 3));
		}
	}
	ok(stream_destroy(s));
}

static void many_at_once(void **)
{
	std::vector<std::thread> all;

	wrong = 0;
	for (unsigned i = 0; i < 8; i++)
		all.emplace_back(round_trips, i, 12);
	for (std::thread &t : all)
		t.join();
	assert_int_equal(wrong.load(), 0);
}

/* More streams than channels, one thread. */
static void more_than_channels(void **)
{
	auto gen = test::rng(6);
	memories m;
	std::vector<stream *> all;
	const u64 n = 24, part = align_down(size / n, guard);

	test::fill_random(m.a, size, gen);
	for (u64 i = 0; i < n; i++)
		all.push_back(new_stream());
	for (int round = 0; round < 5; round++)
		for (u64 i = 0; i < n; i++) {
			ok(copy_async(all[i], ptr(m.d + i * part), m.a + i * part, part));
			ok(copy_async(all[i], m.b + i * part, ptr(m.d + i * part), part));
		}
	for (stream *s : all) {
		ok(stream_sync(s, soon()));
		ok(stream_destroy(s));
	}
	assert_memory_equal(m.a, m.b, n * part);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(more_than_channels),  cmocka_unit_test(any_size),
		cmocka_unit_test(in_a_batch),          cmocka_unit_test(events_cover_all_parts),
		cmocka_unit_test(copies_after_a_wait), cmocka_unit_test(streams_wait_for_each_other),
		cmocka_unit_test(freed_during_copies), cmocka_unit_test(counted_once),
		cmocka_unit_test(many_at_once),
	};

	return cmocka_run_group_tests_name("copies over several engines", tests, open_devices, close_devices);
}
