/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/test.h"

#include "driver/base/copy.h"

#include <algorithm>
#include <vector>

using namespace usdma;

static constexpr size_t guard = 256;

/* Random bytes on both sides of the destination must stay; all between must be the source's. */
static void check(copy_fn copy, size_t len, size_t dst_off, size_t src_off, std::mt19937_64 &gen)
{
	std::vector<u8> src(len + src_off + 64), dst(len + dst_off + 2 * guard), before;

	test::fill_random(src.data(), src.size(), gen);
	test::fill_random(dst.data(), dst.size(), gen);
	before = dst;
	u8 *to = dst.data() + guard + dst_off;
	copy(to, src.data() + src_off, len);
	if (len)
		assert_memory_equal(to, src.data() + src_off, len);
	assert_memory_equal(dst.data(), before.data(), guard + dst_off);
	assert_memory_equal(to + len, before.data() + guard + dst_off + len, guard);
}

static void check_sizes(copy_fn copy, u64 stream)
{
	auto gen = test::rng(stream);

	for (size_t len = 0; len < 1200; len++)
		check(copy, len, gen() % 64, gen() % 64, gen);
	for (size_t len : {4 * KiB, 16 * KiB, 64 * KiB, MiB})
		for (unsigned i = 0; i < 12; i++)
			check(copy, len - 130 + gen() % 260, gen() % 64, gen() % 64, gen);
}

static void every_size_and_alignment(void **)
{
	const copy_tuning &t = copy_for_cpu();

	check_sizes(t.medium, 1);
	check_sizes(t.fetch, 2);
	check_sizes(t.stream, 3);
	for (const auto &ways : {stream_ways(), fetch_ways()})
		for (const copy_way &way : ways) {
			print_message("%s\n", way.name);
			check_sizes(way.copy, 6);
		}
	check_sizes([](void *d, const void *s, size_t n) { copy_bytes(copy_for_cpu(), d, s, n); }, 4);
	check_sizes([](void *d, const void *s, size_t n) { copy_bytes(copy_for_cpu(), d, s, n, true); }, 5);
}

static void picked_by_size(void **)
{
	const copy_tuning &t = copy_for_cpu();
	std::vector<u8> near(16 * KiB, 1);

	assert_true(copy_pick(t, 100, near.data(), 100, false) == t.medium);
	assert_true(copy_pick(t, ~u64(0), near.data(), near.size(), false) == t.stream);
	assert_true(copy_pick(t, ~u64(0), near.data(), near.size(), true) == t.fetch);
}

static void is_one_of(std::span<const copy_way> ways, copy_fn taken, const char *name)
{
	const auto named = [=](const copy_way &w) { return w.copy == taken && !strcmp(w.name, name); };

	if (ways.empty())
		assert_string_equal(name, "memmove");
	else
		assert_int_equal(std::count_if(ways.begin(), ways.end(), named), 1);
}

/* Which one is the machine's affair, but it is one of them. */
static void fastest_is_one_of_them(void **)
{
	const copy_tuning &t = copy_for_cpu();

	is_one_of(stream_ways(), t.stream, t.stream_name);
	is_one_of(fetch_ways(), t.fetch, t.fetch_name);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(every_size_and_alignment),
		cmocka_unit_test(picked_by_size),
		cmocka_unit_test(fastest_is_one_of_them),
	};

	return cmocka_run_group_tests_name("copy", tests, nullptr, nullptr);
}
