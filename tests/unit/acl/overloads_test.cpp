/* SPDX-License-Identifier: BSD-3-Clause */
/* Each overload of acl_rt_api.h, called with typed pointers, has the effect of the function that it calls. */
#include "acl/acl_rt_api.h"
#include "tests/support/test.h"

#include <cstdlib>
#include <cstring>

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr size_t count = 1024, bytes = count * sizeof(int);

namespace {

struct bench {
	aclrtStream s = nullptr;
	int *dev = nullptr, *dev2 = nullptr, *pin = nullptr, *back = nullptr;

	bench()
	{
		std::mt19937_64 gen = rng(21);

		GOOD(aclrtSetDevice(0));
		GOOD(aclrtCreateStream(&s, 0, ACL_STREAM_FAST_LAUNCH));
		GOOD(aclrtMalloc(&dev, bytes));
		GOOD(aclrtMalloc(&dev2, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
		GOOD(aclrtMallocHost(&pin, bytes));
		GOOD(aclrtMallocHost(&back, bytes, nullptr));
		fill_random(reinterpret_cast<unsigned char *>(pin), bytes, gen);
		memset(back, 0, bytes);
	}
	~bench()
	{
		GOOD(aclrtFree(dev));
		GOOD(aclrtFree(dev2));
		GOOD(aclrtFreeHost(pin));
		GOOD(aclrtFreeHost(back));
		GOOD(aclrtDestroyStream(s));
		GOOD(aclrtResetDevice(0));
	}
	bench(const bench &) = delete;
	bench &operator=(const bench &) = delete;

	void expect_copied()
	{
		assert_memory_equal(back, pin, bytes);
		memset(back, 0, bytes);
	}
};

} // namespace

/* Device memory with a configuration; another device, and a configuration
 * without attributes, are refused. */
static void test_memory(void **)
{
	bench b;
	aclrtMallocAttribute attr = {ACL_RT_MEM_ATTR_DEVICE_ID, {}}, flag = {ACL_RT_MEM_ATTR_VA_FLAG, {}};
	aclrtMallocConfig cfg = {&attr, 1}, mapped = {&flag, 1}, broken = {nullptr, 1};
	aclrtPtrAttributes where;
	float *f;
	void *plain = aligned_alloc(4096, 8192);
	auto *registered = static_cast<short *>(plain), *device = registered;

	GOOD(aclrtMalloc(&f, bytes, &cfg));
	GOOD(aclrtFree(f));
	GOOD(aclrtMalloc(&f, bytes, ACL_MEM_MALLOC_HUGE_FIRST, &cfg));
	GOOD(aclrtPointerGetAttributes(f + 1, &where));
	assert_int_equal(where.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
	GOOD(aclrtFree(f));
	GOOD(aclrtMallocAlign32(&f, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));
	GOOD(aclrtFree(f));
	attr.value.deviceId = 1;
	assert_int_equal(aclrtMalloc(&f, bytes, &cfg), 107000);
	assert_int_equal(aclrtMalloc(&f, bytes, ACL_MEM_MALLOC_HUGE_FIRST, &broken), 100000);
	assert_int_equal(aclrtMallocCached(&f, bytes, ACL_MEM_MALLOC_HUGE_FIRST), 207000);
	flag.value.vaFlag = 1;
	assert_int_equal(aclrtMallocHost(&f, bytes, &mapped), 207000);
	GOOD(aclrtHostRegister(registered, 8192, ACL_HOST_REGISTER_MAPPED, &device));
	GOOD(aclrtHostGetDevicePointer(registered, &device, 0));
	assert_non_null(device);
	GOOD(aclrtHostUnregister(registered));
	GOOD(aclrtHostRegister(registered, 8192, ACL_HOST_REG_PINNED));
	GOOD(aclrtPointerGetAttributes(registered, &where));
	assert_int_equal(where.location.type, ACL_MEM_LOCATION_TYPE_HOST);
	GOOD(aclrtHostUnregister(registered));
	free(plain);
}

static void test_copies(void **)
{
	bench b;
	const int *from = b.pin;

	GOOD(aclrtMemcpy(b.dev, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
	GOOD(aclrtMemcpyAsync(b.back, bytes, b.dev, bytes, ACL_MEMCPY_DEVICE_TO_HOST, b.s));
	GOOD(aclrtSynchronizeStream(b.s, 10000));
	b.expect_copied();
	GOOD(aclrtMemcpy2d(b.dev2, 64, from, 64, 64, bytes / 64, ACL_MEMCPY_HOST_TO_DEVICE));
	GOOD(aclrtMemcpy2dAsync(b.back, 64, b.dev2, 64, 64, bytes / 64, ACL_MEMCPY_DEVICE_TO_HOST, b.s));
	GOOD(aclrtSynchronizeDevice(10000));
	b.expect_copied();
	assert_int_equal(aclrtMemcpy(b.dev, bytes - 1, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
	assert_int_equal(aclrtSynchronizeDevice(0), 107000);
}

/* Each of the six overloads copies the halves of pin to the device or back. */
static void test_batches(void **)
{
	bench b;
	int *there[] = {b.dev, b.dev + count / 2}, *here[] = {b.pin, b.pin + count / 2};
	int *back[] = {b.back, b.back + count / 2};
	size_t sizes[] = {bytes / 2, bytes / 2}, indexes[] = {0}, fail = 7;
	aclrtMemcpyBatchAttr up = {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {}};
	aclrtMemcpyBatchAttr down = {up.srcLoc, up.dstLoc, {}};

	GOOD(aclrtMemcpyBatch(there, sizes, here, sizes, 2, up));
	GOOD(aclrtMemcpyBatch(back, sizes, there, sizes, 2, &down, indexes, 1));
	b.expect_copied();
	GOOD(aclrtMemset(b.dev, bytes, 0, bytes));
	GOOD(aclrtMemcpyBatchAsync(there, sizes, here, sizes, 2, up, b.s));
	GOOD(aclrtMemcpyBatchAsync(back, sizes, there, sizes, 2, &down, indexes, 1, b.s));
	GOOD(aclrtSynchronizeStream(b.s, -1));
	b.expect_copied();
	GOOD(aclrtMemset(b.dev, bytes, 0, bytes));
	GOOD(aclrtMemcpyBatchAsync(there, sizes, here, sizes, 2, up, &fail, b.s));
	GOOD(aclrtMemcpyBatchAsync(back, sizes, there, sizes, 2, &down, indexes, 1, &fail, b.s));
	GOOD(aclrtSynchronizeStream(b.s, -1));
	b.expect_copied();
	assert_int_equal(aclrtMemcpyBatch(there, sizes, here, sizes, 2, down, &fail), 107000);
}

static void test_streams_and_events(void **)
{
	bench b;
	aclrtEvent e;
	uint32_t ms;
	uint64_t us;

	GOOD(aclrtCreateEvent(&e, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
	for (int i = 0; i < 2; i++) { /* such an event can be recorded again */
		GOOD(aclrtRecordEvent(e, b.s));
		GOOD(aclrtStreamWaitEvent(b.s, e, 10000));
		GOOD(aclrtSynchronizeEvent(e, 10000));
	}
	GOOD(aclrtDestroyEvent(e));
	assert_int_equal(aclrtCreateEvent(&e, 0x40000000), 107000);
	GOOD(aclrtSetOpExecuteTimeOut(uint64_t(5000), &us));
	GOOD(aclrtGetOpExecuteTimeout(&ms));
	assert_int_equal(us / 1000, ms);
	GOOD(aclrtSetOpExecuteTimeOut(0));
}

/* Unsupported calls return 207000, after checking their arguments. */
static void test_refused(void **)
{
	bench b;
	int symbol = 0, *managed;
	void *at;
	size_t size, sizes[] = {8}, first[] = {0};
	const int *ptrs[] = {b.dev};
	aclrtMemManagedLocation here = {ACL_MEM_LOCATIONTYPE_DEVICE, 0};

	assert_int_equal(aclrtMemAllocManaged(&managed, 4096), 207000);
	assert_int_equal(aclrtMemAllocManaged(&managed, 4096, 7), 100000);
	assert_int_equal(aclrtMemManagedPrefetchAsync(b.dev, 8, here, 0, b.s), 207000);
	assert_int_equal(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 1, here, 0, b.s), 207000);
	assert_int_equal(aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, 1, &here, first, 1, 0, b.s), 207000);
	assert_int_equal(aclrtGetSymbolAddress(symbol, &at), 207000);
	assert_int_equal(aclrtGetSymbolSize(symbol, &size), 207000);
	assert_int_equal(aclrtMemcpyFromSymbol(b.back, 8, symbol, 8, 0, ACL_MEMCPY_DEVICE_TO_HOST), 207000);
	assert_int_equal(aclrtMemcpyFromSymbolAsync(b.back, 8, symbol, 8, 0, ACL_MEMCPY_DEVICE_TO_HOST, b.s), 207000);
	assert_int_equal(aclrtMemcpyToSymbol(symbol, b.pin, 8, 0, ACL_MEMCPY_HOST_TO_DEVICE), 207000);
	assert_int_equal(aclrtMemcpyToSymbolAsync(symbol, b.pin, 8, 0, ACL_MEMCPY_HOST_TO_DEVICE, b.s), 207000);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),  cmocka_unit_test(test_copies),
		cmocka_unit_test(test_batches), cmocka_unit_test(test_streams_and_events),
		cmocka_unit_test(test_refused),
	};

	setenv("USDMA_DEVICES", "sim:mem=64M,sim:mem=64M", 1);
	unsetenv("ASCEND_RT_VISIBLE_DEVICES");
	setenv("USDMA_LOG", "none", 1);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
