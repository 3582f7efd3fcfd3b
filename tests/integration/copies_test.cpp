/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random copies, compared with a model: every block has a copy in plain memory, each
 * copy is repeated there by memmove, and after a wait both must be equal.
 */
#include "tests/integration/native.h"
#include "tests/support/far.h"
#include "tests/support/held_memory.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace usdma::test;

static constexpr size_t MiB = 1 << 20;
static const auto os_page = size_t(sysconf(_SC_PAGESIZE));

struct twin {
	block real;
	std::vector<unsigned char> model;

	twin(usdma_device *dev, kind k, size_t size) : real(dev, k, size), model(size) {}
};

/* Fills the block and its model with the same random bytes. */
static void fill_twin(usdma_device *dev, twin &t, std::mt19937_64 &gen)
{
	fill_random(t.model.data(), t.model.size(), gen);
	if (t.real.what() == kind::device)
		WORKS(usdma_copy_sync(dev, t.real.data(), t.model.data(), t.model.size(), long_ms));
	else
		memcpy(t.real.data(), t.model.data(), t.model.size());
}

static void compare_twin(usdma_device *dev, const twin &t)
{
	std::vector<unsigned char> seen(t.real.what() == kind::device ? t.model.size() : 0);
	const unsigned char *have = t.real.data();

	if (!seen.empty()) {
		WORKS(usdma_copy_sync(dev, seen.data(), t.real.data(), seen.size(), long_ms));
		have = seen.data();
	}
	if (!memcmp(have, t.model.data(), t.model.size()))
		return;
	const auto differ = std::mismatch(t.model.begin(), t.model.end(), have);
	print_error("%s block differs first at byte %td\n", name_of(t.real.what()), differ.first - t.model.begin());
	_fail(__FILE__, __LINE__);
}

/* Small sizes, sizes around powers of two, and sizes up to `most`. */
static size_t random_size(std::mt19937_64 &gen, size_t most)
{
	const size_t shift = gen() % 27;

	switch (gen() % 4) {
	case 0:
		return std::min<size_t>(gen() % 65, most);
	case 1:
		return std::min<size_t>((size_t(1) << shift) + gen() % 3 - 1, most);
	case 2:
		return std::min<size_t>(gen() % (64 * 1024), most);
	default:
		return gen() % (most + 1);
	}
}

/* One copy between two blocks, within [low, low + space) of each. */
static void copy_one(usdma_stream *s, twin &to, twin &from, size_t low, size_t space, std::mt19937_64 &gen)
{
	const size_t len = random_size(gen, space);
	const size_t dst = low + gen() % (space - len + 1), src = low + gen() % (space - len + 1);

	if (&to == &from && dst < src + len && src < dst + len)
		return; /* the result of an overlapping copy is undefined */
	WORKS(usdma_copy(s, to.real.data() + dst, from.real.data() + src, len));
	memmove(to.model.data() + dst, from.model.data() + src, len);
}

static std::vector<twin> make_twins(usdma_device *dev, std::initializer_list<kind> kinds, size_t size,
				    std::mt19937_64 &gen)
{
	std::vector<twin> all;

	for (const kind k : kinds)
		all.emplace_back(dev, k, size);
	for (twin &t : all)
		fill_twin(dev, t, gen);
	return all;
}

/* Several streams at once, each in its own slice of the same blocks: only the order within a stream matters. */
static void streams_over_shared_blocks(void **)
{
	static constexpr size_t streams = 6;
	const size_t slice = sized(by_messages(MiB), 64);
	auto gen = rng(1);
	device dev;
	auto all = make_twins(dev, {kind::device, kind::device, kind::pinned, kind::registered, kind::pageable},
			      slice * streams, gen);
	std::vector<stream> work;

	for (size_t i = 0; i < streams; i++)
		work.emplace_back(dev, uint32_t(i % 4));
	for (unsigned n = 0; n < sized(1500, 300) * scale(); n++) {
		const size_t index = gen() % streams;
		twin &to = all[gen() % all.size()], &from = all[gen() % all.size()];

		copy_one(work[index], to, from, index * slice, slice, gen);
		if (gen() % 200 == 0)
			WORKS(usdma_stream_sync(work[gen() % streams], long_ms));
	}
	WORKS(usdma_device_sync(dev, long_ms));
	for (twin &t : all)
		compare_twin(dev, t);
	for (const stream &s : work)
		WORKS(usdma_stream_sync(s, 0));
}

/* Each direction with each kind of host memory, up to 64 MiB (8 by messages or staged), any alignment. */
static void each_direction_to_64_mib(void **)
{
	const size_t most = sized(by_messages(64 * MiB), 1024), shift = sized(4096, 64), size = most + shift;
	auto gen = rng(2);
	device dev;
	stream s(dev);

	twin mem(dev, kind::device, size);
	fill_twin(dev, mem, gen);
	for (const kind k : all_kinds) {
		twin other(dev, k, size);
		twin *const all[] = {&mem, &other};

		fill_twin(dev, other, gen);
		for (const size_t len : {size_t(0), size_t(1), most / 64 + 1, most - 1, most}) {
			const size_t a = gen() % shift, b = gen() % shift;

			for (int back = 0; back < 2; back++) {
				WORKS(usdma_copy(s, all[!back]->real.data() + a, all[back]->real.data() + b, len));
				memmove(all[!back]->model.data() + a, all[back]->model.data() + b, len);
			}
		}
		WORKS(usdma_stream_sync(s, long_ms));
		compare_twin(dev, mem);
		compare_twin(dev, other);
	}
}

static void synchronous_copies(void **)
{
	const size_t size = sized(by_messages(4 * MiB), 1024);
	auto gen = rng(3);
	device dev;
	auto all = make_twins(dev, {kind::device, kind::device, kind::pinned, kind::registered, kind::pageable}, size,
			      gen);

	for (unsigned n = 0; n < sized(300, 100) * scale(); n++) {
		twin &to = all[gen() % all.size()], &from = all[gen() % all.size()];
		const size_t len = random_size(gen, size), dst = gen() % (size - len + 1),
			     src = gen() % (size - len + 1);

		if (&to == &from)
			continue;
		WORKS(usdma_copy_sync(dev, to.real.data() + dst, from.real.data() + src, len, long_ms));
		memmove(to.model.data() + dst, from.model.data() + src, len);
	}
	for (twin &t : all)
		compare_twin(dev, t);
}

static void batches(void **)
{
	const size_t size = sized(by_messages(4 * MiB), 2048), items = sized(by_messages(4096), 64),
		     step = size / items;
	auto gen = rng(4);
	device dev;
	stream s(dev);
	auto all = make_twins(dev, {kind::device, kind::pinned, kind::registered, kind::pageable}, size, gen);

	for (unsigned round = 0; round < 12 * scale(); round++) {
		twin &host = all[1 + gen() % 3], &to = round % 2 ? host : all[0], &from = round % 2 ? all[0] : host;
		std::vector<usdma_copy_item> list;
		size_t done = 0;

		for (size_t i = 0; i < items; i++) { /* each piece of the target once, from anywhere */
			const size_t len = 1 + gen() % step, src = gen() % (size - len + 1);

			list.push_back({to.real.data() + i * step, from.real.data() + src, len});
			memmove(to.model.data() + i * step, from.model.data() + src, len);
		}
		WORKS(usdma_copy_batch(s, list.data(), list.size(), &done));
		assert_int_equal(done, items);
	}
	WORKS(usdma_stream_sync(s, long_ms));
	for (twin &t : all)
		compare_twin(dev, t);
}

/* Items that continue the one before in both ranges, of which some copy what that one writes. */
static void items_that_continue_each_other(void **)
{
	const size_t size = sized(by_messages(MiB), 2048), most = sized(4096, 64);
	auto gen = rng(8);
	device dev;
	stream s(dev);
	auto all = make_twins(dev, {kind::device, kind::pinned}, size, gen);

	for (unsigned round = 0; round < 60 * scale(); round++) {
		twin &to = all[gen() % 2], &from = all[gen() % 2];
		std::vector<usdma_copy_item> list;
		size_t dst = 0, src = 0, len = 0, done = 0;

		for (unsigned i = 0; i < 300; i++) {
			dst += len, src += len, len = 1 + gen() % most;
			if (gen() % 8 == 0 || std::max(dst, src) + len > size)
				dst = gen() % (size - 2 * len), src = gen() % 2 ? dst + len : gen() % (size - len);
			if (gen() % 8 == 0 && src + 2 * len <= size)
				dst = src + len;
			if (&to == &from && dst < src + len && src < dst + len)
				len = 0; /* the result of an overlapping copy is undefined */
			list.push_back({to.real.data() + dst, from.real.data() + src, len});
			memmove(to.model.data() + dst, from.model.data() + src, len);
		}
		WORKS(usdma_copy_batch(s, list.data(), list.size(), &done));
		assert_int_equal(done, list.size());
	}
	WORKS(usdma_stream_sync(s, long_ms));
	for (twin &t : all)
		compare_twin(dev, t);
}

static void items_that_continue_each_other_are_one_operation(void **)
{
	static constexpr size_t items = 64, each = 16;

	auto gen = rng(9);
	device dev;
	stream s(dev);
	auto all = make_twins(dev, {kind::device, kind::pinned}, items * each, gen);
	usdma_stream_stats stats = {};
	std::vector<usdma_copy_item> list;
	size_t done;

	for (size_t at = 0; at < items * each; at += each)
		list.push_back({all[0].real.data() + at, all[1].real.data() + at, each});
	WORKS(usdma_copy_batch(s, list.data(), items, &done));
	assert_int_equal(done, items);
	stats.struct_size = sizeof(stats);
	WORKS(usdma_stream_get_stats(s, &stats));
	assert_int_equal(stats.copies, 1);
	assert_int_equal(stats.bytes, items * each);
	WORKS(usdma_stream_sync(s, long_ms));
	all[0].model = all[1].model;
	compare_twin(dev, all[0]);
}

static void rectangles_and_fills(void **)
{
	const size_t size = sized(MiB, 3072), most = sized(1000, 40); /* elements of one copy or fill */
	auto gen = rng(5);
	device dev;
	stream s(dev);
	auto all = make_twins(dev, {kind::device, kind::pinned}, size, gen);

	for (unsigned n = 0; n < sized(200, 40) * scale(); n++) {
		twin &to = all[n % 2], &from = all[!(n % 2)];
		const size_t width = 1 + gen() % most, height = 1 + gen() % (most / 5), d0 = gen() % most,
			     s0 = gen() % most;
		const size_t dp = width + gen() % most, sp = width + gen() % most;
		const usdma_copy_rect r = {to.real.data() + d0, dp, from.real.data() + s0, sp, width, height};

		WORKS(usdma_copy_2d(s, &r));
		for (size_t y = 0; y < height; y++)
			memcpy(&to.model[d0 + y * dp], &from.model[s0 + y * sp], width);
		static constexpr size_t widths[] = {1, 4, 8};
		const size_t w = widths[gen() % 3], at = gen() % most * w, len = gen() % most * w;
		const uint64_t pattern = gen();
		WORKS(usdma_fill(s, to.real.data() + at, pattern, unsigned(w), len));
		for (size_t i = 0; i < len; i++)
			to.model[at + i] = static_cast<unsigned char>(pattern >> (i % w * 8));
	}
	WORKS(usdma_stream_sync(s, long_ms));
	for (twin &t : all)
		compare_twin(dev, t);
}

static void copies_beyond_a_block_are_refused(void **)
{
	device dev;
	stream s(dev);
	block mem(dev, kind::device, sized(4096, 1024)), host(dev, kind::pinned, 8192);

	assert_int_equal(usdma_copy(s, mem.data(), host.data(), 8192), -EFAULT);
	assert_int_equal(usdma_copy(s, mem.data() + mem.size() - 1, host.data(), 2), -EFAULT);
	assert_int_equal(usdma_copy(s, mem.data() + mem.size() + (1 << 30), host.data(), 64),
			 -EFAULT); /* 1 GiB behind it */
	assert_string_not_equal(usdma_error_text(), "");
}

/* A thread's cached address translations are limited to the exact block, and end with it. */
static void repeated_addresses(void **)
{
	const size_t size = sized(64 * 1024, 1024);
	auto gen = rng(6);
	device dev;
	stream s(dev);
	block mem(dev, kind::device, size), host(dev, kind::pinned, size), registered(dev, kind::pageable, size);

	WORKS(usdma_copy(s, mem.data(), host.data(), size));
	for (unsigned n = 0; n < 200 * scale(); n++) {
		const size_t at = gen() % size, left = size - at, most = size_t(1) << (gen() % 64);
		const size_t beyond = left + 1 + (gen() & (most - 1)), over = beyond > left ? beyond : left + 1;

		WORKS(usdma_copy(s, mem.data() + at, host.data() + at, left));
		assert_int_equal(usdma_copy(s, mem.data() + at, host.data(), over), -EFAULT);
		assert_int_equal(usdma_copy(s, host.data(), mem.data() + at, over), -EFAULT);
	}
	assert_int_equal(usdma_copy(s, mem.data() + 1, host.data() + 1, ~size_t(0)), -EFAULT);
	WORKS(usdma_copy(s, mem.data() + size - 1, host.data(), 0));
	for (unsigned n = 0; n < 8 * scale(); n++) {
		fill_random(registered.data(), size, gen);
		WORKS(usdma_host_register(registered.data(), size, 0));
		WORKS(usdma_copy(s, mem.data(), registered.data(), size));
		WORKS(usdma_stream_sync(s, long_ms));
		WORKS(usdma_host_unregister(registered.data()));
		/* The memory is pageable now: it was read when the call returns. */
		WORKS(usdma_copy(s, mem.data(), registered.data(), size));
		const std::vector<unsigned char> was(registered.data(), registered.data() + size);
		memset(registered.data(), 0, size);
		WORKS(usdma_copy(s, registered.data(), mem.data(), size));
		assert_memory_equal(registered.data(), was.data(), size);
		WORKS(usdma_stream_sync(s, long_ms));
	}
}

struct part {
	size_t at, len;
};

/* Copies the range to the device and back; nothing next to it changes. */
static void check_round_trip(usdma_stream *s, unsigned char *mem, unsigned char *host, size_t size, part p,
			     std::mt19937_64 &gen)
{
	std::vector<unsigned char> want(host, host + size);

	fill_random(want.data() + p.at, p.len, gen);
	memcpy(host + p.at, want.data() + p.at, p.len);
	WORKS(usdma_copy(s, mem, host + p.at, p.len));
	WORKS(usdma_stream_sync(s, long_ms));
	memset(host + p.at, 0, p.len);
	WORKS(usdma_copy(s, host + p.at, mem, p.len));
	WORKS(usdma_stream_sync(s, long_ms));
	assert_memory_equal(host, want.data(), size);
}

/* Two registered ranges in one page of the OS: each is usable while and after the other is unregistered. */
static void registered_ranges_share_a_page(void **)
{
	const size_t page = size_t(sysconf(_SC_PAGESIZE)), size = 3 * page, most = sized(2 * page, 1024);
	auto gen = rng(7);
	device dev;
	stream s(dev);
	const block mem(dev, kind::device, most);
	const std::unique_ptr<unsigned char, decltype(&free)> pages(
		static_cast<unsigned char *>(aligned_alloc(page, size)), free);
	unsigned char *const host = pages.get();

	assert_non_null(host);
	fill_random(host, size, gen);
	for (unsigned n = 0; n < 8 * scale(); n++) {
		/* Both in one page only, or each with another page. */
		const size_t meet = page + 1 + gen() % (page - 1), out = n % 2 * page;
		const size_t first = page - out + gen() % (meet - page),
			     end = 2 * page + out - gen() % (2 * page - meet);
		const part both[] = {{first, meet - first}, {meet, end - meet}};
		/* The parts next to `meet` that fit into the device block. */
		const size_t before = std::min(most, meet - first), behind = std::min(most, end - meet);
		const part moved[] = {{meet - before, before}, {meet, behind}};
		const part removed = both[n / 2 % 2], stays = moved[1 - n / 2 % 2];

		for (const part p : both)
			WORKS(usdma_host_register(host + p.at, p.len, 0));
		for (const part p : moved)
			check_round_trip(s, mem.data(), host, size, p, gen);
		const std::vector<unsigned char> want(host + stays.at, host + stays.at + stays.len);
		WORKS(usdma_copy(s, mem.data(), host + stays.at, stays.len));
		WORKS(usdma_host_unregister(host + removed.at));
		WORKS(usdma_stream_sync(s, long_ms));
		memset(host + stays.at, 0, stays.len);
		WORKS(usdma_copy(s, host + stays.at, mem.data(), stays.len));
		WORKS(usdma_stream_sync(s, long_ms));
		assert_memory_equal(host + stays.at, want.data(), stays.len);
		for (const part p : moved)
			check_round_trip(s, mem.data(), host, size, p, gen);
		WORKS(usdma_host_unregister(host + both[1 - n / 2 % 2].at));
	}
}

/* A batch that waits for a page of its array; meanwhile the memory of its first items is freed, and other memory comes.
 */
static void release_while_a_batch_is_read(usdma_device *dev, const held_memory &array, kind k)
{
	static constexpr size_t len = MiB, piece = 4096, first = 10;
	auto *const items = reinterpret_cast<usdma_copy_item *>(static_cast<char *>(array.data()) + os_page) - first;
	block src(dev, kind::pinned, len), plain(dev, kind::pageable, len);
	auto freed = std::make_unique<block>(dev, k, len);
	unsigned char *const was = freed->data();
	stream s(dev);
	size_t done = 99;
	int err = 1;

	memset(src.data(), 0xee, len);
	for (size_t i = 0; i < first; i++)
		items[i] = {was + i * 2 * piece, src.data(), piece};
	array.hold(os_page);
	/* The other items are zero. */
	std::thread caller([&] { err = usdma_copy_batch(s, items, first + 2, &done); });
	array.wait_for_access();
	if (k == kind::registered)
		WORKS(usdma_host_unregister(was));
	else
		freed.reset();
	block other(dev, k, len);
	WORKS(usdma_fill_sync(dev, other.data(), 0x11, 1, len, long_ms));
	array.release();
	caller.join();
	WORKS(usdma_stream_sync(s, long_ms));
	/* Unregistered memory is copied as such; an address of what was freed may be that of other memory. */
	assert_int_equal(err, k == kind::registered ? 0 : -EFAULT);
	assert_int_equal(done, k == kind::registered ? first + 2 : 0);
	WORKS(usdma_copy_sync(dev, plain.data(), other.data(), len, long_ms));
	assert_true(all_are(plain.data(), len, 0x11));
	if (k == kind::registered) {
		assert_true(all_are(was + 2 * piece * (first - 1), piece, 0xee));
		WORKS(usdma_host_register(was, len, 0));
	}
}

static void memory_goes_while_a_batch_is_read(void **)
{
	const held_memory array(2 * os_page);
	device dev;

	for (const kind k : {kind::registered, kind::pinned, kind::device})
		release_while_a_batch_is_read(dev, array, k);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(memory_goes_while_a_batch_is_read),
		cmocka_unit_test(streams_over_shared_blocks),
		cmocka_unit_test(each_direction_to_64_mib),
		cmocka_unit_test(synchronous_copies),
		cmocka_unit_test(batches),
		cmocka_unit_test(rectangles_and_fills),
		cmocka_unit_test(copies_beyond_a_block_are_refused),
		cmocka_unit_test(repeated_addresses),
		cmocka_unit_test(registered_ranges_share_a_page),
		cmocka_unit_test(items_that_continue_each_other),
		cmocka_unit_test(items_that_continue_each_other_are_one_operation),
	};

	return cmocka_run_group_tests_name("copies", tests, nullptr, nullptr);
}
