/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many of everything, over the wrap of the ring's numbers, with the data looked
 * at: 10,000 streams, 100,000 registered regions, and a mixed load whose length
 * USDMA_TEST_SCALE multiplies (1: seconds; 2000: hours) or USDMA_TEST_SECONDS
 * says.  USDMA_TEST_SMALL: a tenth, for sanitizers.
 */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "lib/core/copy/copy.h"
#include "lib/core/stream/event.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace usdma;
using namespace usdma::core;

#define ok(call)                                                                                                       \
	do {                                                                                                           \
		const int err_ = (call);                                                                               \
		if (err_)                                                                                              \
			print_error("%s: %d (%s)\n", #call, err_, error_text());                                       \
		assert_int_equal(err_, 0);                                                                             \
	} while (0)

static constexpr u64 page = 4096;
static constexpr u64 longest = 240000; /* ms: a machine of two slow cores needs a fraction */

static void *ptr(u64 a)
{
	return reinterpret_cast<void *>(a);
}

static deadline soon()
{
	return deadline::in_ms(longest);
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

/* Each stream carries a slot of its own in and out again, all of them at the same time. */
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

/*
 * A region a page; random ones of them, first and last included, take part in copies, before and after half of
 * them went.
 */
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
	/* A page that went is ordinary memory again, its neighbours still are not. */
	assert_true(locate(area).cls == mem_class::unregistered);
	assert_true(locate(area + page).cls == mem_class::host);
	for (u64 i = 0; i < probes; i++)
		probe(gen() % (n / 2) * 2 + 1, gen() % (n / 2) * 2 + 1);
	for (u64 i = 1; i < n; i += 2)
		ok(host_unregister(area + i * page));
	assert_int_equal(host_unregister(area), -ENOENT);
	ok(stream_destroy(s));
	munmap(area, n * page);
}

/* ---- mixed load ---------------------------------------------------------------------------------------- */

/* Memory of one class, and what must be in it. */
struct place_of {
	u8 *host = nullptr; /* where the CPU reads it; nullptr: device memory */
	u64 at = 0;
	std::vector<u8> want;
};

static constexpr u64 block = 256 * KiB;

struct load {
	explicit load(device *dv)
		: dev(dv), pin(block), mem(dv, block), mem2(dv, block), plain(block), own(block + page)
	{
		own_at = reinterpret_cast<u8 *>(align_up(reinterpret_cast<u64>(own.data()), page));
		ok(host_register(own_at, block, 0));
		ok(stream_create(dev, {}, &s));
		add(pin.data);
		add(own_at);
		add(plain.data());
		add(nullptr, mem.at);
		add(nullptr, mem2.at);
	}
	~load()
	{
		stream_destroy(s);
		host_unregister(own_at);
	}
	load(const load &) = delete;
	load &operator=(const load &) = delete;

	void add(u8 *host, u64 at = 0)
	{
		place_of &p = places.emplace_back();

		p.host = host;
		p.at = host ? reinterpret_cast<u64>(host) : at;
		p.want.assign(block, 0);
		if (host)
			memset(host, 0, block);
		else
			ok(fill_sync(dev, ptr(at), 0, 1, block, soon()));
	}

	device *dev;
	pinned pin;
	on_device mem, mem2;
	std::vector<u8> plain, own;
	u8 *own_at;
	stream *s = nullptr;
	std::vector<place_of> places;
};

static u64 some_length(std::mt19937_64 &gen)
{
	const u64 most = u64(1) << gen() % 18;

	return 1 + gen() % most;
}

static void one_copy(load &l, std::mt19937_64 &gen)
{
	place_of &from = l.places[gen() % l.places.size()], &to = l.places[3 + gen() % 2];
	place_of &src = gen() & 1 ? from : to, &dst = gen() & 1 ? to : l.places[gen() % l.places.size()];
	const u64 len = some_length(gen), a = gen() % (block - len + 1), b = gen() % (block - len + 1);

	/* The stream moves between memory of which one side at least is a device's, and not onto itself. */
	if (&src == &dst || (src.host && dst.host))
		return;
	ok(copy_async(l.s, ptr(dst.at + b), ptr(src.at + a), len));
	memcpy(dst.want.data() + b, src.want.data() + a, len);
}

static void one_fill(load &l, std::mt19937_64 &gen)
{
	place_of &dst = l.places[3 + gen() % 2];
	const u64 len = some_length(gen), b = gen() % (block - len + 1);
	const u8 v = u8(gen());

	ok(fill_async(l.s, ptr(dst.at + b), v, 1, len));
	memset(dst.want.data() + b, v, len);
}

/* New bytes from the CPU: what the stream has before it must have ended. */
static void one_write(load &l, std::mt19937_64 &gen)
{
	place_of &dst = l.places[gen() % 3];
	const u64 len = some_length(gen), b = gen() % (block - len + 1);

	ok(stream_sync(l.s, soon()));
	test::fill_random(dst.host + b, len, gen);
	memcpy(dst.want.data() + b, dst.host + b, len);
}

static void check(load &l)
{
	std::vector<u8> got(block);

	ok(stream_sync(l.s, soon()));
	for (place_of &p : l.places) {
		if (!p.host)
			ok(copy_sync(l.dev, got.data(), ptr(p.at), block, soon()));
		assert_memory_equal(p.host ? p.host : got.data(), p.want.data(), block);
	}
}

static void mixed_load(void **)
{
	const u64 rounds = many(40) * test::scale();
	auto gen = test::rng(3);
	open_device d;
	load l(d.dev);
	u64 operations = 0;
	test::soak by_clock("mixed-load");

	for (u64 round = 0; test::soak::wanted() ? !by_clock.over(operations) : round < rounds; round++) {
		for (unsigned i = 0; i < 200; i++, operations++) {
			const u64 what = gen() % 8;

			if (what == 0)
				one_write(l, gen);
			else if (what == 1)
				one_fill(l, gen);
			else
				one_copy(l, gen);
		}
		check(l);
		/* The alarm is against a hang, not against a long run. */
		alarm(280);
	}
	if (test::soak::wanted())
		by_clock.finish(operations);
	fprintf(stderr, "# %llu operations, all bytes looked at\n", static_cast<unsigned long long>(operations));
}

/* All of it crossed 2^32, where the low halves of the sequence numbers begin again. */
static void was_near_the_wrap(void **)
{
	assert_true(config_get().first_seq < u64(1) << 32);
	assert_true(config_get().first_seq > (u64(1) << 32) - 1000);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(was_near_the_wrap),
		cmocka_unit_test(mixed_load),
		cmocka_unit_test(streams),
		cmocka_unit_test(regions),
	};

	setenv("USDMA_DEVICES", "sim:mem=64M:engines=2:channels=8", 1);
	setenv("USDMA_FIRST_SEQ", "4294967200", 1); /* 2^32 - 96 */
	alarm(280);
	return cmocka_run_group_tests_name("scale", tests, nullptr, nullptr);
}
