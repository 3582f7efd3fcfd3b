/* SPDX-License-Identifier: BSD-3-Clause */
/* aclrtMemcpyBatch and its three variants: code, failIndex, and the data that is copied. */
#include "misuse.h"

#include <vector>

using namespace usdma::test;

namespace {

constexpr size_t untouched = 0x5a5a5a5a;

/* A valid batch of n host → device items, which a test modifies. */
struct batch {
	std::vector<void *> dst, src;
	std::vector<size_t> max, size, index;
	std::vector<aclrtMemcpyBatchAttr> attr;
	size_t fail = untouched;

	batch(fixture &f, size_t n, void *from = nullptr)
	{
		char *h = static_cast<char *>(from ? from : f.pin);

		for (size_t i = 0; i < n; i++) {
			dst.push_back(static_cast<char *>(f.dev) + i * 64);
			src.push_back(h + i * 64);
			max.push_back(64);
			size.push_back(64);
		}
		index = {0};
		attr.push_back({});
		attr[0].dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
		attr[0].srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
	}
	aclError async(aclrtStream s)
	{
		return aclrtMemcpyBatchAsync(dst.data(), max.data(), src.data(), size.data(), size.size(), attr.data(),
					     index.data(), index.size(), &fail, s);
	}
	aclError sync()
	{
		return aclrtMemcpyBatch(dst.data(), max.data(), src.data(), size.data(), size.size(), attr.data(),
					index.data(), index.size(), &fail);
	}
};

/* Both forms give this code and this failIndex. */
void expect(fixture &f, batch &b, aclError code, size_t fail)
{
	b.fail = untouched;
	assert_int_equal(b.async(f.stream), code);
	assert_int_equal(b.fail, fail);
	assert_int_equal(aclrtSynchronizeStream(f.stream), 0);
	b.fail = untouched;
	assert_int_equal(b.sync(), code);
	assert_int_equal(b.fail, fail);
}

} // namespace

static void test_arguments(void **)
{
	fixture f;
	batch b(f, 4);
	size_t zero[4] = {};

	assert_int_equal(aclrtMemcpyBatchAsync(b.dst.data(), b.max.data(), b.src.data(), b.size.data(), 4,
					       b.attr.data(), b.index.data(), 1, nullptr, f.stream),
			 100000);
	assert_int_equal(aclrtMemcpyBatchAsync(b.dst.data(), b.max.data(), b.src.data(), nullptr, 4, b.attr.data(),
					       b.index.data(), 1, &b.fail, f.stream),
			 100000);
	assert_int_equal(aclrtMemcpyBatch(b.dst.data(), b.max.data(), b.src.data(), b.size.data(), 0, b.attr.data(),
					  b.index.data(), 1, &b.fail),
			 100000);
	assert_int_equal(b.fail, SIZE_MAX);
	/* If all sizes are 0, the other pointers are not checked. */
	assert_int_equal(
		aclrtMemcpyBatchAsync(nullptr, nullptr, nullptr, zero, 4, nullptr, nullptr, 0, &b.fail, nullptr), 0);
	assert_int_equal(b.fail, SIZE_MAX);
	b.fail = untouched;
	for (int i = 0; i < 5; i++)
		assert_int_equal(aclrtMemcpyBatchAsync(i == 0 ? nullptr : b.dst.data(), i == 1 ? nullptr : b.max.data(),
						       i == 2 ? nullptr : b.src.data(), b.size.data(), 4,
						       i == 3 ? nullptr : b.attr.data(),
						       i == 4 ? nullptr : b.index.data(), 1, &b.fail, f.stream),
				 100000);
	assert_int_equal(b.fail, SIZE_MAX);
	b.max[2] = 63;
	expect(f, b, 100000, SIZE_MAX);
	b.max[2] = 64;
	b.attr[0].rsv[15] = 1;
	expect(f, b, 100000, SIZE_MAX);
	b.attr[0].rsv[15] = 0;
	expect(f, b, 0, SIZE_MAX);
}

static void test_indexes(void **)
{
	fixture f;
	batch b(f, 4);
	const std::vector<std::vector<size_t>> bad = {{1}, {0, 0}, {0, 2, 1}, {0, 4}, {0, 1, 2, 3, 3}};

	b.attr.resize(5, b.attr[0]);
	for (const auto &index : bad) {
		b.index = index;
		expect(f, b, 107000, SIZE_MAX);
	}
	b.index = {0}; /* and no attribute at all */
	b.fail = untouched;
	assert_int_equal(aclrtMemcpyBatchAsync(b.dst.data(), b.max.data(), b.src.data(), b.size.data(), 4,
					       b.attr.data(), b.index.data(), 0, &b.fail, f.stream),
			 107000);
	assert_int_equal(b.fail, SIZE_MAX);
	b.index = {0, 1, 3};
	expect(f, b, 0, SIZE_MAX);
}

static void test_sync_limit(void **)
{
	fixture f;
	batch b(f, 1);

	for (auto *v : {&b.dst, &b.src})
		v->resize(4097, (*v)[0]);
	b.max.resize(4097, 64);
	b.size.resize(4097, 64);
	assert_int_equal(b.sync(), 107000);
	assert_int_equal(b.fail, SIZE_MAX);
	assert_int_equal(b.async(f.stream), 0);
	assert_int_equal(aclrtSynchronizeStream(f.stream), 0);
	for (auto *v : {&b.dst, &b.src})
		v->resize(4096);
	b.size.resize(4096);
	assert_int_equal(b.sync(), 0);
}

/* Nothing is copied before the bad item is found. */
static void test_sync_item_too_long(void **)
{
	fixture f;
	batch b(f, 3);
	char first = 0;

	memset(f.pin, 7, 3 * 64);
	assert_int_equal(aclrtMemset(f.dev, 64, 1, 64), 0);
	b.size[2] = b.max[2] = size_t(1) << 30;
	assert_int_equal(b.sync(), 107000);
	assert_int_equal(b.fail, 2);
	assert_int_equal(aclrtMemcpy(&first, 1, f.dev, 1, ACL_MEMCPY_DEVICE_TO_HOST), 0);
	assert_int_equal(first, 1);
}

static void test_items(void **)
{
	fixture f;
	struct {
		void *dst, *src;
		aclrtMemLocation to, from;
		aclError code;
	} const rows[] = {
		{f.dev, f.pin, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {7, ACL_MEM_LOCATION_TYPE_HOST}, 0},
		{f.dev, f.pin, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, 107000},
		{f.dev, f.pin, {0, ACL_MEM_LOCATION_TYPE_HOST}, {0, ACL_MEM_LOCATION_TYPE_HOST}, 107000},
		{f.dev, f.pin, {1, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, 107000},
		{f.dev, f.pin, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_UNREGISTERED}, 107000},
		{f.dev, f.dev2, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, 107000},
		{f.pin, f.pin2, {0, ACL_MEM_LOCATION_TYPE_HOST}, {0, ACL_MEM_LOCATION_TYPE_HOST}, 107000},
		{f.pin, f.dev, {0, ACL_MEM_LOCATION_TYPE_HOST}, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, 0},
		{f.dev, f.heap, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, 0},
		{f.dev, nullptr, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, 107000},
		{f.lost, f.pin, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, 507899},
	};

	for (size_t at : {0, 3, 40})
		for (const auto &r : rows) {
			batch b(f, 64);

			b.dst[at] = r.dst;
			b.src[at] = r.src;
			b.attr.resize(64, b.attr[0]);
			b.index.clear();
			for (size_t i = 0; i < 64; i++)
				b.index.push_back(i);
			b.attr[at].dstLoc = r.to;
			b.attr[at].srcLoc = r.from;
			expect(f, b, r.code, r.code ? at : SIZE_MAX);
		}
}

/* An empty item is an error in the asynchronous form only. */
static void test_empty_item(void **)
{
	fixture f;
	batch b(f, 3);

	b.size[1] = 0;
	assert_int_equal(b.async(f.stream), 107000);
	assert_int_equal(b.fail, 1);
	assert_int_equal(aclrtSynchronizeStream(f.stream), 0);
	assert_int_equal(b.sync(), 0);
	assert_int_equal(b.fail, SIZE_MAX);
}

static void test_streams(void **)
{
	fixture f;
	batch b(f, 3);
	aclError alone = 0;

	assert_int_equal(b.async(f.dead_stream), 107017);
	assert_int_equal(b.fail, SIZE_MAX);
	assert_int_equal(b.async(f.foreign), 107003);
	assert_int_equal(b.fail, SIZE_MAX);
	std::thread([&] { alone = b.async(nullptr); }).join();
	assert_int_equal(alone, 107002);
	assert_int_equal(b.fail, SIZE_MAX);
	std::thread([&] { alone = b.sync(); }).join();
	assert_int_equal(alone, 107002);
	assert_int_equal(b.async(nullptr), 0);
	assert_int_equal(aclrtSynchronizeStream(nullptr), 0);
}

static void expect_bytes(fixture &f, const char *want, size_t len)
{
	std::vector<char> got(block);

	assert_int_equal(aclrtMemcpy(got.data(), block, f.dev, block, ACL_MEMCPY_DEVICE_TO_HOST), 0);
	assert_memory_equal(got.data(), want, len);
	for (size_t i = len; i < 600 * 64; i++)
		assert_int_equal(got[i], 0);
}

/*
 * Items before the invalid one are copied, later ones are not; from pinned and from pageable memory. The synchronous
 * form checks all of them before it copies.
 */
static void test_data(void **)
{
	fixture f;
	auto gen = rng(3);

	for (int pageable = 0; pageable < 2; pageable++) {
		char *from = static_cast<char *>(pageable ? f.heap : f.pin);
		batch b(f, 600, from);

		fill_random(from, block, gen);
		assert_int_equal(aclrtMemset(f.dev, block, 0, block), 0);
		b.src[500] = nullptr;
		assert_int_equal(b.sync(), 107000);
		assert_int_equal(b.fail, 500);
		expect_bytes(f, from, 0);
		assert_int_equal(b.async(f.stream), 107000);
		assert_int_equal(b.fail, 500);
		assert_int_equal(aclrtSynchronizeStream(f.stream), 0);
		expect_bytes(f, from, 500 * 64);
	}
}

static void test_v2(void **)
{
	fixture f;
	batch b(f, 8);

	b.attr.resize(9, b.attr[0]);
	assert_int_equal(aclrtMemcpyBatchV2(b.dst.data(), b.max.data(), b.src.data(), b.size.data(), 8, b.attr.data(),
					    b.index.data(), 1),
			 0);
	assert_int_equal(aclrtMemcpyBatchAsyncV2(b.dst.data(), b.max.data(), b.src.data(), b.size.data(), 8,
						 b.attr.data(), b.index.data(), 1, f.stream),
			 0);
	assert_int_equal(aclrtMemcpyBatchAsyncV2(b.dst.data(), b.max.data(), b.src.data(), b.size.data(), 8,
						 b.attr.data(), b.index.data(), 9, f.stream),
			 107000);
	assert_int_equal(aclrtMemcpyBatchV2(b.dst.data(), b.max.data(), b.src.data(), nullptr, 8, b.attr.data(),
					    b.index.data(), 1),
			 100000);
	assert_int_equal(aclrtSynchronizeStream(f.stream), 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments),  cmocka_unit_test(test_indexes),
		cmocka_unit_test(test_sync_limit), cmocka_unit_test(test_sync_item_too_long),
		cmocka_unit_test(test_items),      cmocka_unit_test(test_empty_item),
		cmocka_unit_test(test_streams),    cmocka_unit_test(test_data),
		cmocka_unit_test(test_v2),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
