/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aclrtReduceAsync, compared with a reference implementation: every type and
 * operation on random bits, which include infinities, NaNs and subnormals.  The
 * reference rounds 16-bit floats by a search for the nearest of all values.
 */
#include "acl/acl.h"
#include "tests/support/test.h"

#include <cmath>
#include <cstring>
#include <vector>

#define GOOD(call) assert_int_equal(call, 0)

using u32 = std::uint32_t;
using bytes = std::vector<unsigned char>;

struct kind_of_element {
	aclDataType type;
	size_t size;
};

static constexpr kind_of_element elements[] = {
	{ACL_INT8, 1},   {ACL_INT16, 2},   {ACL_INT32, 4}, {ACL_UINT8, 1}, {ACL_UINT16, 2},
	{ACL_UINT32, 4}, {ACL_FLOAT16, 2}, {ACL_BF16, 2},  {ACL_FLOAT, 4},
};

static bool is_float(aclDataType t)
{
	return t == ACL_FLOAT16 || t == ACL_BF16 || t == ACL_FLOAT;
}

static double f16_value(u32 bits)
{
	const int exponent = int(bits >> 10 & 31);
	const double fraction = bits & 1023;
	const double v = exponent == 31 ? (fraction > 0 ? NAN : INFINITY) :
			 exponent       ? std::ldexp(1024 + fraction, exponent - 25) :
					  std::ldexp(fraction, -24);

	return bits & 0x8000 ? -v : v;
}

static double f32_value(u32 bits)
{
	float f;

	memcpy(&f, &bits, 4);
	return double(f);
}

static double value(aclDataType t, u32 bits)
{
	switch (t) {
	case ACL_INT8:
		return double(std::int8_t(bits));
	case ACL_INT16:
		return double(std::int16_t(bits));
	case ACL_INT32:
		return double(std::int32_t(bits));
	case ACL_FLOAT16:
		return f16_value(bits);
	case ACL_BF16:
		return f32_value(bits << 16);
	case ACL_FLOAT:
		return f32_value(bits);
	default:
		return double(bits);
	}
}

/* The 16-bit code nearest to v (ties to even); v is no NaN. */
static u32 nearest(aclDataType t, double v)
{
	const u32 sign = std::signbit(v) ? 0x8000 : 0, inf = t == ACL_FLOAT16 ? 0x7c00 : 0x7f80;
	u32 low = 0, high = inf;

	v = std::fabs(v);
	if (std::isinf(v))
		return sign | inf;
	while (high - low > 1) {
		const u32 mid = (low + high) / 2;

		(value(t, mid) <= v ? low : high) = mid;
	}
	const double above = high == inf ? std::ldexp(1, t == ACL_FLOAT16 ? 16 : 128) : value(t, high);
	const double down = v - value(t, low), up = above - v;
	return sign | (down < up || (down == up && low % 2 == 0) ? low : high);
}

static u32 sum_of(const kind_of_element &e, u32 a, u32 b)
{
	const double v = value(e.type, a) + value(e.type, b);
	const float f = float(v);
	u32 bits;

	if (!is_float(e.type))
		return e.size == 4 ? a + b : (a + b) & ((1u << 8 * e.size) - 1);
	if (e.type != ACL_FLOAT)
		return std::isnan(v) ? 0x7fff : nearest(e.type, v);
	memcpy(&bits, &f, 4);
	return bits;
}

static u32 reference(const kind_of_element &e, aclrtReduceKind op, u32 a, u32 b)
{
	const double x = value(e.type, a), y = value(e.type, b);

	if (op == ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM)
		return sum_of(e, a, b);
	if (std::isnan(x) || std::isnan(y))
		return std::isnan(x) ? a : b;
	return (op == ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX) == (x < y) ? b : a;
}

/* All NaNs are equal; the sign of a zero is compared for sums only. */
static bool same(const kind_of_element &e, aclrtReduceKind op, u32 got, u32 want)
{
	const double x = value(e.type, got), y = value(e.type, want);

	if (got == want || (std::isnan(x) && std::isnan(y)))
		return true;
	return op != ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM && x == 0 && y == 0;
}

static u32 element(const bytes &b, size_t i, size_t n)
{
	u32 v = 0;

	memcpy(&v, &b[i * n], n);
	return v;
}

struct setting {
	const size_t size = usdma::test::sized(1 << 16, 1 << 13);
	std::mt19937_64 gen = usdma::test::rng(1);
	aclrtStream stream = nullptr;
	char *dst = nullptr, *src = nullptr;

	setting()
	{
		GOOD(aclrtSetDevice(0));
		GOOD(aclrtCreateStream(&stream));
		GOOD(aclrtMalloc(reinterpret_cast<void **>(&dst), size, ACL_MEM_MALLOC_HUGE_FIRST));
		GOOD(aclrtMalloc(reinterpret_cast<void **>(&src), size, ACL_MEM_MALLOC_HUGE_FIRST));
	}
	~setting()
	{
		GOOD(aclrtDestroyStream(stream));
		GOOD(aclrtFree(dst));
		GOOD(aclrtFree(src));
		GOOD(aclrtResetDevice(0));
	}
	setting(const setting &) = delete;
	setting &operator=(const setting &) = delete;
	bytes random(char *to)
	{
		bytes b(size);

		usdma::test::fill_random(b.data(), size, gen);
		GOOD(aclrtMemcpy(to, size, b.data(), size, ACL_MEMCPY_HOST_TO_DEVICE));
		return b;
	}
};

/* Reduces n elements from element `skip` on; the rest of dst and all of src must not change. */
static void reduce(setting &s, const kind_of_element &e, aclrtReduceKind op, size_t n, size_t skip)
{
	const bytes old = s.random(s.dst), src = s.random(s.src);
	const size_t off = skip * e.size;
	bytes got(s.size), after(s.size);

	GOOD(aclrtReduceAsync(s.dst + off, s.src + off, n * e.size, op, e.type, s.stream, nullptr));
	GOOD(aclrtSynchronizeStream(s.stream));
	GOOD(aclrtMemcpy(got.data(), s.size, s.dst, s.size, ACL_MEMCPY_DEVICE_TO_HOST));
	GOOD(aclrtMemcpy(after.data(), s.size, s.src, s.size, ACL_MEMCPY_DEVICE_TO_HOST));
	assert_memory_equal(after.data(), src.data(), s.size);
	for (size_t i = 0; i < s.size / e.size; i++) {
		const u32 a = element(old, i, e.size), b = element(src, i, e.size), c = element(got, i, e.size);
		const bool within = i >= skip && i < skip + n;
		const u32 want = within ? reference(e, op, a, b) : a;

		if (within ? same(e, op, c, want) : c == want)
			continue;
		print_error("type %d op %d element %zu of %zu: 0x%x, 0x%x gives 0x%x, not 0x%x\n", e.type, op, i, n, a,
			    b, c, want);
		assert_true(false);
	}
}

static void test_results(void **)
{
	setting s;

	for (const auto &e : elements)
		for (aclrtReduceKind op : {ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX,
					   ACL_RT_MEMCPY_SDMA_AUTOMATIC_MIN}) {
			reduce(s, e, op, s.size / e.size - 1, 1);
			for (size_t n : {1, 3, 7, 1001})
				reduce(s, e, op, n, 5);
		}
}

static aclError submit(setting &s, const kind_of_element &e, size_t dst, size_t src, size_t count,
		       aclrtReduceKind op = ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM)
{
	return aclrtReduceAsync(s.dst + dst, s.src + src, count, op, e.type, s.stream, nullptr);
}

static void test_codes(void **)
{
	setting s;
	void *pinned;

	GOOD(aclrtMallocHost(&pinned, 4096));
	for (const auto &e : elements) {
		for (size_t off = 1; off < e.size; off++) {
			assert_int_equal(submit(s, e, off, 0, e.size), 107008);
			assert_int_equal(submit(s, e, 0, off, e.size), 107008);
		}
		if (e.size > 1) /* a part of an element */
			assert_int_equal(submit(s, e, 0, 0, e.size * 3 - 1), 107000);
		assert_int_equal(submit(s, e, 0, 0, 0), 107000);
		assert_int_equal(submit(s, e, 0, 0, e.size, aclrtReduceKind(9)), 107000);
		assert_int_equal(submit(s, e, 0, 0, e.size, aclrtReduceKind(14)), 107000);
		assert_int_equal(submit(s, e, 0, 0, size_t(1) << 40), 107000);
		assert_int_equal(aclrtReduceAsync(pinned, s.src, 64, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, e.type, s.stream,
						  nullptr),
				 107000);
		assert_int_equal(aclrtReduceAsync(nullptr, s.src, 64, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, e.type,
						  s.stream, nullptr),
				 100000);
	}
	assert_int_equal(submit(s, {ACL_INT4, 1}, 0, 0, 64), 207000);
	assert_int_equal(submit(s, {ACL_DOUBLE, 8}, 0, 0, 64), 100000);
	GOOD(aclrtSynchronizeStream(s.stream));
	GOOD(aclrtFreeHost(pinned));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_codes),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
