/* SPDX-License-Identifier: BSD-3-Clause */
/* Each row is a misuse, or a corner case of valid use, and the expected code. */
#include "misuse.h"

#include "runtime/rt.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* deprecated calls are tested too */
#pragma GCC diagnostic ignored "-Wpedantic"                /* a ?: b is: b where a gave 0 */

using namespace usdma::test;

#define GARBAGE (reinterpret_cast<void *>(0x1234567890))
#define KIND(n) static_cast<aclrtMemcpyKind>(n)

static void test_memcpy(void **)
{
	static const row rows[] = {
		ROW(0, aclrtMemcpy(nullptr, 0, nullptr, 0, KIND(99))),
		ALONE(0, aclrtMemcpy(nullptr, 0, nullptr, 0, KIND(99))),
		ROW(100000, aclrtMemcpy(nullptr, 8, f.dev, 8, ACL_MEMCPY_DEFAULT)),
		ROW(100000, aclrtMemcpy(f.dev, 8, nullptr, 8, ACL_MEMCPY_DEFAULT)),
		ROW(100000, aclrtMemcpy(f.dev, 8, f.pin, 8, KIND(6))),
		ROW(100000, aclrtMemcpy(f.dev, 8, f.pin, 8, KIND(7))),
		ROW(100000, aclrtMemcpy(f.dev, 8, f.pin, 8, KIND(-1))),
		ROW(100000, aclrtMemcpy(f.dev, 0, f.pin, 8, KIND(8))),
		ROW(107000, aclrtMemcpy(f.dev, 7, f.pin, 8, ACL_MEMCPY_HOST_TO_DEVICE)),
		ROW(107000, aclrtMemcpy(f.dev, 0, f.pin, 8, ACL_MEMCPY_HOST_TO_DEVICE)),
		ALONE(107000, aclrtMemcpy(f.dev, 0, f.pin, 8, ACL_MEMCPY_HOST_TO_DEVICE)),
		ALONE(0, aclrtMemcpy(f.dev, 8, f.dev, 8, ACL_MEMCPY_DEFAULT)),
		ALONE(107002, aclrtMemcpy(f.dev, 8, f.pin, 8, ACL_MEMCPY_HOST_TO_DEVICE)),
		ALONE(107002, aclrtMemcpy(f.dev, 8, f.pin, 8, ACL_MEMCPY_HOST_TO_DEVICE)),
		ROW(0, aclrtMemcpy(f.dev, 8, f.dev, 8, ACL_MEMCPY_HOST_TO_DEVICE)),
		ROW(0, aclrtMemcpy(f.dev, 8, f.pin, 8, ACL_MEMCPY_DEVICE_TO_HOST)),
		ROW(0, aclrtMemcpy(f.dev, 8, f.heap, 8, ACL_MEMCPY_HOST_TO_HOST)),
		ROW(0, aclrtMemcpy(f.heap2, 8, f.heap, 8, ACL_MEMCPY_DEVICE_TO_DEVICE)),
		ROW(0, aclrtMemcpy(f.pin2, 8, f.pin, 8, ACL_MEMCPY_HOST_TO_HOST)),
		ROW(0, aclrtMemcpy(f.dev, 8, f.heap, 8, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)),
		ROW(0, aclrtMemcpy(f.dev2, block, f.dev, block, ACL_MEMCPY_DEFAULT)),
		ROW(107000, aclrtMemcpy(f.heap + 4, 64, f.heap, 64, ACL_MEMCPY_HOST_TO_HOST)),
		ROW(0, aclrtMemcpy(f.heap + 64, 64, f.heap, 64, ACL_MEMCPY_HOST_TO_HOST)),
		ROW(107000, aclrtMemcpy(f.lost, 8, f.heap, 8, ACL_MEMCPY_DEFAULT)),
		ROW(107000, aclrtMemcpy(f.pin, 8, f.lost, 8, ACL_MEMCPY_DEFAULT)),
	};

	run_rows(rows, true);
}

#define ASYNC(dst, max, src, n, kind, stream)                                                                          \
	aclrtMemcpyAsync(dst, max, src, n, static_cast<aclrtMemcpyKind>(kind), stream)

static void test_memcpy_async_checks(void **)
{
	static const row rows[] = {
		ALONE(0, ASYNC(nullptr, 0, nullptr, 0, 99, GARBAGE)),
		ROW(100000, ASYNC(nullptr, 8, f.pin, 8, 1, GARBAGE)),
		ROW(100000, ASYNC(f.dev, 8, nullptr, 8, 1, GARBAGE)),
		ROW(100000, ASYNC(f.dev, 8, f.pin, 8, 6, GARBAGE)),
		ROW(100000, ASYNC(f.dev, 8, f.pin, 8, 7, GARBAGE)),
		ROW(107017, ASYNC(f.dev, 0, f.pin, 8, 1, GARBAGE)),
		ROW(107017, ASYNC(f.dev, 8, f.pin, 8, 1, f.dead_stream)),
		ROW(107017, ASYNC(f.dev, 8, f.pin, 8, 1, f.event)),
		ROW(107000, ASYNC(f.dev, 7, f.pin, 8, 1, f.stream)),
		ALONE(107000, ASYNC(f.dev, 7, f.pin, 8, 1, f.stream)),
		ALONE(107002, ASYNC(f.dev, 8, f.pin, 8, 1, f.stream)),
		ALONE(107002, ASYNC(f.dev, 8, f.pin, 8, 1, nullptr)),
		ROW(107000, ASYNC(f.pin, 8, f.heap, 8, 5, f.stream)),
		ROW(107000, ASYNC(f.dev, 8, f.dev2, 8, 5, f.stream)),
		ROW(107003, ASYNC(f.dev, 8, f.pin, 8, 1, f.foreign)),
		ROW(0, ASYNC(f.dev, 8, f.dev, 8, 1, f.foreign)),
		ROW(0, ASYNC(f.dev, 8, f.pin, 8, 1, nullptr)),
		ROW(507899, ASYNC(f.lost, 8, f.pin, 8, 1, f.stream)),
		ROW(507899, ASYNC(f.pin, 8, f.lost, 8, 2, f.stream)),
		ROW(507899, ASYNC(f.lost, 8, f.heap, 8, 1, f.stream)),
		ROW(0, rtMemcpyAsyncWithoutCheckKind(f.dev, 8, f.dev2, 8, RT_MEMCPY_MANAGED, f.stream)),
		ROW(107000, rtMemcpyAsyncWithoutCheckKind(f.dev, 7, f.dev2, 8, RT_MEMCPY_DEFAULT, f.stream)),
		ROW(100000, aclrtMemcpyAsyncWithCondition(f.dev, 8, f.pin, 8, KIND(6), f.stream)),
		ROW(0, aclrtMemcpyAsyncWithCondition(f.dev, 8, f.pin, 8, KIND(1), f.stream)),
	};

	run_rows(rows, true);
}

/* Every pair of classes with every kind. */
static void test_memcpy_async_kinds(void **)
{
	fixture f;
	struct memory {
		const char *name;
		void *dst, *src;
	} memories[] = {{"device", f.dev, f.dev2}, {"host", f.pin, f.pin2}, {"pageable", f.heap, f.heap2}};
	/* [source][destination][kind 0 ... 4] */
	static const aclError want[3][3][5] = {
		{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {107000, 107000, 0, 0, 0}},
		{{0, 0, 0, 0, 0}, {207000, 207000, 207000, 207000, 207000}, {207000, 0, 107000, 107000, 207000}},
		{{107000, 0, 107000, 0, 0}, {207000, 107000, 0, 107000, 207000}, {207000, 0, 0, 0, 207000}},
	};

	for (int s = 0; s < 3; s++)
		for (int d = 0; d < 3; d++)
			for (int k = 0; k < 5; k++) {
				const aclError got = ASYNC(memories[d].dst, 256, memories[s].src, 256, k, f.stream);

				if (got != want[s][d][k])
					print_error("%s to %s, kind %d: %d\n", memories[s].name, memories[d].name, k,
						    got);
				assert_int_equal(got, want[s][d][k]);
				assert_int_equal(aclrtSynchronizeStream(f.stream), 0);
			}
}

static void test_memory(void **)
{
	static void *p;
	static size_t a, b;
	static aclrtPtrAttributes attr;
	static aclrtMallocAttribute module = {ACL_RT_MEM_ATTR_MODULE_ID, {3}}, va = {ACL_RT_MEM_ATTR_VA_FLAG, {1}};
	static aclrtMallocConfig good = {&module, 1}, none = {nullptr, 1}, flag = {&va, 1};
	static const row rows[] = {
		ROW(100000, aclrtMalloc(nullptr, 8, ACL_MEM_MALLOC_HUGE_FIRST)),
		ROW(100000, aclrtMalloc(&p, 0, ACL_MEM_MALLOC_HUGE_FIRST)),
		ROW(100000, aclrtMalloc(&p, ~size_t(0) - 10, ACL_MEM_MALLOC_HUGE_FIRST)),
		ROW(207001, aclrtMalloc(&p, size_t(1) << 45, ACL_MEM_MALLOC_HUGE_FIRST)),
		ALONE(107002, aclrtMalloc(&p, 8, ACL_MEM_MALLOC_HUGE_FIRST)),
		ROW(207000, aclrtMallocCached(&p, 8, ACL_MEM_MALLOC_HUGE_ONLY)),
		ROW(100000, aclrtMallocWithCfg(&p, 8, ACL_MEM_MALLOC_HUGE_FIRST, &none)),
		ROW(107000, aclrtMallocWithCfg(&p, 8, ACL_MEM_MALLOC_HUGE_FIRST, &flag)),
		ROW(0, aclrtMallocWithCfg(&p, 8, ACL_MEM_TYPE_HIGH_BAND_WIDTH, &good) ?: aclrtFree(p)),
		ROW(0,
		    aclrtMallocForTaskScheduler(&p, 8, static_cast<aclrtMemMallocPolicy>(77), nullptr) ?: aclrtFree(p)),
		ROW(0, aclrtMallocAlign32(&p, 1, ACL_MEM_MALLOC_NORMAL_ONLY) ?: aclrtFree(p)),
		ROW(107000, aclrtFree(p)),
		ROW(100000, aclrtFree(nullptr)),
		ROW(107000, aclrtFree(static_cast<char *>(f.dev) + 512)),
		ROW(107000, aclrtFree(f.heap)),
		ROW(107000, aclrtFree(f.lost)),
		ROW(100000, aclrtMallocHost(nullptr, 8)),
		ROW(100000, aclrtMallocHost(&p, 0)),
		ALONE(107002, aclrtMallocHost(&p, 8)),
		ROW(207000, aclrtMallocHostWithCfg(&p, 8, &flag)),
		ROW(0, aclrtMallocHostWithCfg(&p, 8, &good) ?: aclrtFreeHost(p)),
		ROW(107000, aclrtFreeHost(p)),
		ROW(100000, aclrtFreeHost(nullptr)),
		ROW(107000, aclrtFreeHost(f.dev)),
		ROW(107000, aclrtFreeHost(f.heap)),
		ROW(100000, aclrtGetMemInfo(ACL_HBM_MEM, nullptr, &b)),
		ROW(107016, aclrtGetMemInfo(static_cast<aclrtMemAttr>(18), &a, &b)),
		ROW(107016, aclrtGetMemInfo(static_cast<aclrtMemAttr>(-1), &a, &b)),
		ALONE(107002, aclrtGetMemInfo(ACL_HBM_MEM, &a, &b)),
		ROW(0, aclrtGetMemInfo(ACL_HBM_MEM, &a, &b)),
		ROW(100000, aclrtPointerGetAttributes(nullptr, &attr)),
		ROW(100000, aclrtPointerGetAttributes(f.dev, nullptr)),
		ROW(507899, aclrtPointerGetAttributes(f.lost, &attr)),
		ROW(100000, aclrtMemGetAddressRange(nullptr, &p, &a)),
		ROW(107000, aclrtMemGetAddressRange(f.dev, nullptr, nullptr)),
		ROW(0, aclrtMemGetAddressRange(f.dev, &p, nullptr)),
		ROW(107000, aclrtMemGetAddressRange(f.heap, &p, &a)),
		ROW(100000, aclrtMemFlush(nullptr, 8)),
		ROW(100000, aclrtMemInvalidate(f.dev, 0)),
		ROW(0, aclrtMemFlush(f.dev, 8)),
		ROW(100000, aclrtMemAllocManaged(&p, 8, 0)),
		ROW(107000, aclrtMemAllocManaged(&p, 0, 1)),
		ROW(207000, aclrtMemAllocManaged(&p, 8, 1)),
	};

	run_rows(rows, true);
}

static void test_registration(void **)
{
	static void *p;
	static const row rows[] = {
		ROW(100000, aclrtHostRegister(nullptr, 8, ACL_HOST_REGISTER_MAPPED, &p)),
		ROW(100000, aclrtHostRegister(f.heap, 0, ACL_HOST_REGISTER_MAPPED, &p)),
		ROW(100000, aclrtHostRegister(f.heap, 8, ACL_HOST_REGISTER_MAPPED, nullptr)),
		ROW(207000, aclrtHostRegister(f.heap, 8, static_cast<aclrtHostRegisterType>(1), &p)),
		ROW(507911, aclrtHostUnregister(f.heap)),
		ROW(0, aclrtHostRegister(f.heap, 8192, ACL_HOST_REGISTER_MAPPED, &p)),
		ROW(507910, aclrtHostRegister(f.heap, 8192, ACL_HOST_REGISTER_MAPPED, &p)),
		ROW(507910, aclrtHostRegisterV2(f.heap + 4096, 8192, ACL_HOST_REG_PINNED)),
		ROW(507899, aclrtHostRegister(f.heap2 + 64, 4096, ACL_HOST_REGISTER_MAPPED, &p)),
		ROW(507899, aclrtHostRegisterV2(f.heap2, 4095, ACL_HOST_REG_PINNED)),
		ROW(507911, aclrtHostUnregister(f.heap + 64)),
		ROW(0, aclrtHostGetDevicePointer(f.heap, &p, 0)),
		ALONE(107002, aclrtHostGetDevicePointer(f.heap, &p, 0)),
		ALONE(107002, aclrtHostUnregister(f.heap)),
		ROW(100000, aclrtHostGetDevicePointer(f.heap, &p, 1)),
		ROW(0, aclrtHostUnregister(f.heap)),
		ROW(507911, aclrtHostUnregister(f.heap)),
		ROW(100000, aclrtHostUnregister(nullptr)),
		ROW(107000, aclrtHostGetDevicePointer(f.heap, &p, 0)),
		ROW(107000, aclrtHostRegisterV2(f.heap, 8192, 0)),
		ROW(107000, aclrtHostRegisterV2(f.heap, 8192, 1)),
		ROW(100000, aclrtHostRegisterV2(nullptr, 8192, ACL_HOST_REG_PINNED)),
		ROW(0, aclrtHostRegisterV2(f.heap, 8192, ACL_HOST_REG_PINNED)),
		ROW(107000, aclrtHostGetDevicePointer(f.heap, &p, 0)),
		ROW(207000, ASYNC(f.heap, 64, f.pin, 64, 4, f.stream)),
		ROW(0, aclrtHostUnregister(f.heap)),
	};

	run_rows(rows, true);
}

/* Memory of aclrtMallocHost can be registered, also in parts; copies still work. */
static void test_registration_of_pinned(void **)
{
	static void *p;
	static const row rows[] = {
		ROW(107000, aclrtHostGetDevicePointer(f.pin, &p, 0)),
		ROW(507910, aclrtHostRegister(f.pin, block + 4096, ACL_HOST_REGISTER_MAPPED, &p)),
		ROW(507899, aclrtHostRegister(f.pin, 100, ACL_HOST_REGISTER_MAPPED, &p)),
		ROW(0, aclrtHostRegister(f.pin, 8192, ACL_HOST_REGISTER_MAPPED, &p)),
		ROW(0, p == f.pin ? 0 : 1),
		ROW(507910, aclrtHostRegisterV2(static_cast<char *>(f.pin) + 4096, 8192, ACL_HOST_REG_PINNED)),
		ROW(0, aclrtHostRegisterV2(static_cast<char *>(f.pin) + 8192, block - 8192, ACL_HOST_REG_PINNED)),
		ROW(507910, aclrtHostRegisterV2(f.pin, block, ACL_HOST_REG_PINNED)),
		ROW(0, aclrtHostGetDevicePointer(static_cast<char *>(f.pin) + 8191, &p, 0)),
		ROW(107000, aclrtHostGetDevicePointer(static_cast<char *>(f.pin) + 8192, &p, 0)),
		ROW(0, ASYNC(f.dev, block, f.pin, block, 1, f.stream)),
		ROW(507911, aclrtHostUnregister(static_cast<char *>(f.pin) + 4096)),
		ROW(0, aclrtHostUnregister(f.pin)),
		ROW(507911, aclrtHostUnregister(f.pin)),
		ROW(0, ASYNC(f.pin, block, f.dev, block, 2, f.stream)),
		ROW(0, aclrtFreeHost(f.pin)),
		ROW(507911, aclrtHostUnregister(static_cast<char *>(f.pin) + 8192)),
		ROW(0, aclrtMallocHost(&f.pin, block)),
		ROW(0, aclrtHostRegisterV2(f.pin, block, ACL_HOST_REG_MAPPED)),
		ROW(0, aclrtHostUnregister(f.pin)),
	};

	run_rows(rows, true);
}

static void test_memset(void **)
{
	static const row rows[] = {
		ALONE(0, aclrtMemset(nullptr, 0, 0, 0)),
		ROW(100000, aclrtMemset(nullptr, 8, 0, 8)),
		ROW(107000, aclrtMemset(f.dev, 7, 0, 8)),
		ALONE(107002, aclrtMemset(f.dev, 8, 0, 8)),
		ROW(0, aclrtMemset(f.heap, 8, 0x141, 8)),
		ROW(107000, aclrtMemset(f.lost, 8, 0, 8)),
		ALONE(0, aclrtMemsetAsync(nullptr, 0, 0, 0, GARBAGE)),
		ROW(100000, aclrtMemsetAsync(nullptr, 8, 0, 8, GARBAGE)),
		ROW(107017, aclrtMemsetAsync(f.dev, 7, 0, 8, GARBAGE)),
		ROW(107000, aclrtMemsetAsync(f.dev, 7, 0, 8, f.stream)),
		ROW(107003, aclrtMemsetAsync(f.dev, 8, 0, 8, f.foreign)),
		ALONE(107002, aclrtMemsetAsync(f.dev, 8, 0, 8, nullptr)),
		ROW(0, aclrtMemsetAsync(f.dev, 8, 0, 8, f.stream)),
		ALONE(0, aclrtMemsetD32(nullptr, 0, 0, 0)),
		ROW(100000, aclrtMemsetD32(nullptr, 8, 0, 2)),
		ROW(100000, aclrtMemsetD32(static_cast<char *>(f.dev) + 2, 8, 0, 2)),
		ROW(100000, aclrtMemsetD32(f.dev, 7, 0, 2)),
		ROW(100000, aclrtMemsetD32(f.dev, 8, 0, ~size_t(0) / 2)),
		ROW(100000, aclrtMemsetD32(f.heap, 8, 0, 2)),
		ROW(0, aclrtMemsetD32(f.dev, 8, 0, 2)),
		ROW(0, aclrtMemsetD32(f.pin, 8, 0, 2)),
		ROW(100000, aclrtMemsetD32Async(f.heap, 8, 0, 2, f.stream)),
		ROW(107017, aclrtMemsetD32Async(f.dev, 8, 0, 2, f.dead_stream)),
		ROW(0, aclrtMemsetD32Async(f.dev, 8, 0, 2, f.stream)),
	};

	run_rows(rows, true);
}

static void test_rectangles(void **)
{
	static const row rows[] = {
		ALONE(0, aclrtMemcpy2d(nullptr, 0, nullptr, 0, 0, 5, KIND(9))),
		ROW(100000, aclrtMemcpy2d(nullptr, 8, f.pin, 8, 8, 2, KIND(1))),
		ROW(100000, aclrtMemcpy2d(f.dev, 7, f.pin, 8, 8, 2, KIND(1))),
		ROW(100000, aclrtMemcpy2d(f.dev, 8, f.pin, 7, 8, 2, KIND(1))),
		ROW(100000, aclrtMemcpy2d(f.dev, 8, f.pin, 8, 8, 2, KIND(0))),
		ROW(100000, aclrtMemcpy2d(f.dev, 8, f.pin, 8, 8, 2, KIND(5))),
		ROW(107000, aclrtMemcpy2d(f.dev, 6000000, f.pin, 6000000, 5000001, 1, KIND(1))),
		ROW(107000, aclrtMemcpy2d(f.dev, 8, f.pin, 8, 8, 5242881, KIND(1))),
		ALONE(107002, aclrtMemcpy2d(f.dev, 8, f.pin, 8, 8, 2, KIND(1))),
		ROW(107000, aclrtMemcpy2d(f.dev, 8, f.pin, 8, 8, 2, KIND(2))),
		ROW(107000, aclrtMemcpy2d(f.heap, 8, f.pin, 8, 8, 2, KIND(4))),
		ROW(207000, aclrtMemcpy2d(f.dev, 8, f.dev2, 8, 8, 2, KIND(3))),
		ROW(0, aclrtMemcpy2d(f.dev, 8, f.heap, 8, 8, 2, KIND(1))),
		ROW(0, aclrtMemcpy2d(f.heap, 16, f.dev, 8, 8, 2, KIND(4))),
		ROW(107017, aclrtMemcpy2dAsync(f.dev, 8, f.dev2, 8, 8, 2, KIND(3), f.dead_stream)),
		ROW(107003, aclrtMemcpy2dAsync(f.dev, 8, f.dev2, 8, 8, 2, KIND(3), f.foreign)),
		ROW(0, aclrtMemcpy2dAsync(f.dev, 8, f.dev2, 8, 8, 2, KIND(3), f.stream)),
		ROW(0, aclrtMemcpy2dAsync(f.dev, 8, f.pin, 8, 8, 2, KIND(1), nullptr)),
	};

	run_rows(rows, true);
}

static void test_descriptors(void **)
{
	static size_t n;
	static const row rows[] = {
		ROW(100000, aclrtGetMemcpyDescSize(KIND(6), nullptr)),
		ROW(100000, aclrtGetMemcpyDescSize(KIND(8), &n)),
		ROW(207000, aclrtGetMemcpyDescSize(KIND(3), &n)),
		ROW(0, aclrtGetMemcpyDescSize(KIND(6), &n)),
		ROW(100000, aclrtSetMemcpyDesc(nullptr, KIND(6), f.dev, f.dev2, 8, nullptr)),
		ROW(100000, aclrtSetMemcpyDesc(f.dev, KIND(6), nullptr, f.dev2, 8, nullptr)),
		ROW(100000, aclrtSetMemcpyDesc(f.dev, KIND(6), f.dev2, f.dev2, 0, nullptr)),
		ROW(100000, aclrtSetMemcpyDesc(f.dev, KIND(6), f.dev2, f.dev2, 8, f.dev)),
		ROW(100000, aclrtSetMemcpyDesc(f.dev, KIND(8), f.dev2, f.dev2, 8, nullptr)),
		ROW(207000, aclrtSetMemcpyDesc(f.dev, KIND(3), f.dev2, f.dev2, 8, nullptr)),
		ROW(107000, aclrtSetMemcpyDesc(f.dev, KIND(6), f.dev2, f.dev2, (size_t(4) << 30) + 1, nullptr)),
		ROW(107000, aclrtSetMemcpyDesc(static_cast<char *>(f.dev) + 32, KIND(6), f.dev2, f.dev2, 8, nullptr)),
		ROW(107000, aclrtSetMemcpyDesc(f.pin, KIND(6), f.dev2, f.dev2, 8, nullptr)),
		ROW(107000, aclrtSetMemcpyDesc(f.dev, KIND(6), f.pin, f.dev2, 8, nullptr)),
		ROW(0, aclrtSetMemcpyDesc(f.dev, KIND(6), f.dev2, static_cast<char *>(f.dev2) + 64, 8, nullptr)),
		ROW(100000, aclrtMemcpyAsyncWithDesc(nullptr, KIND(6), f.stream)),
		ROW(100000, aclrtMemcpyAsyncWithDesc(f.dev, KIND(6), nullptr)),
		ROW(100000, aclrtMemcpyAsyncWithDesc(f.dev, KIND(8), f.stream)),
		ROW(207000, aclrtMemcpyAsyncWithDesc(f.dev, KIND(3), f.stream)),
		ROW(107017, aclrtMemcpyAsyncWithDesc(f.dev, KIND(6), f.dead_stream)),
		ROW(107017, aclrtMemcpyAsyncWithDesc(f.dev, KIND(3), f.dead_stream)),
		ROW(107000, aclrtMemcpyAsyncWithDesc(f.pin, KIND(6), f.stream)),
		ROW(107000, aclrtMemcpyAsyncWithDesc(static_cast<char *>(f.dev) + 8, KIND(6), f.stream)),
		ROW(107003, aclrtMemcpyAsyncWithDesc(f.dev, KIND(6), f.foreign)),
		ROW(0, aclrtMemcpyAsyncWithDesc(f.dev, KIND(6), f.stream)),
		ROW(0, aclrtMemcpyAsyncWithOffset(nullptr, 0, 0, nullptr, 0, 0, KIND(0), GARBAGE)),
		ROW(107000, aclrtMemcpyAsyncWithOffset(nullptr, 8, 0, nullptr, 8, 0, KIND(6), f.stream)),
		ROW(107000, aclrtMemcpyAsyncWithOffset(reinterpret_cast<void **>(f.dev), 8, 0,
						       const_cast<const void **>(reinterpret_cast<void **>(f.dev2)), 8,
						       0, KIND(3), f.stream)),
		ROW(107000, aclrtMemcpyAsyncWithOffset(reinterpret_cast<void **>(f.dev), 8, 1,
						       const_cast<const void **>(reinterpret_cast<void **>(f.dev2)), 8,
						       0, KIND(6), f.stream)),
		ROW(107000, aclrtMemcpyAsyncWithOffset(reinterpret_cast<void **>(f.dev), 8, 0,
						       const_cast<const void **>(reinterpret_cast<void **>(f.dev2)), 8,
						       size_t(1) << 48, KIND(6), f.stream)),
		ROW(0, aclrtSynchronizeStream(f.stream)),
	};

	run_rows(rows, true);
	assert_int_equal(n, 32);
}

static void test_reduce(void **)
{
	static const row rows[] = {
		ROW(100000, aclrtReduceAsync(nullptr, f.dev2, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, f.stream,
					     nullptr)),
		ROW(100000,
		    aclrtReduceAsync(f.dev, f.dev2, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, f.stream, f.dev)),
		ROW(100000, aclrtReduceAsync(f.dev, f.dev2, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_DOUBLE, f.stream,
					     nullptr)),
		ROW(107000,
		    aclrtReduceAsync(f.dev, f.dev2, 0, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, f.stream, nullptr)),
		ROW(107000,
		    aclrtReduceAsync(f.dev, f.dev2, 8, static_cast<aclrtReduceKind>(14), ACL_FLOAT, f.stream, nullptr)),
		ROW(107000, aclrtReduceAsync(f.dev, f.dev2, (uint64_t(4) << 30) + 4, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM,
					     ACL_FLOAT, f.stream, nullptr)),
		ROW(207000,
		    aclrtReduceAsync(f.dev, f.dev2, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT4, f.stream, nullptr)),
		ROW(107008, aclrtReduceAsync(static_cast<char *>(f.dev) + 2, f.dev2, 8,
					     ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, f.stream, nullptr)),
		ROW(107008, aclrtReduceAsync(f.dev, static_cast<char *>(f.dev2) + 1, 8,
					     ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT16, f.stream, nullptr)),
		ROW(107017, aclrtReduceAsync(f.dev, f.dev2, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT,
					     f.dead_stream, nullptr)),
		ROW(0,
		    aclrtReduceAsync(f.dev, f.dev2, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_INT32, f.stream, nullptr)),
		ROW(0, aclrtSynchronizeStream(f.stream)),
	};

	run_rows(rows, true);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_memcpy),
		cmocka_unit_test(test_memcpy_async_checks),
		cmocka_unit_test(test_memcpy_async_kinds),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_registration),
		cmocka_unit_test(test_registration_of_pinned),
		cmocka_unit_test(test_memset),
		cmocka_unit_test(test_rectangles),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_reduce),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
