/* SPDX-License-Identifier: BSD-3-Clause */
/* Each enumerator, flag and number of ACL at its limits (tests/support/sweep.h). */
#include "tests/unit/acl/misuse.h"

#include "tests/support/sweep.h"

#pragma GCC diagnostic ignored "-Wpedantic"                /* a ?: b is: b where a gave 0 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* also those */

using namespace usdma::test;

#define SWEEP(first, last, want, ...) SWEEP_OF(fixture, first, last, want, __VA_ARGS__)

static void *p;
static size_t n, n2;
static int32_t i32;
static int64_t i64;
static uint32_t u32;
static uint64_t u64;
static char text[256];

/* ---- memory ------------------------------------------------------------------------------------------- */

static aclError pooled(fixture &f, aclrtMemPoolAttr attr, bool sets)
{
	aclrtMemPoolProps props = {};
	aclrtMemPool pool = nullptr;

	(void)f;
	props.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED;
	props.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	u64 = 0;
	aclError err = aclrtMemPoolCreate(&pool, &props);
	if (!err)
		err = sets ? aclrtMemPoolSetAttr(pool, attr, &u64) : aclrtMemPoolGetAttr(pool, attr, &u64);
	const aclError end = aclrtMemPoolDestroy(pool);
	return err ? err : end;
}

static aclError physical(aclrtMemAttr attr, aclrtMemLocationType where, aclrtMemHandleType type)
{
	aclrtPhysicalMemProp prop = {};
	aclrtDrvMemHandle h = nullptr;

	prop.handleType = type;
	prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
	prop.memAttr = attr;
	prop.location = {0, where};
	const aclError err = aclrtMallocPhysical(&h, 2 << 20, &prop, 0);
	return err ? err : aclrtFreePhysical(h);
}

#define KINDS(want, dst, src) SWEEP(-1, 9, want, aclrtMemcpy(f.dst, 64, f.src, 64, e))
#define KINDS_ASYNC(want, dst, src)                                                                                    \
	SWEEP(-1, 9, want, aclrtMemcpyAsync(f.dst, 64, f.src, 64, e, f.stream) ?: aclrtSynchronizeStream(f.stream))

static void test_memory(void **)
{
	static aclrtHostMemMapCapability can;
	static const sweep<fixture> all[] = {
		SWEEP(-1, 12, "0*7 207001*2 0*5", aclrtMalloc(&p, 64, e) ?: aclrtFree(p)),
		SWEEP(-1, 12, "0*7 207001*2 0*5", aclrtMallocAlign32(&p, 64, e) ?: aclrtFree(p)),
		SWEEP(-1, 12, "207000*3 0 207000*10", aclrtMallocCached(&p, 64, e) ?: aclrtFree(p)),
		SWEEP(-1, 12, "0*7 207001*2 0*5", aclrtMallocWithCfg(&p, 64, e, nullptr) ?: aclrtFree(p)),
		SWEEP(0, 2, "100000 0*2", aclrtMalloc(&p, e, ACL_MEM_MALLOC_HUGE_FIRST) ?: aclrtFree(p)),
		SWEEP(0, 2, "100000 0*2", aclrtMallocHost(&p, e) ?: aclrtFreeHost(p)),
		SWEEP(-1, 14, "107016 0*15", aclrtGetMemInfo(e, &n, &n2)),
		SWEEP(-1, 4, "207000 0 207000*3 0",
		      aclrtHostRegister(f.heap, 4096, e, &p) ?: aclrtHostUnregister(f.heap)),
		SWEEP(0, 9, "107000*2 0 107000 0 107000 0 107000 0 107000",
		      aclrtHostRegisterV2(f.heap, 4096, e) ?: aclrtHostUnregister(f.heap)),
		SWEEP(0, 2, "100000 507899*2",
		      aclrtHostRegister(f.heap, e, ACL_HOST_REGISTER_MAPPED, &p) ?: aclrtHostUnregister(f.heap)),
		SWEEP(-1, 11, "107000 0*10 107000*2", aclrtHostMemMapCapabilities(0, e, &can)),
		SWEEP(-1, 3, "107001 0*2 107001*2", aclrtHostMemMapCapabilities(e, ACL_RT_HAC_TYPE_STARS, &can)),
		SWEEP(0, 20, "107000*2 0 107000*5 0 107000 0 107000*5 0 107000 0 107000*2",
		      aclrtCheckMemType(&f.dev, 1, e, &u32, 0)),
		SWEEP(-1, 10, "107000*2 0*4 107000 0 107000 0 107000*2", pooled(f, e, true)),
		SWEEP(-1, 10, "107000*2 0*8 107000*2", pooled(f, e, false)),
		SWEEP(-1, 18, "100000*5 0*2 100000*4 207001 100000 0*2 207001 0*2 207001 100000",
		      physical(e, ACL_MEM_LOCATION_TYPE_DEVICE, ACL_MEM_HANDLE_TYPE_NONE)),
		SWEEP(-1, 7, "100000 0*2 100000*2 0 100000*3", physical(ACL_HBM_MEM_HUGE, e, ACL_MEM_HANDLE_TYPE_NONE)),
		SWEEP(-1, 4, "100000 0 100000*4", physical(ACL_HBM_MEM_HUGE, ACL_MEM_LOCATION_TYPE_DEVICE, e)),
		SWEEP(0, 3, "0*3 107000",
		      aclrtReserveMemAddress(&p, 2 << 20, e, nullptr, 0) ?: aclrtReleaseMemAddress(p)),
		SWEEP(0, 3, "0*2 100000*2",
		      aclrtReserveMemAddress(&p, 2 << 20, 0, nullptr, e) ?: aclrtReleaseMemAddress(p)),
		SWEEP(63, 67, "107000*2 0*3",
		      aclrtIpcMemGetExportKey(f.dev, block, text, e, 0) ?: aclrtIpcMemClose(text)),
		SWEEP(0, 4, "0*2 107000*3",
		      aclrtIpcMemGetExportKey(f.dev2, block, text, 65, e) ?: aclrtIpcMemClose(text)),
		SWEEP(block - 2, block + 2, "0*5",
		      aclrtIpcMemGetExportKey(f.dev, e, text, 65, 0) ?: aclrtIpcMemClose(text)),
		SWEEP(0, 2, "100000 0*2", aclrtMemFlush(f.pin, e)),
		SWEEP(0, 2, "100000 0*2", aclrtMemInvalidate(f.pin, e)),
	};

	fixture f;

	run_sweeps(f, all);
}

static void test_copies(void **)
{
	static const sweep<fixture> all[] = {
		KINDS("100000 0*6 100000*4", heap, heap2),
		KINDS("100000 0*6 100000*4", heap, pin),
		KINDS("100000 0*6 100000*4", heap, dev),
		KINDS("100000 0*6 100000*4", pin, heap),
		KINDS("100000 0*6 100000*4", pin, pin2),
		KINDS("100000 0*6 100000*4", pin, dev),
		KINDS("100000 0*6 100000*4", dev, heap),
		KINDS("100000 0*6 100000*4", dev, pin),
		KINDS("100000 0*6 100000*4", dev, dev2),
		KINDS_ASYNC("100000 207000 0*3 207000 107000 100000*4", heap, heap2),
		KINDS_ASYNC("100000 107000*2 0*3 107000 100000*4", heap, dev),
		KINDS_ASYNC("100000 207000*5 107000 100000*4", pin, pin2),
		KINDS_ASYNC("100000 0*5 107000 100000*4", pin, dev),
		KINDS_ASYNC("100000 107000 0 107000 0*3 100000*4", dev, heap),
		KINDS_ASYNC("100000 0*6 100000*4", dev, pin),
		KINDS_ASYNC("100000 0*5 107000 100000*4", dev, dev2),
		SWEEP(-1, 9, "100000*2 0 107000*2 0 100000*5", aclrtMemcpy2d(f.dev, 64, f.heap, 64, 64, 2, e)),
		SWEEP(-1, 9, "100000*2 107000 0 107000 0 100000*5", aclrtMemcpy2d(f.heap, 64, f.dev, 64, 64, 2, e)),
		SWEEP(-1, 9, "100000*2 107000*2 0*2 100000*5",
		      aclrtMemcpy2dAsync(f.dev, 64, f.dev2, 64, 64, 2, e, f.stream)),
		SWEEP(-1, 9, "100000 207000*6 0 207000 100000*2", aclrtGetMemcpyDescSize(e, &n)),
		SWEEP(62, 66, "0*3 107000*2", aclrtMemcpy(f.dev, 64, f.heap, e, ACL_MEMCPY_HOST_TO_DEVICE)),
		SWEEP(62, 66, "0*3 107000*2", aclrtMemcpy(f.heap, 64, f.dev, e, ACL_MEMCPY_DEVICE_TO_HOST)),
		SWEEP(62, 66, "0*3 107000*2",
		      aclrtMemcpyAsync(f.dev, 64, f.dev2, e, ACL_MEMCPY_DEVICE_TO_DEVICE, f.stream)),
		SWEEP(0, 1, "0*2", aclrtMemcpy(f.dev, 64, f.heap, e, ACL_MEMCPY_HOST_TO_DEVICE)),
		SWEEP(block - 2, block + 2, "0*5", aclrtMemcpy(f.dev, 2 * block, f.heap, e, ACL_MEMCPY_HOST_TO_DEVICE)),
		SWEEP(block - 2, block + 2, "0*3 107000*2",
		      aclrtMemcpyAsync(f.pin, 2 * block, f.dev, e, ACL_MEMCPY_DEVICE_TO_HOST, f.stream)),
		SWEEP(63, 65, "0*2 100000", aclrtMemcpy2d(f.dev, 64, f.heap, 64, e, 2, ACL_MEMCPY_HOST_TO_DEVICE)),
		SWEEP(63, 65, "100000 0*2", aclrtMemcpy2d(f.dev, e, f.heap, 64, 64, 2, ACL_MEMCPY_HOST_TO_DEVICE)),
		SWEEP(63, 65, "100000 0*2", aclrtMemcpy2d(f.dev, 64, f.heap, e, 64, 2, ACL_MEMCPY_HOST_TO_DEVICE)),
		SWEEP(0, 2, "0*3", aclrtMemcpy2d(f.dev, 64, f.heap, 64, 64, e, ACL_MEMCPY_HOST_TO_DEVICE)),
		SWEEP(block / 64 - 1, block / 64 + 1, "0*2 107000",
		      aclrtMemcpy2d(f.dev, 64, f.heap, 64, 64, e, ACL_MEMCPY_HOST_TO_DEVICE)),
		SWEEP(62, 66, "0*3 107000*2", aclrtMemset(f.dev, 64, 1, e)),
		SWEEP(62, 66, "0*3 107000*2", aclrtMemsetAsync(f.dev, 64, 1, e, f.stream)),
		SWEEP(block - 1, block + 1, "0*3", aclrtMemset(f.dev, 2 * block, 1, e)),
		SWEEP(-1, 0, "0*2", aclrtMemset(f.dev, 64, e, 64)),
		SWEEP(255, 257, "0*3", aclrtMemset(f.dev, 64, e, 64)),
		SWEEP(15, 17, "0*2 100000", aclrtMemsetD32(f.dev, 64, 1, e)),
		SWEEP(0, 4, "0 100000*3 0", aclrtMemsetD32(static_cast<char *>(f.dev) + e.v, 64, 1, 1)),
		SWEEP(0, 9, "0 107000*7 0 107000", aclrtValueWrite(static_cast<char *>(f.dev) + e.v, 1, 0, f.stream)),
		SWEEP(0, 2, "0 107000*2", aclrtValueWrite(f.dev, 1, e, f.stream)),
		/* 1 is at least, equal to, has a bit of, and leaves bits beside 1. */
		SWEEP(0, 5, "0*4 107000*2", aclrtValueWait(f.dev, 1, e, f.stream) ?: aclrtSynchronizeStream(f.stream)),
		SWEEP(-1, 5, "107000 0*4 107000*2", aclrtCmoAsync(f.dev, 64, e, f.stream)),
		SWEEP(0, 1, "100000 0", aclrtCmoAsync(f.dev, e, ACL_RT_CMO_TYPE_PREFETCH, f.stream)),
		SWEEP(-1, 30, "107000*11 0*4 107000*17",
		      aclrtReduceAsync(f.dev, f.dev2, 8, e, ACL_FLOAT, f.stream, nullptr)),
		SWEEP(-1, 30, "107000*11 0*4 107000*17",
		      aclrtReduceAsync(f.dev, f.dev2, 8, e, ACL_INT32, f.stream, nullptr)),
		SWEEP(-1, 40, "100000 0*5 100000 0*3 100000*18 0 100000 207000 100000*11",
		      aclrtReduceAsync(f.dev, f.dev2, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, e, f.stream, nullptr)),
		SWEEP(0, 9, "107000*4 0 107000*3 0 107000",
		      aclrtReduceAsync(f.dev, f.dev2, e, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_FLOAT, f.stream,
				       nullptr)),
	};

	fixture f;

	run_sweeps(f, all);
}

/* ---- devices, streams and what they wait for ---------------------------------------------------------------- */

static aclError peer(int32_t other, uint32_t flags)
{
	const aclError err = aclrtDeviceEnablePeerAccess(other, flags);

	return err ? err : aclrtDeviceDisablePeerAccess(other);
}

static void test_devices(void **)
{
	static aclrtDeviceStatus status;
	static aclrtUuid uuid;
	static aclCANNPackageVersion version;
	static aclrtAtomicOperation op;
	static const sweep<fixture> all[] = {
		SWEEP(-2, 3, "107001*2 0*2 107001*2",
		      aclrtSetDevice(e)           ?:
			      aclrtResetDevice(e) ?:
						    aclrtSetCurrentContext(f.context)),
		SWEEP(-2, 3, "107001*2 0*2 107001*2", aclrtQueryDeviceStatus(e, &status)),
		SWEEP(-2, 3, "107001*2 0*2 107001*2", aclrtDeviceGetUuid(e, &uuid)),
		SWEEP(-1, 3, "107001 100000 0 107001*2", aclrtDeviceCanAccessPeer(&i32, 0, e)),
		SWEEP(-1, 3, "107001 0 100000 107001*2", aclrtDeviceCanAccessPeer(&i32, e, 1)),
		SWEEP(-1, 3, "107001 0*2 107001*2", aclrtDevicePeerAccessStatus(0, e, &i32)),
		SWEEP(-1, 3, "107001 100000 0 107001*2", peer(e, 0)),
		SWEEP(0, 2, "0 200006*2", peer(1, e)),
		SWEEP(-1, 3, "107001 0*2 107001*2", aclrtGetDevicesTopo(0, e, &u64)),
		SWEEP(-1, 3, "107001 0*2 107001*2", aclrtGetLogicDevIdByUserDevId(e, &i32)),
		SWEEP(-1, 3, "107001 0*2 107001*2", aclrtGetUserDevIdByLogicDevId(e, &i32)),
		SWEEP(-1, 3, "107001 0*2 107001*2", aclrtGetLogicDevIdByPhyDevId(e, &i32)),
		SWEEP(-1, 3, "107001 0*2 107001*2", aclrtGetPhyDevIdByLogicDevId(e, &i32)),
		SWEEP(0, 20, "100000*13 207000*8", aclrtDeviceGetPCIBusId(0, text, e)),
		SWEEP(-1, 24, "107000*2 0 107000*19 0 107000*3", aclrtGetDeviceCapability(0, e, &i32)),
		SWEEP(-1, 40, "107000*2 0 107000*39", aclrtGetDeviceInfo(0, e, &i64)),
		SWEEP(99, 140, "107000*2 0*2 107000*38", aclrtGetDeviceInfo(0, e, &i64)),
		SWEEP(199, 260, "107000*2 0 207000*11 107000*48", aclrtGetDeviceInfo(0, e, &i64)),
		SWEEP(499, 560, "107000*2 0 107000*59", aclrtGetDeviceInfo(0, e, &i64)),
		SWEEP(599, 620, "107000*2 0 107000*19", aclrtGetDeviceInfo(0, e, &i64)),
		SWEEP(-1, 60, "107000 0*45 107000*16", (op = e, aclrtDeviceGetHostAtomicCapabilities(&u32, &op, 1, 0))),
		SWEEP(-1, 3, "100000 0*2 100000*2", aclrtSetTsDevice(e)),
		SWEEP(-1, 4, "107000 0*2 107000*3", aclrtGetDeviceResLimit(0, e, &u32)),
		SWEEP(-1, 4, "107000 0*2 107000*3", aclrtGetResInCurrentThread(e, &u32)),
		SWEEP(-1, 3, "100000 207000 0 100000*2", aclrtSetDeviceSatMode(e)),
		SWEEP(-1, 5, "100000 107021*3 100000*3", aclrtCtxGetSysParamOpt(e, &i64)),
		SWEEP(-1, 5, "100000 0*3 100000*3", aclrtCtxSetSysParamOpt(e, 0)),
		SWEEP(-1, 2, "0*4", aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, e)),
		SWEEP(-1, 9, "100000 100003 0 100003*5 0 100000*2", aclsysGetCANNVersion(e, &version)),
		SWEEP(-1, 45, "0 4 2 1 4 1 8 2*2 4 8*3 1 0 8*3 16 8*9 2 8 1*2 8*2 4 1*4 8*8",
		      aclError(aclDataTypeSize(e))),
	};

	fixture f;

	run_sweeps(f, all);
}

static aclError created(fixture &f, uint32_t priority, uint32_t flags)
{
	aclrtStream s = nullptr;
	const aclError err = aclrtCreateStreamWithConfig(&s, priority, flags);

	(void)f;
	return err ? err : aclrtDestroyStream(s);
}

static aclError captured(fixture &f, aclmdlRICaptureMode mode)
{
	aclmdlRI made = nullptr;
	const aclError err = aclmdlRICaptureBegin(f.stream, mode);

	return err ?: aclmdlRICaptureEnd(f.stream, &made) ?: aclmdlRIDestroy(made);
}

static aclError exchanged(aclmdlRICaptureMode mode)
{
	aclmdlRICaptureMode back = mode;
	const aclError err = aclmdlRICaptureThreadExchangeMode(&back);

	return err ?: aclmdlRICaptureThreadExchangeMode(&back);
}

static void test_streams(void **)
{
	static aclrtStreamAttrValue value;
	static aclrtEvent made;
	static aclrtNotify notify;
	static const sweep<fixture> all[] = {
		SWEEP(-1, 9, "0*11", created(f, e, 0)),
		SWEEP(0, 130, "0*131", created(f, 0, e)),
		SWEEP(-1, 3, "0 207000 0 207000 0", aclrtSetStreamFailureMode(f.stream, e)),
		SWEEP(-1, 6, "107000*2 0*5 107000", aclrtGetStreamAttribute(f.stream, e, &value)),
		SWEEP(0, 3, "0 207000*3", aclrtSetStreamOverflowSwitch(f.stream, e)),
		SWEEP(-1, 4, "107000 0*2 107000*3", aclrtGetStreamResLimit(f.stream, e, &u32)),
		SWEEP(-3, 2, "107000*2 0 107000 0*2", aclrtSynchronizeStreamWithTimeout(f.stream, e)),
		SWEEP(-3, 2, "107000*2 0 107000 0*2", aclrtSynchronizeDeviceWithTimeout(e)),
		SWEEP(-3, 2, "107000*2 0 107000 0*2", aclrtSynchronizeEventWithTimeout(f.event, e)),
		SWEEP(-3, 2, "107000*3 0*3", aclrtStreamWaitEventWithTimeout(f.stream, f.ex, e)),
		SWEEP(0, 4, "0 107029 100000*3", aclrtStreamWaitEventWithFlag(f.stream, f.ex, 0, e)),
		SWEEP(0, 4, "0 107029 100000*3", aclrtRecordEventWithFlag(f.ex, f.stream, e)),
		SWEEP(0, 130, "107000 0*3 107000*4 0*4 107000*4 0 107000*15 0 107000*31 0 107000*66",
		      aclrtCreateEventWithFlag(&made, e) ?: aclrtDestroyEvent(made)),
		SWEEP(0, 130, "107000 0*15 107000*48 0 107000*66",
		      aclrtCreateEventExWithFlag(&made, e) ?: aclrtDestroyEvent(made)),
		SWEEP(0, 4, "0*2 107000*3", aclrtCreateNotify(&notify, e) ?: aclrtDestroyNotify(notify)),
		SWEEP(0, 4, "0*2 107000*3", aclrtCntNotifyCreate(&notify, e) ?: aclrtCntNotifyDestroy(notify)),
		SWEEP(63, 66, "107000*2 0*2", aclrtNotifyGetExportKey(f.notify, text, e, 0)),
		SWEEP(0, 4, "0 107000 0 107000*2", aclrtNotifyGetExportKey(f.notify, text, 65, e)),
		SWEEP(-1, 4, "107000 0*3 107000*2", captured(f, e)),
		SWEEP(-1, 4, "107000 0*3 107000*2", exchanged(e)),
		SWEEP(0, 1, "100000 107012", aclrtProcessReport(e)),
		SWEEP(0, 1, "100000 107012", aclrtProcessHostFunc(e)),
	};

	fixture f;

	run_sweeps(f, all);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_streams),
	};

	/* The tables are of two devices of 1 GiB. */
	setenv("USDMA_DEVICES", "sim:mem=1G,sim:mem=1G", 1);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
