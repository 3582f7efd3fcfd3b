/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The codes named by the headers that no other test checks: memory, copies, virtual ranges, keys and pools.
 * tests/docs/codes.py checks that each code of each call is in a test.
 */
#include "runtime/rt.h"
#include "misuse.h"

#include <cstring>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* deprecated calls are tested too */
#pragma GCC diagnostic ignored "-Wpedantic"                /* a ?: b is: b where a gave 0 */

using namespace usdma::test;

/* More bytes than any machine has. */
static constexpr size_t too_much = size_t(1) << 45;

static void test_copies(void **)
{
	static aclrtMemcpyBatchAttr to_device;
	static size_t n = 8, zero, at, none = 7, most[2] = {8, 8}, sizes[2] = {0, 8};
	static void *to[2], *from[2];
	static char symbol[8];
	static const row rows[] = {
		ROW(100000, aclrtMemcpyAsync(nullptr, 8, f.pin, 8, ACL_MEMCPY_DEFAULT, f.stream)),
		ROW(100000, aclrtMemcpyAsync(f.dev, 8, nullptr, 8, ACL_MEMCPY_DEFAULT, f.stream)),
		ROW(100000, aclrtMemcpyAsync(f.dev, 8, f.pin, 8, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, f.stream)),
		ROW(207000, aclrtMemcpyAsync(f.heap, 8, f.pin, 8, ACL_MEMCPY_HOST_TO_HOST, f.stream)),
		ROW(100000, aclrtMemcpy2dAsync(nullptr, 64, f.pin, 64, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE, f.stream)),
		ROW(100000, aclrtMemcpy2dAsync(f.dev, 4, f.pin, 64, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE, f.stream)),
		ROW(107000, aclrtMemcpy2dAsync(f.dev, block, f.pin, 64, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE, f.stream)),
		ROW(107000, aclrtMemcpyBatch(&f.dev, &n, &f.pin, &n, 1, &to_device, &none, 1, &at)),
		ROW(107000, aclrtMemcpyBatch(&f.pin, &n, &f.dev, &n, 1, &to_device, &zero, 1, &at)),
		ROW(507899, aclrtMemcpyBatch(&f.lost, &n, &f.pin, &n, 1, &to_device, &zero, 1, &at)),
		ALONE(107002, aclrtMemcpyBatch(&f.dev, &n, &f.pin, &n, 1, &to_device, &zero, 1, &at)),
		ROW(0, aclrtMemcpyBatchAsync(&f.dev, &n, &f.pin, &zero, 1, &to_device, &zero, 1, &at, f.stream)),
		ROW(0, (to[0] = to[1] = f.dev, from[0] = from[1] = f.pin, 0)),
		ROW(107000, aclrtMemcpyBatchAsync(to, most, from, sizes, 2, &to_device, &zero, 1, &at, f.stream)),
		ROW(0, aclrtMemcpyBatchAsync(&f.dev, &n, &f.pin, &n, 1, &to_device, &zero, 1, &at, f.stream)),
		ALONE(107002, aclrtSetMemcpyDesc(f.dev, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, f.dev2, f.dev2, 8, nullptr)),
		ROW(100000, aclrtMemcpyFromSymbol(nullptr, 8, symbol, 8, 0, ACL_MEMCPY_DEVICE_TO_HOST)),
		ROW(207000, aclrtMemcpyFromSymbol(f.heap, 8, symbol, 8, 0, ACL_MEMCPY_DEVICE_TO_HOST)),
		ROW(100000, aclrtMemcpyToSymbol(symbol, nullptr, 8, 0, ACL_MEMCPY_HOST_TO_DEVICE)),
		ROW(207000, aclrtMemcpyToSymbol(symbol, f.heap, 8, 0, ACL_MEMCPY_HOST_TO_DEVICE)),
		ROW(100000, aclrtMemcpyFromSymbolAsync(f.heap, 8, nullptr, 8, 0, ACL_MEMCPY_DEVICE_TO_HOST, f.stream)),
		ROW(207000, aclrtMemcpyFromSymbolAsync(f.heap, 8, symbol, 8, 0, ACL_MEMCPY_DEVICE_TO_HOST, f.stream)),
		ROW(100000, aclrtMemcpyToSymbolAsync(nullptr, f.heap, 8, 0, ACL_MEMCPY_HOST_TO_DEVICE, f.stream)),
		ROW(207000, aclrtMemcpyToSymbolAsync(symbol, f.heap, 8, 0, ACL_MEMCPY_HOST_TO_DEVICE, f.stream)),
		ALONE(107002, aclrtMemsetD32(f.dev, 8, 1, 2)),
		ROW(107003, aclrtMemsetD32Async(f.dev, 8, 1, 2, f.foreign)),
	};

	to_device = {};
	to_device.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	to_device.srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST};
	run_rows(rows);
}

static void test_device_memory(void **)
{
	static aclrtMemUsageInfo use;
	static size_t n;
	static uint32_t is;
	static void *p;
	static const row rows[] = {
		ALONE(107002, aclrtFreeWithDevSync(f.dev)),
		ROW(0, aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST) ?: aclrtFreeWithDevSync(p)),
		ROW(100000, aclrtGetMemUsageInfo(0, nullptr, 1, &n)),
		ROW(100000, aclrtGetMemUsageInfo(0, &use, 0, &n)),
		ROW(100000, aclrtGetMemUsageInfo(0, &use, 1, nullptr)),
		ROW(107001, aclrtGetMemUsageInfo(99, &use, 1, &n)),
		ROW(0, aclrtGetMemUsageInfo(0, &use, 1, &n) ?:
			       n != 1 || use.curMemSize < 2 * block || use.memPeakSize < use.curMemSize),
		ROW(100000, aclrtCheckMemType(nullptr, 1, ACL_RT_MEM_TYPE_DEV, &is, 0)),
		ALONE(107002, aclrtCheckMemType(&f.dev, 1, ACL_RT_MEM_TYPE_DEV, &is, 0)),
		ROW(100000, aclrtCheckMemType(&f.dev, 0, ACL_RT_MEM_TYPE_DEV, &is, 0)),
		ROW(107000, aclrtCheckMemType(&f.dev, 1, 0x40, &is, 0)),
		ROW(107000, aclrtCheckMemType(&f.dev, 1, ACL_RT_MEM_TYPE_DEV, &is, 1)),
		ROW(0, aclrtCheckMemType(&f.dev, 1, ACL_RT_MEM_TYPE_DEV, &is, 0) ?: is != 1),
		ROW(0, aclrtCheckMemType(&f.pin, 1, ACL_RT_MEM_TYPE_DEV, &is, 0) ?: is != 0),
	};

	run_rows(rows);
}

static void test_host_memory(void **)
{
	static void *p;
	static aclrtMallocAttribute module, flagged, unknown;
	static aclrtMallocConfig good = {&module, 1}, one = {&flagged, 1}, bad = {&unknown, 1}, empty = {nullptr, 1};
	static aclrtHostMemMapCapability can;
	static const row rows[] = {
		ROW(100000, aclrtMallocHostWithCfg(nullptr, 8, &good)),
		ROW(100000, aclrtMallocHostWithCfg(&p, 8, &empty)),
		ROW(107000, aclrtMallocHostWithCfg(&p, 8, &bad)),
		ROW(207000, aclrtMallocHostWithCfg(&p, 8, &one)),
		ROW(0, aclrtMallocHostWithCfg(&p, 8, &good) ?: aclrtFreeHostWithDevSync(p)),
		ALONE(107002, aclrtFreeHostWithDevSync(f.pin)),
		ALONE(107002, aclrtHostRegister(f.heap, block, ACL_HOST_REGISTER_MAPPED, &p)),
		ALONE(107002, aclrtHostRegisterV2(f.heap, block, ACL_HOST_REG_PINNED)),
		ROW(100000, aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_SDMA, nullptr)),
		ROW(107001, aclrtHostMemMapCapabilities(99, ACL_RT_HAC_TYPE_SDMA, &can)),
		ROW(107000, aclrtHostMemMapCapabilities(0, static_cast<aclrtHacType>(99), &can)),
		ROW(0,
		    aclrtHostMemMapCapabilities(0, ACL_RT_HAC_TYPE_SDMA, &can) ?: can != ACL_RT_HOST_MEM_MAP_SUPPORTED),
	};

	module.attr = ACL_RT_MEM_ATTR_MODULE_ID;
	flagged.attr = ACL_RT_MEM_ATTR_VA_FLAG;
	flagged.value.vaFlag = 1;
	unknown.attr = static_cast<aclrtMallocAttrType>(99);
	run_rows(rows);
}

static void test_inaccessible_host_memory(void **)
{
	static void *p, *hole;
	static const row rows[] = {
		ROW(107000, aclrtHostRegister(hole, 4096, ACL_HOST_REGISTER_MAPPED, &p)),
		ROW(107000, aclrtHostRegisterV2(hole, 4096, ACL_HOST_REG_PINNED)),
	};

	if (!populate_is_checked())
		skip();
	hole = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(hole, MAP_FAILED);
	run_rows(rows);
	munmap(hole, 4096);
}

static void test_too_much_host_memory(void **)
{
	static void *p;
	static const row rows[] = {
		ROW(207001, aclrtMallocHost(&p, too_much)),
	};

	if (!addresses_are_free())
		skip(); /* they are reserved before the memory is found missing */
	run_rows(rows);
}

static void test_managed(void **)
{
	static aclrtMemManagedLocation where = {ACL_MEM_LOCATIONTYPE_DEVICE, 0};
	static aclrtMemManagedLocation nowhere = {ACL_MEM_LOCATIONTYPE_INVALID, 0};
	static const void *p;
	static size_t n = 8, zero;
	static uint32_t data;
	static void *out;
	static aclrtMemManagedRangeAttribute attr = ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY;
	static const row rows[] = {
		ROW(100000, aclrtMemManagedAdvise(nullptr, 8, ACL_MEM_ADVISE_SET_READ_MOSTLY, where)),
		ROW(207000, aclrtMemManagedAdvise(f.dev, 8, ACL_MEM_ADVISE_SET_READ_MOSTLY, where)),
		ROW(100000, aclrtMemManagedPrefetchAsync(nullptr, 8, where, 0, f.stream)),
		ROW(100000, aclrtMemManagedPrefetchAsync(f.dev, 0, where, 0, f.stream)),
		ROW(100000, aclrtMemManagedPrefetchAsync(f.dev, 8, where, 1, f.stream)),
		ROW(100000, aclrtMemManagedPrefetchAsync(f.dev, 8, nowhere, 0, f.stream)),
		ROW(207000, aclrtMemManagedPrefetchAsync(f.dev, 8, where, 0, f.stream)),
		ROW(100000, aclrtMemManagedPrefetchBatchAsync(nullptr, &n, 1, &where, &zero, 1, 0, f.stream)),
		ROW(100000, (p = f.dev, aclrtMemManagedPrefetchBatchAsync(&p, &n, 0, &where, &zero, 1, 0, f.stream))),
		ROW(100000, aclrtMemManagedPrefetchBatchAsync(&p, &n, 1, &where, &zero, 0, 0, f.stream)),
		ROW(100000, aclrtMemManagedPrefetchBatchAsync(&p, &n, 1, &where, &zero, 1, 1, f.stream)),
		ROW(100000, aclrtMemManagedPrefetchBatchAsync(&p, &n, 1, &nowhere, &zero, 1, 0, f.stream)),
		ROW(207000, aclrtMemManagedPrefetchBatchAsync(&p, &n, 1, &where, &zero, 1, 0, f.stream)),
		ROW(100000, aclrtMemManagedGetAttr(attr, f.dev, 8, nullptr, 4)),
		ROW(207000, aclrtMemManagedGetAttr(attr, f.dev, 8, &data, 4)),
		ROW(100000, aclrtMemManagedGetAttrs(nullptr, 1, f.dev, 8, &out, &n)),
		ROW(207000, (out = &data, aclrtMemManagedGetAttrs(&attr, 1, f.dev, 8, &out, &n))),
	};

	run_rows(rows);
}

static void test_virtual_memory(void **)
{
	static const size_t size = 2 << 20;
	static void *va;
	static aclrtDrvMemHandle h, h2;
	static size_t g;
	static uint64_t flag, number;
	static int32_t pid = 1;
	static aclrtPhysicalMemProp good, ddr, properties;
	static aclrtMemAccessDesc access = {ACL_RT_MEM_ACCESS_FLAGS_READWRITE, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {}};
	static aclrtMemLocation here = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	static aclrtMemFabricHandle fabric;
	static const auto plain = ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, fabrics = ACL_MEM_SHARE_HANDLE_TYPE_FABRIC;
	static const auto unknown = static_cast<aclrtMemSharedHandleType>(9);
	static const row rows[] = {
		ALONE(0, aclrtReserveMemAddress(&va, size, 0, nullptr, 0) ?: aclrtReleaseMemAddress(va)),
		ROW(107000, aclrtReserveMemAddress(&va, size_t(1) << 60, 0, nullptr, 0)),
		ROW(207001, aclrtReserveMemAddress(&va, size_t(1) << 48, 0, nullptr, 0)),
		ROW(100000, aclrtReserveMemAddressNoUCMemory(nullptr, size, 0, nullptr, 0)),
		ROW(100000, aclrtReserveMemAddressNoUCMemory(&va, size, 0, nullptr, 2)),
		ROW(0, aclrtReserveMemAddressNoUCMemory(&va, size, 0, nullptr, 0) ?: aclrtReleaseMemAddress(va)),
		ROW(100000, aclrtReleaseMemAddress(nullptr)),
		ROW(207001, aclrtMallocPhysical(&h, too_much, &good, 0)),
		ROW(100000, aclrtFreePhysical(nullptr)),
		ROW(100000, aclrtMemGetAllocationGranularity(&ddr, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &g)),
		ROW(0, aclrtReserveMemAddress(&va, size, 0, nullptr, 0) ?: aclrtMallocPhysical(&h, size, &good, 0)),
		ROW(107000, aclrtMemGetAccess(va, &here, &flag)),
		ROW(107000, aclrtMemRetainAllocationHandle(va, &h2)),
		ROW(0, aclrtMapMem(va, size, 0, h, 0)),
		ROW(100000, aclrtUnmapMem(nullptr)),
		ROW(100000, aclrtMemSetAccess(nullptr, size, &access, 1)),
		ROW(100000, aclrtMemSetAccess(va, size, &access, 0)),
		ROW(100000, aclrtMemGetAccess(va, nullptr, &flag)),
		ROW(100000, aclrtMemGetAccess(va, &here, nullptr)),
		ROW(100000, aclrtMemRetainAllocationHandle(nullptr, &h2)),
		ROW(100000, aclrtMemRetainAllocationHandle(va, nullptr)),
		ROW(100000, aclrtMemGetAllocationPropertiesFromHandle(nullptr, &properties)),
		ROW(100000, aclrtMemGetAllocationPropertiesFromHandle(h, nullptr)),
		ROW(0, aclrtMemGetAllocationPropertiesFromHandle(h, &properties) ?: properties.memAttr != good.memAttr),
		ROW(107017, aclrtMemExportToShareableHandle(f.stream, ACL_MEM_HANDLE_TYPE_NONE, 0, &number)),
		ROW(100000, aclrtMemExportToShareableHandleV2(h, 0, plain, nullptr)),
		ROW(107000, aclrtMemExportToShareableHandleV2(h, 0, unknown, &number)),
		ROW(107000, aclrtMemExportToShareableHandleV2(h, 2, fabrics, &fabric)),
		ROW(107017, aclrtMemExportToShareableHandleV2(f.stream, 0, fabrics, &fabric)),
		ALONE(107002, aclrtMemExportToShareableHandleV2(h, 0, fabrics, &fabric)),
		ROW(107000, aclrtMemSetPidToShareableHandle(0x1234, &pid, 1)),
		ROW(0, aclrtMemExportToShareableHandleV2(h, 0, plain, &number)),
		ROW(100000, aclrtMemSetPidToShareableHandle(number, nullptr, 1)),
		ROW(100000, aclrtMemSetPidToShareableHandle(number, &pid, 0)),
		ROW(100000, aclrtMemSetPidToShareableHandleV2(nullptr, plain, &pid, 1)),
		ROW(107000, aclrtMemSetPidToShareableHandleV2(&number, unknown, &pid, 1)),
		ROW(107000, aclrtMemSetPidToShareableHandleV2(&fabric, fabrics, &pid, 1)),
		ROW(0, aclrtMemSetPidToShareableHandleV2(&number, plain, &pid, 1)),
		ROW(100000, aclrtMemImportFromShareableHandle(number, 0, nullptr)),
		ROW(107001, aclrtMemImportFromShareableHandle(number, 99, &h2)),
		ALONE(107002, aclrtMemImportFromShareableHandle(number, 0, &h2)),
		ROW(100000, aclrtMemImportFromShareableHandleV2(nullptr, plain, 0, &h2)),
		ROW(100000, aclrtMemImportFromShareableHandleV2(&number, plain, 1, &h2)),
		ALONE(107002, aclrtMemImportFromShareableHandleV2(&number, unknown, 0, &h2)),
		ROW(107000, aclrtMemImportFromShareableHandleV2(&number, unknown, 0, &h2)),
		ROW(107000, aclrtMemImportFromShareableHandleV2(&fabric, fabrics, 0, &h2)),
		/* A handle has one export, of one kind. */
		ROW(507899, aclrtMemExportToShareableHandleV2(h, 0, fabrics, &fabric)),
		ROW(100000, aclrtMemP2PMap(nullptr, 8, 1, 0)),
		ROW(100000, aclrtMemP2PMap(f.dev, 0, 1, 0)),
		ROW(100000, aclrtMemP2PMap(f.dev, 8, 1, 1)),
		ROW(107000, aclrtMemP2PMap(f.heap, 8, 1, 0)),
		ROW(107001, aclrtMemP2PMap(f.dev, 8, 99, 0)),
		ROW(0, aclrtMemP2PMap(f.dev, 8, 1, 0)),
		ROW(100000, aclrtMemMapSelectedLink(nullptr, 8, f.dev, 0)),
		ROW(100000, aclrtMemMapSelectedLink(f.dev2, 8, f.dev, 2)),
		ROW(207000, aclrtMemMapSelectedLink(f.dev2, 8, f.dev, 0)),
		ROW(100000, aclrtMemMapSetLink(nullptr, ACL_RT_MEM_ACCESS_LINK_SIO)),
		ROW(207000, aclrtMemMapSetLink(h, ACL_RT_MEM_ACCESS_LINK_SIO)),
		ROW(0, aclrtUnmapMem(va)            ?:
			       aclrtFreePhysical(h) ?:
						      aclrtReleaseMemAddress(va)),
		ROW(107017, aclrtMemGetAllocationPropertiesFromHandle(h, &properties)),
	};

	good = {ACL_MEM_HANDLE_TYPE_NONE,
		ACL_MEM_ALLOCATION_TYPE_PINNED,
		ACL_HBM_MEM_HUGE,
		{0, ACL_MEM_LOCATION_TYPE_DEVICE},
		0};
	ddr = good;
	ddr.memAttr = ACL_DDR_MEM_HUGE;
	run_rows(rows);
}

/* Offsets in this library's FABRIC handles: the host, and in the key the process and the secret. */
static constexpr size_t host_at = 8, process_at = 32, secret_at = 50;

static aclrtMemFabricHandle *other_byte(const aclrtMemFabricHandle *h, size_t at)
{
	static aclrtMemFabricHandle wrong;

	wrong = *h;
	wrong.data[at] ^= 1;
	return &wrong;
}

static void test_fabric(void **)
{
	static aclrtDrvMemHandle listed, open, h;
	static aclrtMemFabricHandle key, open_key;
	static int32_t self, zeros[2];
	static uint64_t number;
	static aclrtPhysicalMemProp good;
	static const auto fabric = ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, plain = ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT;
	static const row rows[] = {
		ROW(0, aclrtMemExportToShareableHandleV2(listed, 0, fabric, &key)),
		ROW(507899, aclrtMemExportToShareableHandleV2(listed, 0, fabric, &key)),
		ROW(107000, aclrtMemExportToShareableHandleV2(listed, 0, plain, &number)),
		ROW(507899, aclrtMemImportFromShareableHandleV2(&key, fabric, 0, &h)),
		ROW(107000, aclrtMemSetPidToShareableHandleV2(&key, fabric, zeros, 2)),
		ROW(107017, aclrtMemSetPidToShareableHandleV2(other_byte(&key, secret_at), fabric, &self, 1)),
		ROW(507899, aclrtMemSetPidToShareableHandleV2(other_byte(&key, process_at), fabric, &self, 1)),
		ROW(0, aclrtMemSetPidToShareableHandleV2(&key, fabric, &self, 1)),
		ROW(107000, aclrtMemImportFromShareableHandleV2(other_byte(&key, 0), fabric, 0, &h)),
		ROW(207000, aclrtMemImportFromShareableHandleV2(other_byte(&key, host_at), fabric, 0, &h)),
		ROW(107017, aclrtMemImportFromShareableHandleV2(other_byte(&key, process_at), fabric, 0, &h)),
		ROW(107017, aclrtMemImportFromShareableHandleV2(other_byte(&key, secret_at), fabric, 0, &h)),
		ROW(0, aclrtMemImportFromShareableHandleV2(&key, fabric, 0, &h)),
		ROW(207000, aclrtMemExportToShareableHandleV2(h, 0, fabric, &open_key)),
		ROW(0, aclrtFreePhysical(h)),
		ROW(107017, aclrtFreePhysical(h)),
		ROW(0, aclrtFreePhysical(listed)),
		ROW(107017, aclrtMemSetPidToShareableHandleV2(&key, fabric, &self, 1)),
		ROW(107017, aclrtMemImportFromShareableHandleV2(&key, fabric, 0, &h)),
		ROW(0, aclrtMemExportToShareableHandleV2(open, 1, fabric, &open_key)),
		ROW(207006, aclrtMemSetPidToShareableHandleV2(&open_key, fabric, &self, 1)),
		ROW(0, aclrtMemImportFromShareableHandleV2(&open_key, fabric, 0, &h)),
		ROW(0, aclrtFreePhysical(open)),
		ROW(0, aclrtFreePhysical(h)),
	};

	self = getpid();
	good = {ACL_MEM_HANDLE_TYPE_NONE,
		ACL_MEM_ALLOCATION_TYPE_PINNED,
		ACL_HBM_MEM_HUGE,
		{0, ACL_MEM_LOCATION_TYPE_DEVICE},
		0};
	assert_int_equal(aclrtSetDevice(0), 0);
	assert_int_equal(aclrtMallocPhysical(&listed, 2 << 20, &good, 0), 0);
	assert_int_equal(aclrtMallocPhysical(&open, 2 << 20, &good, 0), 0);
	run_rows(rows);
	assert_int_equal(aclrtMemImportFromShareableHandleV2(other_byte(&open_key, host_at), fabric, 0, &h), 207000);
	assert_non_null(strstr(aclGetRecentErrMsg(), "setting net (USDMA_NET)"));
	assert_int_equal(aclrtResetDevice(0), 0);
}

static void test_keys(void **)
{
	static char key[128];
	static int32_t pid = 1;
	static void *p;
	static aclrtServerPid peers = {0, &pid, 1};
	static const auto link = ACL_RT_IPC_MEM_ATTR_ACCESS_LINK;
	static const row rows[] = {
		ROW(0, aclrtIpcMemGetExportKey(f.dev, block, key, 65, 0)),
		ROW(100000, aclrtIpcMemSetImportPid(nullptr, &pid, 1)),
		ROW(100000, aclrtIpcMemSetImportPid(key, nullptr, 1)),
		ROW(100000, aclrtIpcMemImportByKey(nullptr, key, 0)),
		ROW(100000, aclrtIpcMemImportByKey(&p, nullptr, 0)),
		ALONE(107002, aclrtIpcMemImportByKey(&p, key, 0)),
		ROW(100000, aclrtIpcMemSetAttr(nullptr, link, 0)),
		ROW(107000, aclrtIpcMemSetAttr("no key", link, 0)),
		ROW(107000, aclrtIpcMemSetAttr(key, static_cast<aclrtIpcMemAttrType>(9), 0)),
		ROW(0, aclrtIpcMemSetAttr(key, link, ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS)),
		ROW(100000, aclrtIpcMemImportPidInterServer(nullptr, &peers, 1)),
		ROW(100000, aclrtIpcMemImportPidInterServer(key, nullptr, 1)),
		ROW(107000, aclrtIpcMemImportPidInterServer(key, &peers, 0)),
		ROW(107000, aclrtIpcMemImportPidInterServer("no key", &peers, 1)),
		ROW(0, aclrtIpcMemImportPidInterServer(key, &peers, 1)),
		ROW(107000, rtIpcCloseMemory(f.dev)),
		ROW(0, aclrtIpcMemClose(key)),
	};

	run_rows(rows);
}

static void test_pools(void **)
{
	static aclrtMemPool pool, dead;
	static aclrtMemPoolProps good, invalid_device, handles;
	static void *p;
	static uint64_t keep = 1 << 20, one = 1;
	static uint32_t on = 1;
	static const auto threshold = ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD;
	static const row rows[] = {
		ROW(107001, aclrtMemPoolCreate(&pool, &invalid_device)),
		ROW(107000, aclrtMemPoolCreate(&pool, &handles)),
		ROW(0, aclrtMemPoolCreate(&dead, &good) ?: aclrtMemPoolDestroy(dead)),
		ROW(0, aclrtMemPoolCreate(&pool, &good)),
		ROW(100000, aclrtMemPoolSetAttr(nullptr, threshold, &keep)),
		ROW(100000, aclrtMemPoolSetAttr(pool, threshold, nullptr)),
		ROW(107000, aclrtMemPoolSetAttr(pool, static_cast<aclrtMemPoolAttr>(99), &keep)),
		ROW(107000, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &one)),
		ROW(107000, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH, &one)),
		ROW(107017, aclrtMemPoolSetAttr(dead, threshold, &keep)),
		ROW(0, aclrtMemPoolSetAttr(pool, threshold, &keep)),
		ROW(0, aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, &on)),
		ROW(100000, aclrtMemPoolGetAttr(nullptr, threshold, &keep)),
		ROW(100000, aclrtMemPoolGetAttr(pool, threshold, nullptr)),
		ROW(107003, aclrtMemPoolMallocAsync(&p, 8, pool, f.foreign)),
		ROW(0, aclrtMemPoolMallocAsync(&p, 8, pool, f.stream)),
		ROW(100000, aclrtMemPoolFreeAsync(nullptr, f.stream)),
		ROW(100000, aclrtMemPoolFreeAsync(p, nullptr)),
		ROW(107003, aclrtMemPoolFreeAsync(p, f.foreign)),
		ROW(107017, aclrtMemPoolFreeAsync(p, f.dead_stream)),
		ROW(0, aclrtMemPoolFreeAsync(p, f.stream) ?: aclrtSynchronizeStream(f.stream)),
		ROW(100000, aclrtMemPoolTrimTo(nullptr, 0)),
		ROW(107017, aclrtMemPoolTrimTo(dead, 0)),
		ROW(0, aclrtMemPoolDestroy(pool)),
	};

	good = {};
	good.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	invalid_device = handles = good;
	invalid_device.location.id = 99;
	handles.handleType = ACL_MEM_HANDLE_TYPE_POSIX;
	run_rows(rows);
}

/* The memory policy of the pages at p, which mbind(2) sets; -1: the kernel has none. */
static int policy_at(void *p)
{
	int mode = -1;
	const long err = syscall(SYS_get_mempolicy, &mode, nullptr, 0, p, MPOL_F_ADDR);

	assert_true(!err || errno == ENOSYS);
	return mode;
}

static void test_host_node(void **)
{
	int on_stack;
	const bool policies = policy_at(&on_stack) >= 0;
	const size_t size = 4 << 20;
	aclrtPhysicalMemProp on_node = {}, nowhere;
	aclrtDrvMemHandle h;
	void *va;

	on_node.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
	on_node.memAttr = ACL_DDR_MEM_NORMAL;
	on_node.location = {0, ACL_MEM_LOCATION_TYPE_HOST_NUMA};
	nowhere = on_node;
	nowhere.location.id = 1000;
	assert_int_equal(aclrtSetDevice(0), 0);
	assert_int_equal(aclrtMallocPhysical(&h, size, &nowhere, 0), 107000);
	assert_non_null(strstr(aclGetRecentErrMsg(), "NUMA node 1000"));
	assert_int_equal(aclrtMallocPhysical(&h, size, &on_node, 0), 0);
	assert_int_equal(aclrtReserveMemAddress(&va, size, 0, nullptr, 0), 0);
	assert_int_equal(aclrtMapMem(va, size, 0, h, 0), 0);
	assert_int_equal(policy_at(va), policies ? int(MPOL_PREFERRED) : -1);
	assert_int_equal(aclrtUnmapMem(va), 0);
	assert_int_equal(aclrtReleaseMemAddress(va), 0);
	assert_int_equal(aclrtFreePhysical(h), 0);
	on_node.memAttr = ACL_HBM_MEM_HUGE;
	on_node.location.type = ACL_MEM_LOCATION_TYPE_HOST;
	assert_int_equal(aclrtMallocPhysical(&h, size, &on_node, 0), 0);
	assert_int_equal(aclrtFreePhysical(h), 0);
	assert_int_equal(aclrtResetDevice(0), 0);
}

/* False: the process has no free range of this size (a sanitizer uses the addresses). */
static bool addresses_left(size_t size)
{
	void *p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p != MAP_FAILED && !munmap(p, size);
}

static void copy_through(char *at, const std::vector<char> &data)
{
	std::vector<char> back(data.size());

	assert_int_equal(aclrtMemcpy(at, data.size(), data.data(), data.size(), ACL_MEMCPY_HOST_TO_DEVICE), 0);
	assert_int_equal(aclrtMemcpy(back.data(), back.size(), at, back.size(), ACL_MEMCPY_DEVICE_TO_HOST), 0);
	assert_memory_equal(back.data(), data.data(), data.size());
}

/* Terabytes of addresses: memory can be mapped anywhere in the range; a release makes the addresses free. */
static void test_large_reservations(void **)
{
	constexpr size_t piece = 2 << 20, tera = size_t(1) << 40;
	aclrtPhysicalMemProp prop = {};

	if (!addresses_are_free())
		skip();
	std::vector<char> data(piece);
	auto gen = rng();
	aclrtDrvMemHandle h;
	void *va;

	prop.memAttr = ACL_HBM_MEM_HUGE;
	prop.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	fill_random(data.data(), data.size(), gen);
	assert_int_equal(aclrtSetDevice(0), 0);
	assert_int_equal(aclrtMallocPhysical(&h, piece, &prop, 0), 0);
	/* In total more than the process's address space. */
	for (size_t size : {4 * tera, 8 * tera, 16 * tera, 32 * tera, 32 * tera, 32 * tera, 32 * tera, 32 * tera}) {
		if (!addresses_left(size))
			continue;
		assert_int_equal(aclrtReserveMemAddress(&va, size, 0, nullptr, 1), 0);
		char *at = static_cast<char *>(va) + gen() % (size / piece) * piece;
		assert_int_equal(aclrtMapMem(at, piece, 0, h, 0), 0);
		copy_through(at, data);
		assert_int_equal(aclrtReleaseMemAddress(va), 107000);
		assert_int_equal(aclrtUnmapMem(at), 0);
		assert_int_equal(aclrtReleaseMemAddress(va), 0);
	}
	assert_int_equal(aclrtFreePhysical(h), 0);
	assert_int_equal(aclrtResetDevice(0), 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_device_memory),
		cmocka_unit_test(test_host_memory),
		cmocka_unit_test(test_managed),
		cmocka_unit_test(test_virtual_memory),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_pools),
		cmocka_unit_test(test_host_node),
		cmocka_unit_test(test_fabric),
		cmocka_unit_test(test_large_reservations),
		cmocka_unit_test(test_inaccessible_host_memory),
		cmocka_unit_test(test_too_much_host_memory),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
