/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 10,000 streams and 100,000 registered regions, across the wrap of the ring's sequence numbers, with all data
 * compared.  USDMA_TEST_SMALL: a tenth, for sanitizers.
 */
#include "lib/core/copy/copy.h"
#include "lib/core/stream/event.h"
#include "tests/support/core.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace usdma;
using namespace usdma::core;
using usdma::test::ptr;

static constexpr u64 page = 4096;
static constexpr u64 timeout_ms = 240000; /* two slow cores need a fraction of it */

static deadline soon()
{
	return deadline::in_ms(timeout_ms);
}

static u64 many(u64 n)
{
	return test::small() ? n / 10 : n;
}

struct open_device {
	open_device() { ok(device_get(0, &dev)); }
	~open_device() { device_put(dev); }
	device *dev = nullptr;
};

struct pinned {
	explicit pinned(u64 size) { ok(host_alloc(size, -1, reinterpret_cast<void **>(&data))); }
	~pinned() { host_free(data); }
	u8 *data = nullptr;
};

struct on_device {
	on_device(device *dev, u64 size) { ok(device_alloc(dev, size, page_policy::normal_only, &at)); }
	~on_device() { device_free(at); }
	u64 at = 0;
};

/* Each stream copies its own slot in and out, all of them at the same time. */
static void streams(void **)
{
	constexpr u64 slot = 256;
	const u64 n = many(10000);
	auto gen = test::rng(1);
	open_device d;
	pinned in(n * slot), out(n * slot);
	on_device mem(d.dev, n * slot);
	std::vector<stream *> s(n);
	std::vector<u64> order(n);

	test::fill_random(in.data, n * slot, gen);
	memset(out.data, 0, n * slot);
	for (u64 i = 0; i < n; i++) {
		ok(stream_create(d.dev, {}, &s[i]));
		order[i] = i;
	}
	assert_true(stream_live() >= n);
	for (unsigned round = 0; round < 2; round++) {
		std::shuffle(order.begin(), order.end(), gen);
		for (u64 i : order) {
			ok(copy_async(s[i], ptr(mem.at + i * slot), in.data + i * slot, slot));
			ok(copy_async(s[i], out.data + i * slot, ptr(mem.at + i * slot), slot));
		}
		for (u64 i : order)
			ok(stream_sync(s[i], soon()));
		assert_memory_equal(in.data, out.data, n * slot);
		test::fill_random(in.data, n * slot, gen);
	}
	for (stream *one : s)
		ok(stream_destroy(one));
}

/* Regions of one page: copies with random ones, the first and the last, before and after half are unregistered. */
static void regions(void **)
{
	const u64 n = many(100000), probes = many(4000);
	auto gen = test::rng(2);
	open_device d;
	on_device mem(d.dev, page);
	auto *area = static_cast<u8 *>(
		mmap(nullptr, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
	stream *s;

	assert_true(area != MAP_FAILED);
	ok(stream_create(d.dev, {}, &s));
	for (u64 i = 0; i < n; i++)
		ok(host_register(area + i * page, page, 0));
	auto probe = [&](u64 from, u64 to) {
		u8 *a = area + from * page, *b = area + to * page;

		if (from == to)
			return;
		test::fill_random(a, 512, gen);
		memset(b, 0, 512);
		ok(copy_async(s, ptr(mem.at), a, 512));
		ok(copy_async(s, b, ptr(mem.at), 512));
		ok(stream_sync(s, soon()));
		assert_memory_equal(a, b, 512);
	};
	probe(0, n - 1);
	for (u64 i = 0; i < probes; i++)
		probe(gen() % n, gen() % n);
	for (u64 i = 0; i < n; i += 2)
		ok(host_unregister(area + i * page));
	/* An unregistered page is ordinary memory again, its neighbours are still registered. */
	assert_true(translate(area).cls == mem_class::unregistered);
	assert_true(translate(area + page).cls == mem_class::host);
	for (u64 i = 0; i < probes; i++)
		probe(gen() % (n / 2) * 2 + 1, gen() % (n / 2) * 2 + 1);
	for (u64 i = 1; i < n; i += 2)
		ok(host_unregister(area + i * page));
	assert_int_equal(host_unregister(area), -ENOENT);
	ok(stream_destroy(s));
	munmap(area, n * page);
}

/* The tests start below 2^32, where the low halves of the sequence numbers wrap. */
static void starts_before_the_wrap(void **)
{
	assert_true(config_get().first_seq < u64(1) << 32);
	assert_true(config_get().first_seq > (u64(1) << 32) - 1000);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(starts_before_the_wrap),
		cmocka_unit_test(streams),
		cmocka_unit_test(regions),
	};

	setenv("USDMA_DEVICES", "sim:mem=64M:engines=2:channels=8", 1);
	setenv("USDMA_TEST_FIRST_SEQ", "4294967200", 1); /* 2^32 - 96 */
	alarm(280);
	return cmocka_run_group_tests_name("scale", tests, nullptr, nullptr);
}
