/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/support/test.h"

#include "driver/copy/copy.h"
#include "driver/copy/unordered.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <vector>

using namespace usdma;

static constexpr size_t guard = 256;

/* The destination must equal the source; the random bytes before and after it must be unchanged. */
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
	check_sizes(stream_unordered(t), 3);
	copy_order();
	for (const auto &routines : {stream_routines(), fetch_routines()})
		for (const copy_routine &routine : routines) {
			print_message("%s\n", routine.name);
			check_sizes(routine.copy, 6);
		}
	check_sizes([](void *d, const void *s, size_t n) { copy_bytes(copy_for_cpu(), d, s, n); }, 4);
	check_sizes([](void *d, const void *s, size_t n) { copy_bytes(copy_for_cpu(), d, s, n, cache_hint::keep); }, 5);
}

static void routine_by_size(void **)
{
	const copy_tuning &t = copy_for_cpu();
	std::vector<u8> src(16 * KiB, 1);

	assert_true(copy_pick(t, 100, src.data(), 100, cache_hint::none) == t.medium);
	assert_true(copy_pick(t, ~u64(0), src.data(), src.size(), cache_hint::none) == t.stream);
	assert_true(copy_pick(t, ~u64(0), src.data(), src.size(), cache_hint::keep) == t.fetch);
}

static void is_one_of(std::span<const copy_routine> routines, copy_fn taken, const char *name)
{
	const auto named = [=](const copy_routine &w) { return w.copy == taken && !strcmp(w.name, name); };

	if (routines.empty())
		assert_string_equal(name, "memmove");
	else
		assert_int_equal(std::count_if(routines.begin(), routines.end(), named), 1);
}

/* The routine follows the setting; nothing is timed, so repeated calls return the same. */
static void chosen_by_cpu_or_setting(void **)
{
	const copy_rows all[] = {copy_rows::automatic, copy_rows::one, copy_rows::two, copy_rows::four};
	const char *names[] = {nullptr, "AVX2 non-temporal", "AVX2 non-temporal, two pages at once",
			       "four pages at once"};

	for (size_t i = 0; i < std::size(all); i++) {
		const copy_tuning &t = copy_for_cpu(all[i]);

		is_one_of(stream_routines(), t.stream, t.stream_name);
		is_one_of(fetch_routines(), t.fetch, t.fetch_name);
		if (names[i] && !stream_routines().empty())
			assert_non_null(strstr(t.stream_name, names[i]));
		check_sizes(t.stream, 7);
	}
	assert_ptr_equal(&copy_for_cpu(), &copy_for_cpu(copy_rows::automatic));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(every_size_and_alignment),
		cmocka_unit_test(routine_by_size),
		cmocka_unit_test(chosen_by_cpu_or_setting),
	};

	return cmocka_run_group_tests_name("copy", tests, nullptr, nullptr);
}
