/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aclrtReduceAsync: every type and operation, on small numbers, which each type represents. Rounding, NaNs and overflow
 * are in tests/unit/dma/reduce_test.cpp.
 */
#include "acl/acl.h"
#include "tests/support/test.h"

#include <algorithm>
#include <cstring>
#include <vector>

#define GOOD(call) assert_int_equal(call, 0)

using u32 = std::uint32_t;
using bytes = std::vector<unsigned char>;

struct kind_of_element {
	aclDataType type;
	size_t size;
	int least; /* of the numbers here */
};

static constexpr kind_of_element elements[] = {
	{ACL_INT8, 1, -50}, {ACL_INT16, 2, -50},   {ACL_INT32, 4, -50}, {ACL_UINT8, 1, 0},   {ACL_UINT16, 2, 0},
	{ACL_UINT32, 4, 0}, {ACL_FLOAT16, 2, -50}, {ACL_BF16, 2, -50},  {ACL_FLOAT, 4, -50},
};
static constexpr int most = 60;

/* The number's first bytes, as the type stores it. */
static u32 code(const kind_of_element &e, int v)
{
	const float f = float(v);
	u32 bits;

	memcpy(&bits, &f, 4);
	switch (e.type) {
	case ACL_FLOAT16:
		return aclFloatToFloat16(f);
	case ACL_BF16:
		return bits >> 16;
	case ACL_FLOAT:
		return bits;
	default:
		return u32(v);
	}
}

static int reference(aclrtReduceKind op, int a, int b)
{
	return op == ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM ? a + b :
	       op == ACL_RT_MEMCPY_SDMA_AUTOMATIC_MAX ? std::max(a, b) :
							std::min(a, b);
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
	/* Numbers of this type, and in device memory. */
	std::vector<int> random(const kind_of_element &e, char *to)
	{
		std::vector<int> all(size / e.size);

		for (int &v : all)
			v = e.least + int(gen() % u32(most - e.least + 1));
		const bytes b = stored(e, all);
		GOOD(aclrtMemcpy(to, size, b.data(), size, ACL_MEMCPY_HOST_TO_DEVICE));
		return all;
	}
	bytes stored(const kind_of_element &e, const std::vector<int> &all) const
	{
		bytes b(size);

		for (size_t i = 0; i < all.size(); i++) {
			const u32 v = code(e, all[i]);

			memcpy(&b[i * e.size], &v, e.size);
		}
		return b;
	}
	bytes read(const char *from) const
	{
		bytes b(size);

		GOOD(aclrtMemcpy(b.data(), size, from, size, ACL_MEMCPY_DEVICE_TO_HOST));
		return b;
	}
};

/* Reduces n elements from element `skip` on; the rest of dst and all of src must not change. */
static void reduce(setting &s, const kind_of_element &e, aclrtReduceKind op, size_t n, size_t skip)
{
	const std::vector<int> old = s.random(e, s.dst), src = s.random(e, s.src);
	std::vector<int> want = old;
	const size_t off = skip * e.size;

	GOOD(aclrtReduceAsync(s.dst + off, s.src + off, n * e.size, op, e.type, s.stream, nullptr));
	GOOD(aclrtSynchronizeStream(s.stream));
	for (size_t i = skip; i < skip + n; i++)
		want[i] = reference(op, old[i], src[i]);
	assert_true(s.read(s.src) == s.stored(e, src));
	assert_true(s.read(s.dst) == s.stored(e, want));
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
	assert_int_equal(submit(s, {ACL_INT4, 1, 0}, 0, 0, 64), 207000);
	assert_int_equal(submit(s, {ACL_DOUBLE, 8, 0}, 0, 0, 64), 100000);
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
