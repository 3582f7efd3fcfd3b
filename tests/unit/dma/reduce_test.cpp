/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions and 16-bit floats, against references with a different algorithm. */
#include "tests/support/test.h"

#include "driver/dma/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace usdma;
using namespace usdma::dma;

/* The value of a small float, from its definition. */
static double value_of(u32 bits, int exp_bits, int man_bits)
{
	const int bias = (1 << (exp_bits - 1)) - 1;
	const int exp = int(bits >> man_bits & ((1u << exp_bits) - 1));
	const double man = double(bits & ((1u << man_bits) - 1)), one = double(1 << man_bits);
	const double sign = bits >> (exp_bits + man_bits) & 1 ? -1 : 1;

	if (exp == (1 << exp_bits) - 1)
		return man != 0 ? std::numeric_limits<double>::quiet_NaN() :
				  sign * std::numeric_limits<double>::infinity();
	return exp ? sign * std::ldexp(1 + man / one, exp - bias) : sign * std::ldexp(man / one, 1 - bias);
}

struct small_float {
	int exp_bits, man_bits;
	u16 (*from)(float);
	float (*to)(u16);
};

static constexpr small_float half = {5, 10, f16_from_f32, f32_from_f16};
static constexpr small_float brain = {8, 7, bf16_from_f32, f32_from_bf16};

static void check_every_value(const small_float &f)
{
	for (u32 b = 0; b < 65536; b++) {
		const double want = value_of(b, f.exp_bits, f.man_bits);
		const float got = f.to(u16(b));

		if (std::isnan(want)) {
			assert_true(std::isnan(got));
			assert_true(std::isnan(f.to(f.from(got))));
			continue;
		}
		assert_true(double(got) == want && std::signbit(got) == std::signbit(want));
		assert_int_equal(f.from(got), b);
	}
}

/* Rounding between each two adjacent values: below, at and above the middle. */
static void check_rounding(const small_float &f)
{
	const u32 inf = u32((1 << f.exp_bits) - 1) << f.man_bits;

	for (u32 b = 0; b + 1 < inf; b++) {
		const double low = value_of(b, f.exp_bits, f.man_bits), high = value_of(b + 1, f.exp_bits, f.man_bits);
		const float mid = float((low + high) / 2);

		assert_true(double(mid) == (low + high) / 2);
		assert_int_equal(f.from(mid), b & 1 ? b + 1 : b);
		assert_int_equal(f.from(std::nextafterf(mid, 0)), b);
		assert_int_equal(f.from(std::nextafterf(mid, INFINITY)), b + 1);
		assert_int_equal(f.from(-mid), (b & 1 ? b + 1 : b) | 0x8000);
	}
	assert_int_equal(f.from(INFINITY), inf);
	assert_int_equal(f.from(-INFINITY), inf | 0x8000);
	assert_int_equal(f.from(std::numeric_limits<float>::max()), inf);
}

static void test_half(void **)
{
	check_every_value(half);
	check_rounding(half);
	assert_int_equal(f16_from_f32(65519.996f), 0x7bff);
	assert_int_equal(f16_from_f32(65520.0f), 0x7c00);
}

static void test_brain(void **)
{
	check_every_value(brain);
	check_rounding(brain);
}

template <class T> static T reference(reduce_op op, T a, T b)
{
	const bool nan = a != a || b != b;

	switch (op) {
	case reduce_op::sum:
		if constexpr (std::is_integral_v<T>)
			return T(std::uintmax_t(a) + std::uintmax_t(b));
		else
			return a + b;
	case reduce_op::prod:
		if constexpr (std::is_integral_v<T>)
			return T(std::uintmax_t(a) * std::uintmax_t(b));
		else
			return a * b;
	case reduce_op::max:
		return nan ? std::numeric_limits<T>::quiet_NaN() : a > b ? a : b;
	case reduce_op::min:
		return nan ? std::numeric_limits<T>::quiet_NaN() : a < b ? a : b;
	case reduce_op::equal:
		return T(!nan && a == b);
	}
	return T();
}

template <class T> static void check_type(element e, std::mt19937_64 &gen)
{
	static constexpr reduce_op ops[] = {reduce_op::sum, reduce_op::max, reduce_op::min, reduce_op::equal,
					    reduce_op::prod};
	std::vector<T> a(1000), b(1000), out;

	for (reduce_op op : ops) {
		test::fill_random(a.data(), a.size() * sizeof(T), gen);
		test::fill_random(b.data(), b.size() * sizeof(T), gen);
		for (size_t i = 0; i < 100; i++)
			b[i] = a[i];
		out = a;
		const reduce_fn f = find_reduction(dma::reduce_arg(e, op));
		assert_non_null(f);
		f(out.data(), b.data(), out.size() * sizeof(T));
		for (size_t i = 0; i < a.size(); i++) {
			const T want = reference(op, a[i], b[i]);

			if (want != want)
				assert_true(out[i] != out[i]);
			else
				assert_true(out[i] == want);
		}
	}
}

static void test_types(void **)
{
	auto gen = test::rng(7);

	check_type<std::int8_t>(element::i8, gen);
	check_type<std::int16_t>(element::i16, gen);
	check_type<std::int32_t>(element::i32, gen);
	check_type<std::int64_t>(element::i64, gen);
	check_type<std::uint8_t>(element::u8, gen);
	check_type<std::uint16_t>(element::u16, gen);
	check_type<std::uint32_t>(element::u32, gen);
	check_type<std::uint64_t>(element::u64, gen);
	check_type<float>(element::f32, gen);
	check_type<double>(element::f64, gen);
}

/* Checks that got is the nearest small float to the exact sum: the adjacent values are not nearer. */
static void check_nearest(const small_float &f, u16 got, double exact)
{
	const double value = value_of(got, f.exp_bits, f.man_bits);
	const u16 below = (got & 0x7fff) ? u16(got - 1) : u16(got ^ 0x8001), above = u16(got + 1);

	for (u16 other : {below, above}) {
		const double neighbour = value_of(other, f.exp_bits, f.man_bits);

		if (!std::isfinite(neighbour) || !std::isfinite(value))
			continue;
		assert_true(std::fabs(exact - value) <= std::fabs(exact - neighbour));
		if (std::fabs(exact - value) == std::fabs(exact - neighbour))
			assert_int_equal(got & 1, 0);
	}
}

static void check_small(const small_float &f, element e, std::mt19937_64 &gen)
{
	const reduce_fn sum = find_reduction(dma::reduce_arg(e, reduce_op::sum));
	const reduce_fn max = find_reduction(dma::reduce_arg(e, reduce_op::max));
	const reduce_fn eq = find_reduction(dma::reduce_arg(e, reduce_op::equal));

	for (unsigned i = 0; i < 50000; i++) {
		const u16 a = u16(gen()), b = i % 3 ? u16(a + gen() % 4096) : u16(gen());
		const double x = f.to(a), y = f.to(b);
		u16 s = a, m = a, q = a;

		sum(&s, &b, 2);
		max(&m, &b, 2);
		eq(&q, &b, 2);
		assert_true(f.to(q) == (x == y ? 1.0f : 0.0f));
		if (std::isnan(x) || std::isnan(y)) {
			assert_true(std::isnan(f.to(s)) && std::isnan(f.to(m)));
			continue;
		}
		assert_true(double(f.to(m)) == (x > y ? x : y));
		/* Only if the exact sum is a double, which it is not for very different exponents. */
		if (std::isfinite(x + y) && std::isfinite(f.to(s)) && (x + y) - x == y && (x + y) - y == x)
			check_nearest(f, s, x + y);
	}
}

static void test_small_sums(void **)
{
	auto gen = test::rng(8);

	check_small(half, element::f16, gen);
	check_small(brain, element::bf16, gen);
}

static void test_unknown(void **)
{
	assert_null(find_reduction(u8(element::count)));
	assert_null(find_reduction(0xf));
	assert_null(find_reduction(5 << 4));
	assert_null(find_reduction(0xff));
}

int main()
{
	const CMUnitTest tests[] = {cmocka_unit_test(test_half), cmocka_unit_test(test_brain),
				    cmocka_unit_test(test_types), cmocka_unit_test(test_small_sums),
				    cmocka_unit_test(test_unknown)};

	return cmocka_run_group_tests_name("reduce", tests, nullptr, nullptr);
}
