/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The codes named by the headers that no other test checks: devices, contexts, streams, events, callbacks
 * and notifies.  tests/docs/codes.py checks that each code of each call is in a test.
 */
#include "runtime/rt.h"
#include "misuse.h"

#include <atomic>
#include <chrono>
#include <vector>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* deprecated calls are tested too */
#pragma GCC diagnostic ignored "-Wpedantic"                /* a ?: b is: b where a gave 0 */

using namespace usdma::test;

static void nothing(void *) {}

static aclError no_end(void *)
{
	return 0;
}

static void test_versions_and_data_buffers(void **)
{
	static char runtime[] = "runtime", other[] = "toolkit", text[ACL_PKG_VERSION_MAX_SIZE];
	static const aclCannAttr *attrs;
	static size_t n;
	static int32_t v;
	static aclDataBuffer *buf;
	static const row rows[] = {
		ROW(100000, aclsysGetVersionStr(runtime, nullptr)),
		ROW(100000, aclsysGetVersionStr(nullptr, text)),
		ROW(100003, aclsysGetVersionStr(other, text)),
		ROW(100000, aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, nullptr, nullptr)),
		ROW(100000, aclFinalizeCallbackRegister(static_cast<aclRegisterCallbackType>(99), no_end, nullptr)),
		ROW(100000, aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, nullptr)),
		ROW(100000, aclFinalizeCallbackUnRegister(static_cast<aclRegisterCallbackType>(99), no_end)),
		ROW(100000, aclFinalizeCallbackUnRegister(ACL_REG_TYPE_OTHER, no_end)),
		ROW(100000, aclGetCannAttributeList(nullptr, &n)),
		ROW(100000, aclGetCannAttributeList(&attrs, nullptr)),
		ROW(0, aclGetCannAttributeList(&attrs, &n) ?: !n),
		ROW(0, aclGetCannAttribute(attrs[0], &v) ?: v != 0 && v != 1),
		ROW(100000, aclGetCannAttribute(attrs[0], nullptr)),
		ROW(100000, aclGetCannAttribute(ACL_CANN_ATTR_UNDEFINED, &v)),
		ROW(100000, aclDestroyDataBuffer(nullptr)),
		ROW(100000, aclUpdateDataBuffer(nullptr, f.heap, 8)),
		ROW(0, (buf = aclCreateDataBuffer(f.heap, 8), aclUpdateDataBuffer(buf, f.heap2, 16))),
		ROW(0, aclGetDataBufferAddr(buf) != f.heap2 || aclGetDataBufferSizeV2(buf) != 16),
		ROW(0, aclDestroyDataBuffer(buf)),
	};

	run_rows(rows);
}

static void test_devices(void **)
{
	static int32_t id;
	static uint32_t u;
	static int64_t v;
	static uint64_t topo;
	static aclrtDeviceStatus st;
	static aclrtUtilizationInfo load, extended;
	static aclrtUuid uuid, again, other;
	static aclrtErrorInfo info;
	static const auto feature = ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV;
	static const row rows[] = {
		ROW(100000, aclrtPeekAtLastError(static_cast<aclrtLastErrLevel>(1))),
		ROW(107001, aclrtResetDeviceForce(-1)),
		ROW(107001, aclrtResetDeviceForce(99)),
		ALONE(107002, aclrtSynchronizeDeviceWithTimeout(10)),
		ROW(100000, aclrtQueryDeviceStatus(0, nullptr)),
		ROW(107001, aclrtQueryDeviceStatus(99, &st)),
		ROW(0, aclrtQueryDeviceStatus(0, &st) ?: st != ACL_RT_DEVICE_STATUS_NORMAL),
		ROW(107001, aclrtGetDeviceInfo(99, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &v)),
		ROW(107001, aclrtGetDeviceInfo(0xffffffff, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &v)),
		ROW(100000, aclrtGetDeviceCapability(0, feature, nullptr)),
		ROW(107001, aclrtGetDeviceCapability(99, feature, &id)),
		ROW(107000, aclrtGetDeviceCapability(0, static_cast<aclrtDevFeatureType>(2), &id)),
		ROW(0, aclrtGetDeviceCapability(0, feature, &id) ?: id != ACL_DEV_FEATURE_NOT_SUPPORT),
		ALONE(0, aclrtDeviceGetStreamPriorityRange(nullptr, nullptr)),
		ROW(0, aclrtDeviceGetStreamPriorityRange(&id, nullptr) ?: id - 7),
		ROW(0, aclrtDeviceGetStreamPriorityRange(nullptr, &id) ?: id),
		ROW(100000, aclrtGetDeviceUtilizationRate(0, nullptr)),
		ROW(107001, aclrtGetDeviceUtilizationRate(99, &load)),
		ROW(100000, (extended.utilizationExtend = reinterpret_cast<aclrtUtilizationExtendInfo *>(f.heap),
			     aclrtGetDeviceUtilizationRate(0, &extended))),
		ROW(0, aclrtGetDeviceUtilizationRate(0, &load) ?:
			       load.cubeUtilization != -1 || load.memoryUtilization != -1),
		ROW(100000, aclrtDeviceGetUuid(0, nullptr)),
		ROW(107001, aclrtDeviceGetUuid(99, &uuid)),
		ROW(0, aclrtDeviceGetUuid(0, &uuid)          ?:
			       aclrtDeviceGetUuid(0, &again) ?:
							       memcmp(&uuid, &again, sizeof(uuid))),
		ROW(0, aclrtDeviceGetUuid(1, &other) ?: !memcmp(&uuid, &other, sizeof(uuid))),
		ROW(100000, aclrtGetLogicDevIdByUserDevId(0, nullptr)),
		ROW(107001, aclrtGetLogicDevIdByUserDevId(99, &id)),
		ROW(107001, aclrtGetLogicDevIdByUserDevId(-1, &id)),
		ROW(100000, aclrtGetUserDevIdByLogicDevId(0, nullptr)),
		ROW(107001, aclrtGetUserDevIdByLogicDevId(99, &id)),
		ROW(100000, aclrtGetLogicDevIdByPhyDevId(0, nullptr)),
		ROW(107001, aclrtGetLogicDevIdByPhyDevId(99, &id)),
		ROW(100000, aclrtGetPhyDevIdByLogicDevId(0, nullptr)),
		ROW(107001, aclrtGetPhyDevIdByLogicDevId(99, &id)),
		ROW(0, aclrtGetPhyDevIdByLogicDevId(1, &id) ?: id - 1),
		ROW(100000, aclrtGetDevicesTopo(0, 1, nullptr)),
		ROW(107001, aclrtGetDevicesTopo(0, 99, &topo)),
		ROW(107001, aclrtGetDevicesTopo(99, 0, &topo)),
		ROW(100000, aclrtSetTsDevice(static_cast<aclrtTsId>(7))),
		ROW(0, aclrtSetTsDevice(ACL_TS_ID_AICORE)),
		ROW(107001, aclrtSetDeviceResLimit(99, ACL_RT_DEV_RES_CUBE_CORE, 1)),
		ROW(107000, aclrtSetDeviceResLimit(0, static_cast<aclrtDevResLimitType>(2), 1)),
		ROW(107000, aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 0)),
		ROW(107000, aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 21)),
		ROW(107001, aclrtResetDeviceResLimit(99)),
		ROW(107001, aclrtGetDeviceResLimit(99, ACL_RT_DEV_RES_CUBE_CORE, &u)),
		ROW(107000, aclrtGetDeviceResLimit(0, static_cast<aclrtDevResLimitType>(2), &u)),
		ROW(100000, aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, nullptr)),
		ROW(107000, aclrtGetResInCurrentThread(static_cast<aclrtDevResLimitType>(2), &u)),
		ALONE(107002, aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &u)),
		ROW(0, aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &u) ?: int(u) - 40),
		ROW(0, aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_VECTOR_CORE, 7)),
		ROW(0, aclrtGetResInCurrentThread(ACL_RT_DEV_RES_VECTOR_CORE, &u) ?: int(u) - 7),
		ROW(0, aclrtGetDeviceResLimit(1, ACL_RT_DEV_RES_VECTOR_CORE, &u) ?: int(u) - 40),
		ROW(0, aclrtResetDeviceResLimit(0)),
		ROW(0, aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_VECTOR_CORE, &u) ?: int(u) - 40),
		ROW(100000, aclrtGetErrorVerbose(0, nullptr)),
		ROW(107001, aclrtGetErrorVerbose(99, &info)),
		ROW(0, aclrtGetErrorVerbose(0, &info) ?: info.errorType != ACL_RT_NO_ERROR),
		ROW(107001, aclrtDeviceCanAccessPeer(&id, 0, 99)),
		ROW(107001, aclrtDeviceCanAccessPeer(&id, 99, 0)),
		ROW(107001, aclrtDeviceEnablePeerAccess(99, 0)),
		ROW(100000, aclrtDeviceDisablePeerAccess(0)),
		ROW(107001, aclrtDeviceDisablePeerAccess(99)),
		ALONE(107002, aclrtDeviceDisablePeerAccess(1)),
		ROW(107001, aclrtDevicePeerAccessStatus(0, 99, &id)),
		ROW(107000, rtGetDeviceInfo(0, 0, 18, nullptr)),
		ROW(107001, rtGetDeviceInfo(99, 0, 18, &v)),
		ROW(0, rtGetDeviceInfo(1, 0, 18, &v) ?: v != 1),
		ROW(0, rtGetDeviceInfo(1, 0, 26, &v) ?: v != 1),
		ROW(0, rtGetDeviceInfo(1, 1, 18, &v) ?: v != 0),
		ROW(107001, rtEnableP2P(99, 0, 0)),
		ROW(107001, rtEnableP2P(0, 99, 0)),
		ROW(0, rtEnableP2P(0, 1, 0)                           ?:
			       aclrtDevicePeerAccessStatus(1, 0, &id) ?:
									id),
		ROW(0, aclrtDevicePeerAccessStatus(0, 1, &id) ?: id - 1),
		ROW(0, rtDisableP2P(0, 1)),
	};

	run_rows(rows);
}

static void test_contexts(void **)
{
	static int64_t v;
	static const auto none = static_cast<aclSysParamOpt>(99), early_start = ACL_OPT_ENABLE_KERNEL_EARLY_START,
			  strong = ACL_OPT_STRONG_CONSISTENCY;
	static const row rows[] = {
		ROW(100000, aclrtCtxSetSysParamOpt(early_start, 1)),
		ALONE(107002, aclrtCtxSetSysParamOpt(strong, 1)),
		ROW(100000, aclrtCtxGetSysParamOpt(early_start, nullptr)),
		ROW(100000, aclrtCtxGetSysParamOpt(none, &v)),
		ALONE(107002, aclrtCtxGetSysParamOpt(strong, &v)),
		ROW(100000, aclrtSetSysParamOpt(none, 1)),
		ROW(100000, aclrtGetSysParamOpt(early_start, nullptr)),
		ROW(100000, aclrtGetSysParamOpt(none, &v)),
		ROW(100000, aclrtGetSysParamOpt(early_start, &v)),
		ROW(107021, aclrtGetSysParamOpt(strong, &v)),
		ROW(0, aclrtSetSysParamOpt(strong, 7)          ?:
			       aclrtGetSysParamOpt(strong, &v) ?:
								 v != 7),
	};

	run_rows(rows);
}

static void test_streams(void **)
{
	static aclrtStream s;
	static aclrtStreamStatus st;
	static int32_t id;
	static uint32_t u;
	static aclrtStreamAttrValue v;
	static const row rows[] = {
		ROW(100000, aclrtCreateStreamWithConfig(nullptr, 0, 0)),
		ALONE(107002, aclrtCreateStreamWithConfig(&s, 0, 0)),
		ALONE(107002, aclrtCreateStreamV2(&s, nullptr)),
		ALONE(107002, aclrtSynchronizeStreamWithTimeout(nullptr, 10)),
		ALONE(107002, aclrtStreamQuery(nullptr, &st)),
		ROW(107017, aclrtStreamGetId(f.dead_stream, &id)),
		ALONE(107002, aclrtStreamGetId(nullptr, &id)),
		ROW(100000, aclrtStreamGetPriority(f.stream, nullptr)),
		ALONE(107002, aclrtStreamGetPriority(nullptr, &u)),
		ROW(100000, aclrtStreamGetFlags(f.stream, nullptr)),
		ROW(107017, aclrtStreamGetFlags(f.dead_stream, &u)),
		ALONE(107002, aclrtStreamGetFlags(nullptr, &u)),
		ROW(100000, aclrtGetStreamAvailableNum(nullptr)),
		ALONE(107002, aclrtGetStreamAvailableNum(&u)),
		ROW(107017, aclrtSetStreamFailureMode(f.dead_stream, ACL_STOP_ON_FAILURE)),
		ROW(107003, aclrtSetStreamFailureMode(f.foreign, ACL_STOP_ON_FAILURE)),
		ALONE(107002, aclrtSetStreamFailureMode(f.stream, ACL_STOP_ON_FAILURE)),
		ROW(0, aclrtSetStreamFailureMode(nullptr, ACL_CONTINUE_ON_FAILURE)),
		ROW(107017, aclrtSetStreamAttribute(f.dead_stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v)),
		ROW(107003, aclrtSetStreamAttribute(f.foreign, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v)),
		ROW(100000, aclrtGetStreamAttribute(f.stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, nullptr)),
		ROW(107017, aclrtGetStreamAttribute(f.dead_stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v)),
		ROW(107003, aclrtGetStreamAttribute(f.foreign, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v)),
		ROW(107003, aclrtStreamAbort(f.foreign)),
		ROW(107017, aclrtStreamStop(f.dead_stream)),
		ROW(107003, aclrtStreamStop(f.foreign)),
		ROW(107017, aclrtPersistentTaskClean(f.dead_stream)),
		ROW(207000, aclrtPersistentTaskClean(f.stream)),
		ROW(100000, aclrtActiveStream(nullptr, f.stream)),
		ROW(100000, aclrtActiveStream(f.stream, nullptr)),
		ROW(107017, aclrtActiveStream(f.dead_stream, f.stream)),
		ROW(107017, aclrtActiveStream(f.stream, f.dead_stream)),
		ROW(107000, aclrtRegStreamStateCallback("unregistered", nullptr, nullptr)),
		ROW(100000, aclrtGetThreadLastTaskId(nullptr)),
		ALONE(107002, aclrtGetThreadLastTaskId(&u)),
		ROW(107017, aclrtSetStreamOverflowSwitch(f.dead_stream, 1)),
		ROW(207000, aclrtSetStreamOverflowSwitch(f.stream, 1)),
		ROW(100000, aclrtGetStreamOverflowSwitch(f.stream, nullptr)),
		ROW(107017, aclrtGetStreamOverflowSwitch(f.dead_stream, &u)),
		ROW(0, (u = 1, aclrtGetStreamOverflowSwitch(f.stream, &u)) ?: int(u)),
	};

	run_rows(rows);
}

/* The id of the thread's last task increases with each task. */
static void test_task_numbers(void **)
{
	fixture f;
	uint32_t before, after;

	assert_int_equal(aclrtMemsetAsync(f.dev, 8, 0, 8, f.stream), 0);
	assert_int_equal(aclrtGetThreadLastTaskId(&before), 0);
	assert_int_equal(aclrtMemsetAsync(f.dev, 8, 0, 8, f.stream), 0);
	assert_int_equal(aclrtGetThreadLastTaskId(&after), 0);
	assert_true(after > before);
}

static void test_events(void **)
{
	static aclrtEvent e;
	static aclrtEventRecordedStatus rs;
	static aclrtEventWaitStatus ws;
	static aclrtIpcEventHandle h;
	static float ms;
	static uint32_t u;
	static const row rows[] = {
		ROW(100000, aclrtCreateEventWithFlag(nullptr, ACL_EVENT_SYNC)),
		ALONE(107002, aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC)),
		ALONE(107002, aclrtRecordEvent(f.event, nullptr)),
		ROW(100000, aclrtResetEvent(nullptr, f.stream)),
		ROW(107017, aclrtResetEvent(f.dead_event, f.stream)),
		ROW(107003, aclrtResetEvent(f.event, f.foreign)),
		ROW(100000, aclrtQueryEventStatus(nullptr, &rs)),
		ROW(100000, aclrtQueryEventStatus(f.event, nullptr)),
		ROW(107017, aclrtQueryEventStatus(f.dead_event, &rs)),
		ROW(100000, aclrtQueryEventWaitStatus(nullptr, &ws)),
		ROW(100000, aclrtQueryEventWaitStatus(f.event, nullptr)),
		ROW(107017, aclrtQueryEventWaitStatus(f.dead_event, &ws)),
		ROW(100000, aclrtSynchronizeEvent(nullptr)),
		ROW(107017, aclrtSynchronizeEvent(f.dead_event)),
		ROW(100000, aclrtSynchronizeEventWithTimeout(nullptr, 10)),
		ROW(107017, aclrtSynchronizeEventWithTimeout(f.dead_event, 10)),
		ROW(107017, aclrtEventElapsedTime(&ms, f.dead_event, f.event)),
		ROW(107017, aclrtEventElapsedTime(&ms, f.event, f.dead_event)),
		ROW(107003, aclrtStreamWaitEvent(f.foreign, f.event)),
		ROW(100000, aclrtStreamWaitEventWithFlag(f.stream, nullptr, 0, 0)),
		ROW(100000, aclrtStreamWaitEventWithFlag(f.stream, f.event, 0, 2)),
		ROW(100000, aclrtStreamWaitEventWithFlag(f.stream, f.event, 1, 1)),
		ROW(107029, aclrtStreamWaitEventWithFlag(f.stream, f.event, 0, 1)),
		ROW(100000, aclrtGetEventId(nullptr, &u)),
		ROW(100000, aclrtGetEventId(f.event, nullptr)),
		ROW(107017, aclrtGetEventId(f.dead_event, &u)),
		ROW(0, aclrtGetEventId(f.event, &u)),
		ROW(100000, aclrtGetEventAvailNum(nullptr)),
		ALONE(107002, aclrtGetEventAvailNum(&u)),
		ROW(100000, aclrtIpcGetEventHandle(nullptr, &h)),
		ROW(100000, aclrtIpcGetEventHandle(f.ex, nullptr)),
		ROW(107017, aclrtIpcGetEventHandle(f.dead_event, &h)),
		ROW(100000, aclrtIpcOpenEventHandle(h, nullptr)),
	};

	run_rows(rows);
}

static void test_callbacks(void **)
{
	static uint64_t me;
	static const row rows[] = {
		ROW(107017, aclrtUnSubscribeReport(me, f.dead_stream)),
		ROW(107003, aclrtUnSubscribeReport(me, f.foreign)),
		ROW(107003, aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, f.foreign)),
		ROW(107003, aclrtLaunchHostFunc(f.foreign, nothing, nullptr)),
		ROW(100000, aclrtValueWait(nullptr, 1, 0, f.stream)),
		ROW(107000, aclrtSetDeviceTaskAbortCallback("unregistered", nullptr, nullptr)),
	};

	me = uint64_t(pthread_self());
	run_rows(rows);
}

static void test_notifies(void **)
{
	static aclrtNotify n;
	static aclrtCntNotify c, dead;
	static aclrtBarrierTaskInfo barriers;
	static aclrtCntNotifyRecordInfo one = {ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1};
	static aclrtCntNotifyWaitInfo two = {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 2, 1, 0, {}}, none = two;
	static char key[128];
	static uint32_t id;
	static int32_t pid = 1;
	static const row rows[] = {
		ROW(100000, aclrtDestroyNotify(nullptr)),
		ROW(100000, aclrtWaitAndResetNotify(nullptr, f.stream, 1)),
		ROW(107003, aclrtWaitAndResetNotify(f.notify, f.foreign, 1)),
		ROW(100000, aclrtGetNotifyId(nullptr, &id)),
		ROW(100000, aclrtGetNotifyId(f.notify, nullptr)),
		ROW(107017, aclrtGetNotifyId(f.dead_notify, &id)),
		ROW(100000, aclrtNotifyBatchReset(nullptr, 1)),
		ROW(100000, aclrtNotifyGetExportKey(nullptr, key, 65, 0)),
		ROW(100000, aclrtNotifyGetExportKey(f.notify, nullptr, 65, 0)),
		ROW(107017, aclrtNotifyGetExportKey(f.dead_notify, key, 65, 0)),
		ROW(100000, aclrtNotifySetImportPid(nullptr, &pid, 1)),
		ROW(100000, aclrtNotifySetImportPid(f.notify, nullptr, 1)),
		ROW(107017, aclrtNotifySetImportPid(f.dead_notify, &pid, 1)),
		ROW(100000, aclrtNotifyImportByKey(nullptr, "no key", 0)),
		ROW(100000, aclrtNotifyImportByKey(&n, nullptr, 0)),
		ALONE(107002, aclrtNotifyImportByKey(&n, "no key", 0)),
		ROW(100000, aclrtCntNotifyCreate(nullptr, 0)),
		ROW(107000, aclrtCntNotifyCreate(&c, 2)),
		ALONE(107002, aclrtCntNotifyCreate(&c, 0)),
		ROW(0, aclrtCntNotifyCreate(&dead, 0) ?: aclrtCntNotifyDestroy(dead)),
		ROW(0, aclrtCntNotifyCreate(&c, 0)),
		ROW(100000, aclrtCntNotifyDestroy(nullptr)),
		ROW(107017, aclrtCntNotifyDestroy(dead)),
		ROW(100000, aclrtCntNotifyRecord(nullptr, f.stream, &one)),
		ROW(100000, aclrtCntNotifyRecord(c, f.stream, nullptr)),
		ROW(107017, aclrtCntNotifyRecord(dead, f.stream, &one)),
		ROW(107003, aclrtCntNotifyRecord(c, f.foreign, &one)),
		ROW(100000, aclrtCntNotifyWaitWithTimeout(nullptr, f.stream, &two)),
		ROW(100000, aclrtCntNotifyWaitWithTimeout(c, f.stream, nullptr)),
		ROW(107000, (none.mode = static_cast<aclrtCntNotifyWaitMode>(5),
			     aclrtCntNotifyWaitWithTimeout(c, f.stream, &none))),
		ROW(107017, aclrtCntNotifyWaitWithTimeout(dead, f.stream, &two)),
		ROW(107003, aclrtCntNotifyWaitWithTimeout(c, f.foreign, &two)),
		ROW(107020, aclrtCntNotifyWaitWithTimeout(c, f.stream, &two) ?: aclrtSynchronizeStream(f.stream)),
		ROW(100000, aclrtCntNotifyReset(nullptr, f.stream)),
		ROW(107003, aclrtCntNotifyReset(c, f.foreign)),
		ROW(100000, aclrtCntNotifyGetId(nullptr, &id)),
		ROW(100000, aclrtCntNotifyGetId(c, nullptr)),
		ROW(107017, aclrtCntNotifyGetId(dead, &id)),
		ROW(0, aclrtCntNotifyGetId(c, &id) ?: aclrtCntNotifyDestroy(c)),
		ROW(107000, aclrtCmoAsync(f.dev, 8, static_cast<aclrtCmoType>(9), f.stream)),
		ROW(100000, aclrtCmoAsyncWithBarrier(nullptr, 8, ACL_RT_CMO_TYPE_FLUSH, 0, f.stream)),
		ROW(207000, aclrtCmoAsyncWithBarrier(f.dev, 8, ACL_RT_CMO_TYPE_FLUSH, 0, f.stream)),
		ROW(100000, aclrtCmoWaitBarrier(nullptr, f.stream, 0)),
		ROW(100000, aclrtCmoWaitBarrier(&barriers, f.stream, 0)),
		ROW(100000, (barriers.barrierNum = ACL_RT_CMO_MAX_BARRIER_NUM + 1,
			     aclrtCmoWaitBarrier(&barriers, f.stream, 0))),
		ROW(207000, (barriers.barrierNum = 1, aclrtCmoWaitBarrier(&barriers, f.stream, 0))),
	};

	run_rows(rows);
}

/* ---- timeouts and limits ------------------------------------------------------------------------------ */

/* Static: a host function may read its gate after the end of its test. */
struct gate {
	std::atomic<bool> entered{false}, open{false};
};
static gate gates[4];

static void wait_at(void *g)
{
	static_cast<gate *>(g)->entered = true;
	while (!static_cast<gate *>(g)->open)
		std::this_thread::yield();
}

/* A host function runs for 20 ms after the abort, whose timeout is 1 ms. */
static void test_abort_takes_long(void **)
{
	fixture f;
	gate &g = gates[0];

	assert_int_equal(aclrtLaunchHostFunc(f.stream, wait_at, &g), 0);
	while (!g.entered)
		std::this_thread::yield();
	std::thread later([&] {
		std::this_thread::sleep_for(std::chrono::milliseconds(20));
		g.open = true;
	});
	assert_int_equal(aclrtDeviceTaskAbort(0, 1), 207020);
	later.join();
}

/* The function runs for longer than USDMA_HANG_MS. */
static void test_function_does_not_end(void **)
{
	for (const bool abort : {true, false}) {
		fixture f;
		gate &g = gates[abort ? 1 : 2];

		assert_int_equal(aclrtLaunchHostFunc(f.stream, wait_at, &g), 0);
		while (!g.entered)
			std::this_thread::yield();
		if (abort)
			assert_int_equal(aclrtStreamAbort(f.stream), 107020);
		else
			assert_int_equal(aclrtDeviceTaskAbort(0, 0), 107020);
		g.open = true;
		assert_int_equal(aclrtSynchronizeStream(f.stream), 107023);
		assert_int_equal(aclrtDestroyStream(f.stream), 0);
		assert_int_equal(aclrtCreateStream(&f.stream), 0);
	}
	fixture f;
	gate &g = gates[3];
	assert_int_equal(aclrtLaunchHostFunc(f.stream, wait_at, &g), 0);
	while (!g.entered)
		std::this_thread::yield();
	assert_int_equal(aclrtDestroyStreamForce(f.stream), 107020);
	g.open = true;
	assert_int_equal(aclrtCreateStream(&f.stream), 0);
}

static int32_t failing_callback(int32_t, aclrtDeviceTaskAbortStage, uint32_t, void *)
{
	return 5;
}

static void test_abort_callback_fails(void **)
{
	fixture f;

	assert_int_equal(aclrtSetDeviceTaskAbortCallback("bad", failing_callback, nullptr), 0);
	assert_int_equal(aclrtDeviceTaskAbort(0, 0), 507000);
	assert_int_equal(aclrtSetDeviceTaskAbortCallback("bad", nullptr, nullptr), 0);
	assert_int_equal(aclrtDeviceTaskAbort(0, 0), 0);
}

static constexpr uint32_t max_notifies = 65536, notifies_of_the_fixture = 1;

/* Creates `left` objects; the next one fails with `want`. */
template <class M, class D> static void fill_up(uint32_t left, aclError want, M make, D drop)
{
	std::vector<void *> all;
	void *one = nullptr;
	aclError err = 0;

	for (all.reserve(left); all.size() <= left && !(err = make(&one));)
		all.push_back(one);
	assert_int_equal(err, want);
	assert_int_equal(all.size(), left);
	for (void *v : all)
		assert_int_equal(drop(v), 0);
	assert_int_equal(make(&one), 0);
	assert_int_equal(drop(one), 0);
}

static void test_all_events(void **)
{
	fixture f;
	uint32_t left;

	assert_int_equal(aclrtGetEventAvailNum(&left), 0);
	fill_up(left, 207007, aclrtCreateEvent, aclrtDestroyEvent);
}

static void test_all_streams(void **)
{
	fixture f;
	uint32_t left;

	assert_int_equal(aclrtGetStreamAvailableNum(&left), 0);
	fill_up(left, 207008, aclrtCreateStream, aclrtDestroyStream);
}

static void test_all_notifies(void **)
{
	fixture f;

	fill_up(
		max_notifies - notifies_of_the_fixture, 207009, [](void **n) { return aclrtCreateNotify(n, 0); },
		aclrtDestroyNotify);
	fill_up(
		max_notifies - notifies_of_the_fixture, 207009, [](void **n) { return aclrtCntNotifyCreate(n, 0); },
		aclrtCntNotifyDestroy);
}

/* Kernels are not supported: each call checks its arguments and is refused. */
static void test_kernels(void **)
{
	static void *some = &some, *got;
	static const row rows[] = {
		ROW(100000, aclrtBinaryLoadFromFile(nullptr, nullptr, &got)),
		ROW(207000, aclrtBinaryLoadFromFile("/kernel.o", nullptr, &got)),
		ROW(100000, aclrtBinaryLoadFromData(some, 0, nullptr, &got)),
		ROW(207000, aclrtBinaryLoadFromData(some, 8, nullptr, &got)),
		ROW(100000, aclrtBinaryUnLoad(nullptr)),
		ROW(207000, aclrtBinaryUnLoad(some)),
		ROW(100000, aclrtBinaryGetFunction(some, nullptr, &got)),
		ROW(207000, aclrtBinaryGetFunction(some, "add", &got)),
		ROW(100000, aclrtKernelArgsInit(nullptr, &got)),
		ROW(207000, aclrtKernelArgsInit(some, &got)),
		ROW(100000, aclrtKernelArgsAppend(some, some, 0, &got)),
		ROW(207000, aclrtKernelArgsAppend(some, some, 8, &got)),
		ROW(100000, aclrtKernelArgsFinalize(nullptr)),
		ROW(207000, aclrtKernelArgsFinalize(some)),
		ROW(100000, aclrtLaunchKernel(nullptr, 1, some, 8, f.stream)),
		ROW(207000, aclrtLaunchKernel(some, 1, some, 8, f.stream)),
		ROW(100000, aclrtLaunchKernelV2(some, 1, nullptr, 8, nullptr, f.stream)),
		ROW(207000, aclrtLaunchKernelV2(some, 1, some, 8, nullptr, f.stream)),
		ROW(100000, aclrtLaunchKernelWithConfig(some, 1, f.stream, nullptr, nullptr, nullptr)),
		ROW(207000, aclrtLaunchKernelWithConfig(some, 1, f.stream, nullptr, some, nullptr)),
	};

	run_rows(rows);
}

static void test_capability(void **)
{
	static const auto none = static_cast<aclDeviceInfo>(3);
	static int64_t v;
	static int32_t id;
	static const row rows[] = {
		ROW(100000, aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, nullptr)),
		ROW(100000, aclGetDeviceCapability(0, none, &v)),
		ROW(100000, aclGetDeviceCapability(0, ACL_DEVICE_INFO_UNDEFINED, &v)),
		ROW(107001, aclGetDeviceCapability(99, ACL_DEVICE_INFO_AI_CORE_NUM, &v)),
		ROW(207000, aclGetDeviceCapability(0, ACL_DEVICE_INFO_L2_SIZE, &v)),
		ROW(0, aclGetDeviceCapability(0, ACL_DEVICE_INFO_AI_CORE_NUM, &v) ?: v != 20),
		ROW(0, aclGetDeviceCapability(1, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &v) ?: v != 40),
		ROW(100000, aclrtGetPhyDevIdByUserDevId(0, nullptr)),
		ROW(107001, aclrtGetPhyDevIdByUserDevId(99, &id)),
		ROW(0, aclrtGetPhyDevIdByUserDevId(1, &id) ?: id - 1),
		ROW(100000, aclrtGetUserDevIdByPhyDevId(0, nullptr)),
		ROW(107001, aclrtGetUserDevIdByPhyDevId(99, &id)),
		ROW(107001, aclrtGetUserDevIdByPhyDevId(-1, &id)),
		ROW(0, aclrtGetUserDevIdByPhyDevId(1, &id) ?: id - 1),
	};

	run_rows(rows);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_versions_and_data_buffers),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_task_numbers),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_callbacks),
		cmocka_unit_test(test_notifies),
		cmocka_unit_test(test_kernels),
		cmocka_unit_test(test_capability),
		cmocka_unit_test(test_abort_takes_long),
		cmocka_unit_test(test_function_does_not_end),
		cmocka_unit_test(test_abort_callback_fails),
		cmocka_unit_test(test_all_events),
		cmocka_unit_test(test_all_streams),
		cmocka_unit_test(test_all_notifies),
	};

	setenv("USDMA_HANG_MS", "200", 1);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
