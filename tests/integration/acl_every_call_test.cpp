/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes every call of the ACL headers in a child of fork, while other threads of the parent make calls, and in
 * threads that are being cancelled.
 */
#include "acl/acl.h"
#include "acl/acl_dump.h"
#include "acl/acl_prof.h"
#include "acl/acl_tdt.h"
#include "acl/acl_tdt_queue.h"
#include "runtime/rt.h"
#include "tests/integration/every_call.h"
#include "tests/support/sanitizer.h"
#include "tests/support/until.h"

#include <map>
#include <memory>

TEST_LEAKS

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

TEST_TSAN_SUPPRESSIONS(TEST_RINGS_OF_THREADS)

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr size_t size = 1 << 16;
static constexpr long no_device_in_child = 507000;

static void nothing(void *) {}

namespace {

/* The objects that the calls use. */
struct world : memory_for_results {
	aclrtContext context, other_context;
	aclrtStream stream, other;
	aclrtEvent event, shared_event;
	aclrtNotify notify;
	aclrtCntNotify count;
	aclrtDrvMemHandle physical, physical_guard;
	aclrtMemPool pool;
	aclmdlRI instance;
	aclrtPhysicalMemProp prop{};
	aclrtMemPoolProps pool_props{};
	aclrtMemAccessDesc access{};
	aclrtMemcpyBatchAttr batch{};
	aclrtIpcEventHandle event_key{};
	aclrtStreamConfigHandle *options = aclrtCreateStreamConfigHandle();
	aclDataBuffer *buffer;
	size_t granule = 0;
	char *mem, *host, *plain, *registered, *descriptor;
	void *mem_to_free, *host_to_free, *mapped, *mapped_not, *pooled;
	void *addresses[2], *source_addresses[2];
	const void *const_addresses[2];
	size_t sizes[2] = {64, 64};
	char text[256] = "", key[256] = "";
	any_pointer scratch;
	uint64_t thread = uint64_t(pthread_self());

	world()
	{
		GOOD(aclrtSetDevice(0));
		GOOD(aclrtCreateContext(&other_context, 0));
		GOOD(aclrtSetDevice(0));
		GOOD(aclrtGetCurrentContext(&context));
		make_memory();
		make_virtual_memory();
		make_objects();
		scratch.p = aligned_alloc(4096, size);
		memset(scratch.p, 0, size);
		buffer = aclCreateDataBuffer(scratch.p, 64);
	}
	/* A call may have destroyed any of these: errors are ignored. */
	~world()
	{
		aclrtSetDevice(0);
		aclrtDeviceTaskAbort(0, 0); /* aborts waits for events that never happen */
		aclmdlRIDestroy(instance);
		aclrtUnmapMem(mapped);
		aclrtReleaseMemAddress(mapped);
		aclrtReleaseMemAddress(mapped_not);
		aclrtFreePhysical(physical);
		aclrtFreePhysical(physical_guard);
		aclrtMemPoolDestroy(pool);
		for (void *p : {static_cast<void *>(mem), mem_to_free, static_cast<void *>(descriptor)})
			aclrtFree(p);
		aclrtFreeHost(host);
		aclrtFreeHost(host_to_free);
		aclrtHostUnregister(registered);
		aclrtHostUnregister(plain);
		aclrtDestroyEvent(event);
		aclrtDestroyEvent(shared_event);
		aclrtDestroyNotify(notify);
		aclrtCntNotifyDestroy(count);
		aclDestroyDataBuffer(buffer);
		aclrtDestroyStreamConfigHandle(options);
		aclrtDestroyContext(other_context);
		aclrtResetDeviceForce(0);
		free(plain);
		free(registered);
		free(scratch.p);
	}
	world(const world &) = delete;
	world &operator=(const world &) = delete;

private:
	static char *device_memory()
	{
		void *p;

		GOOD(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
		return static_cast<char *>(p);
	}
	void make_memory()
	{
		mem = device_memory();
		mem_to_free = device_memory();
		descriptor = device_memory();
		GOOD(aclrtMemset(mem, size, 0, size));
		GOOD(aclrtMallocHost(reinterpret_cast<void **>(&host), size));
		GOOD(aclrtMallocHost(&host_to_free, size));
		plain = static_cast<char *>(aligned_alloc(4096, size));
		registered = static_cast<char *>(aligned_alloc(4096, size));
		GOOD(aclrtHostRegisterV2(registered, size, ACL_HOST_REG_PINNED));
		addresses[0] = addresses[1] = mem;
		source_addresses[0] = source_addresses[1] = host;
		const_addresses[0] = const_addresses[1] = mem + 8192;
	}
	void make_virtual_memory()
	{
		prop.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
		prop.memAttr = ACL_HBM_MEM_HUGE;
		GOOD(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granule));
		GOOD(aclrtMallocPhysical(&physical, granule, &prop, 0));
		GOOD(aclrtMallocPhysical(&physical_guard, granule, &prop, 0));
		GOOD(aclrtReserveMemAddress(&mapped, granule, 0, nullptr, 0));
		GOOD(aclrtReserveMemAddress(&mapped_not, granule, 0, nullptr, 0));
		GOOD(aclrtMapMem(mapped, granule, 0, physical_guard, 0));
		access.location = prop.location;
		access.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
		GOOD(aclrtMemSetAccess(mapped, granule, &access, 1));
	}
	void make_objects()
	{
		pool_props.location = prop.location;
		GOOD(aclrtMemPoolCreate(&pool, &pool_props));
		GOOD(aclrtCreateStream(&stream));
		GOOD(aclrtCreateStream(&other));
		GOOD(aclrtMemPoolMallocAsync(&pooled, 4096, pool, stream));
		GOOD(aclrtCreateEventWithFlag(&event, ACL_EVENT_TIME_LINE));
		GOOD(aclrtCreateEventExWithFlag(&shared_event, ACL_EVENT_IPC));
		GOOD(aclrtCreateNotify(&notify, 0));
		GOOD(aclrtCntNotifyCreate(&count, 0));
		GOOD(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
		GOOD(aclmdlRICaptureEnd(stream, &instance));
		GOOD(aclrtRecordEvent(event, stream));
		GOOD(aclrtRecordNotify(notify, stream));
		GOOD(aclrtSynchronizeStream(stream));
		/* The kernel's devices have no memory that another process could map. */
		if (const aclError err = aclrtIpcMemGetExportKey(mem, size, key, 65, 0);
		    err != ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
			GOOD(err);
	}
};

} // namespace

static const std::vector<named_call<world>> calls = {
#include "acl_calls.inc"
};

/*
 * Calls that access no device, so that they work in a child as well: state of the process or of the thread, information
 * about devices that are not open, and calls that are not supported.
 */
static const std::set<std::string> need_no_device = words(
	"aclAppLog aclCreateDataBuffer aclDataTypeSize aclDestroyDataBuffer aclFinalize aclFinalizeCallbackRegister "
	"aclFinalizeCallbackUnRegister aclFinalizeReference aclFloat16ToFloat aclFloatToFloat16 "
	"aclGetCannAttribute aclGetCannAttributeList aclGetDataBufferAddr aclGetDataBufferSize "
	"aclGetDataBufferSizeV2 aclGetDeviceCapability aclrtGetPhyDevIdByUserDevId aclrtGetUserDevIdByPhyDevId "
	"aclGetRecentErrMsg aclInit aclInitCallbackRegister aclInitCallbackUnRegister aclUpdateDataBuffer "
	"aclrtCreateStreamConfigHandle aclrtDestroyStreamConfigHandle aclrtDeviceCanAccessPeer "
	"aclrtDeviceGetBareTgid aclrtDeviceGetUuid aclrtDevicePeerAccessStatus aclrtGetDeviceCapability "
	"aclrtGetDeviceCount aclrtGetDeviceInfo aclrtGetDeviceResLimit aclrtGetDeviceUtilizationRate "
	"aclrtGetDevicesTopo aclrtDeviceGetStreamPriorityRange aclrtGetErrorVerbose "
	"aclrtGetLastError aclrtGetLogicDevIdByPhyDevId "
	"aclrtGetLogicDevIdByUserDevId aclrtGetMemUsageInfo aclrtGetMemcpyDescSize "
	"aclrtGetPhyDevIdByLogicDevId aclrtGetPrimaryCtxState aclrtGetRunMode "
	"aclrtGetSocName aclrtGetSysParamOpt aclrtGetUserDevIdByLogicDevId aclrtGetVersion "
	"aclrtHostGetDevicePointer aclrtHostMemMapCapabilities aclrtIpcMemImportPidInterServer "
	"aclrtIpcMemSetAttr aclrtMemFlush "
	"aclrtMemGetAllocationGranularity aclrtMemInvalidate aclrtMemP2PMap aclrtMemcpyAsyncWithOffset "
	"aclrtPeekAtLastError aclrtProcessHostFunc aclrtProcessReport aclrtQueryDeviceStatus "
	"aclrtRegDeviceStateCallback aclrtRegStreamStateCallback aclrtResetDeviceResLimit "
	"aclrtSetCurrentContext aclrtSetDeviceResLimit aclrtSetDeviceTaskAbortCallback "
	"aclrtSetExceptionInfoCallback aclrtSetOpWaitTimeout aclrtSetStreamConfigOpt aclrtSetSysParamOpt "
	"aclrtSetTsDevice aclsysGetVersionNum aclsysGetVersionStr rtDisableP2P "
	"rtEnableP2P rtGetDeviceInfo "
	"rtInit rtGetDeviceIDs rtGetRunMode rtGetAiCoreCount rtGetAiCpuCount rtGetIsHeterogenous "
	"aclsysGetCANNVersion aclrtExceptionInfoCallbackRegister aclrtExceptionInfoCallbackUnregister "
	"aclrtGetTaskIdFromExceptionInfo aclrtGetStreamIdFromExceptionInfo aclrtGetThreadIdFromExceptionInfo "
	"aclrtGetDeviceIdFromExceptionInfo aclrtGetErrorCodeFromExceptionInfo aclrtSetOpExecuteTimeOut "
	"aclrtSetOpExecuteTimeOutWithMs aclrtSetOpExecuteTimeOutV2 aclrtGetOpTimeOutInterval "
	"aclrtGetOpExecuteTimeout aclrtDeviceGetPCIBusId aclrtDeviceGetByPCIBusId "
	"aclrtDeviceGetHostAtomicCapabilities aclrtDeviceGetP2PAtomicCapabilities aclrtGetMemUceInfo "
	"aclrtCheckArchCompatibility aclrtGetGroupCount aclrtNotifySetImportPidInterServer "
	"aclrtAllocatorCreateDesc aclrtAllocatorDestroyDesc aclrtAllocatorSetObjToDesc "
	"aclrtAllocatorSetAllocFuncToDesc aclrtAllocatorSetFreeFuncToDesc aclrtAllocatorSetAllocAdviseFuncToDesc "
	"aclrtAllocatorSetGetAddrFromBlockFuncToDesc aclrtAllocatorRegister "
	/* Not supported anywhere. */
	"aclrtMallocCached ");

/*
 * Calls that do not answer 107002 in a thread without a context, though their arguments are good: of the runtime's, as
 * its source has it. Those of need_no_device do not, either, but the ones of needs_context.
 */
static const std::set<std::string> need_no_context = words(
	"aclmdlRICaptureGetInfo aclmdlRIDestroyRegisterCallback aclmdlRIDestroyUnregisterCallback aclmdlRIExecute "
	"aclmdlRIGetId aclmdlRIGetName aclmdlRISetName aclrtCntNotifyGetId aclrtCreateContext "
	"aclrtDestroyContext aclrtDestroyEvent aclrtDeviceTaskAbort aclrtEventElapsedTime "
	"aclrtEventGetTimestamp aclrtFree aclrtFreeHost aclrtFreePhysical aclrtGetEventId "
	"aclrtGetNotifyId aclrtIpcGetEventHandle "
	"aclrtMallocPhysical aclrtMapMem aclrtMemExportToShareableHandle "
	"aclrtMemExportToShareableHandleV2 aclrtMemGetAccess aclrtMemGetAddressRange "
	"aclrtMemGetAllocationPropertiesFromHandle aclrtMemMapNoAccess aclrtMemPoolCreate "
	"aclrtMemPoolDestroy aclrtMemPoolGetAttr aclrtMemPoolSetAttr aclrtMemPoolTrimTo "
	"aclrtMemRetainAllocationHandle aclrtMemSetAccess aclrtMemSetPidToShareableHandle "
	"aclrtMemSetPidToShareableHandleV2 aclrtNotifyBatchReset aclrtNotifyGetExportKey "
	"aclrtNotifySetImportPid aclrtPointerGetAttributes aclrtQueryEvent aclrtQueryEventStatus "
	"aclrtQueryEventWaitStatus aclrtReleaseMemAddress aclrtReserveMemAddress "
	"aclrtReserveMemAddressNoUCMemory aclrtResetDevice aclrtResetDeviceForce aclrtSetDevice "
	"aclrtStreamGetId aclrtSynchronizeEvent aclrtSynchronizeEventWithTimeout aclrtUnmapMem "
	"rtEventQuery rtPointerGetAttributes ");
static const std::set<std::string> needs_context = words("aclrtHostGetDevicePointer ");

/* Calls of the layer below, by those of ACL that they make. */
static const std::map<std::string, std::string> over_acl = {
#define A(name, function) {#name, #function},
#include "acl_aliases.inc"
#undef A
};

static std::set<std::string> with_those_above(std::set<std::string> names)
{
	std::set<std::string> all = names;

	for (const auto &[name, function] : over_acl)
		if (names.count(function))
			all.insert(name);
	return all;
}

static std::atomic<int> failed_calls;

/* cmocka's assertions only work in the main thread of the test. */
static void check_call(aclError code, const char *call)
{
	if (code && !failed_calls++)
		print_error("%s: %d: %s\n", call, code, aclGetRecentErrMsg());
}

static void make_calls(const world &w, int i)
{
	const aclrtStream s = i ? w.other : nullptr;
	const aclError code = aclrtSetDevice(1);
	void *p;

	/* A child holds the kernel's file of a device open until it exits: until then an open fails. */
	if (code != ACL_ERROR_RT_DEV_SETUP_ERROR) {
		check_call(code, "aclrtSetDevice");
		check_call(aclrtResetDevice(1), "aclrtResetDevice");
	}
	check_call(aclrtSetCurrentContext(w.context), "aclrtSetCurrentContext");
	check_call(aclrtMemcpyAsync(w.mem, 64, w.host, 64, ACL_MEMCPY_HOST_TO_DEVICE, s), "aclrtMemcpyAsync");
	check_call(aclrtSynchronizeStream(s), "aclrtSynchronizeStream");
	check_call(aclrtMallocHost(&p, 64), "aclrtMallocHost");
	check_call(aclrtFreeHost(p), "aclrtFreeHost");
}

static void in_children(void **)
{
	world w;

	refuse_in_children(w, calls, with_those_above(need_no_device), no_device_in_child,
			   [&](int i) { make_calls(w, i); });
	assert_int_equal(failed_calls, 0);
	/* The parent can still use the device. */
	memset(w.host, 0x5a, size);
	GOOD(aclrtMemcpyAsync(w.mem, size, w.host, size, ACL_MEMCPY_HOST_TO_DEVICE, w.stream));
	GOOD(aclrtSynchronizeStream(w.stream));
	GOOD(aclrtMemcpy(w.plain, size, w.mem, size, ACL_MEMCPY_DEVICE_TO_HOST));
	assert_memory_equal(w.plain, w.host, size);
}

/* ---- threads without a context ---------------------------------------------------------------------- */

static bool may_lack_context(std::string name)
{
	if (const auto at = over_acl.find(name); at != over_acl.end())
		name = at->second;
	return need_no_context.count(name) || (need_no_device.count(name) && !needs_context.count(name));
}

static void without_a_context(void **)
{
	std::unique_ptr<world> w;
	int wrong = 0;

	for (const auto &c : calls) {
		long code = 0;

		if (!w)
			w = std::make_unique<world>();
		std::thread([&] { code = c.call(*w); }).join();
		if (!may_lack_context(c.name) != (code == ACL_ERROR_RT_CONTEXT_NULL)) {
			print_error("%s: %ld without a context\n", c.name.c_str(), code);
			wrong++;
		}
		/* It may have ended an object. */
		if (code != ACL_ERROR_RT_CONTEXT_NULL && code != ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
			w.reset();
	}
	assert_int_equal(wrong, 0);
}

/* ---- cancellation ----------------------------------------------------------------------------------- */

/* The thread sets the context of this world before its call. */
static world *current_world;

static std::atomic<bool> goes_on;

static void wait_to_go_on(void *)
{
	while (!goes_on)
		std::this_thread::yield();
}

/*
 * Memory whose free was deferred, for copies that have ended: the next call that checks completes it, and unmaps the
 * memory, of a device in another process by a message.
 */
static void leave_something_to_reclaim(const world &w)
{
	aclrtStreamStatus status;
	void *late;

	goes_on = false;
	GOOD(aclrtMallocHost(&late, size));
	GOOD(aclrtLaunchHostFunc(w.stream, wait_to_go_on, nullptr));
	GOOD(aclrtMemcpyAsync(w.mem, 64, late, 64, ACL_MEMCPY_HOST_TO_DEVICE, w.stream));
	GOOD(aclrtFreeHost(late));
	goes_on = true;
	until("the copy has ended", [&] {
		GOOD(aclrtStreamQuery(w.stream, &status));
		return status == ACL_STREAM_STATUS_COMPLETE;
	});
}

static void with_a_cancel_pending(void **)
{
	int wrong = 0;

	for (const auto &c : calls) {
		if (over_acl.count(c.name)) /* its function of ACL is here */
			continue;
		world w;
		aclrtStream s;
		void *p;

		leave_something_to_reclaim(w);
		current_world = &w;
		cancelled_call<world> one{&w, &c};
		one.before = [] { GOOD(aclrtSetCurrentContext(current_world->context)); };
		if (!one.run()) {
			print_error("%s: a cancelled thread %s\n", c.name.c_str(),
				    one.returned ? "went on" : "ended in the call");
			wrong++;
		}
		/* The library still works for other threads. */
		GOOD(aclrtSetDevice(0));
		GOOD(aclrtMalloc(&p, 64, ACL_MEM_MALLOC_HUGE_FIRST));
		GOOD(aclrtCreateStream(&s));
		GOOD(aclrtMemsetAsync(p, 64, 1, 64, s));
		GOOD(aclrtSynchronizeStream(s));
		GOOD(aclrtDestroyStream(s));
		GOOD(aclrtFree(p));
	}
	assert_int_equal(wrong, 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(in_children),
		cmocka_unit_test(without_a_context),
		cmocka_unit_test(with_a_cancel_pending),
	};

	GOOD(aclInit(nullptr));
	const int failed = cmocka_run_group_tests_name("every ACL call", tests, nullptr, nullptr);
	return failed ? failed : aclFinalize();
}
