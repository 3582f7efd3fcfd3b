/* SPDX-License-Identifier: BSD-3-Clause */
/* Misuse of devices, contexts, streams, events, callbacks, notifies, virtual memory, keys and pools. */
#include "misuse.h"

#include <algorithm>
#include <atomic>
#include <pthread.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* deprecated calls are tested too */
#pragma GCC diagnostic ignored "-Wpedantic"                /* a ?: b is: b where a gave 0 */

using namespace usdma::test;

#define GARBAGE (reinterpret_cast<void *>(0x1234567890))

static void nothing(void *) {}

static void test_init(void **)
{
	int32_t n;
	uint64_t refs = 99;
	char text[ACL_PKG_VERSION_MAX_SIZE], runtime[] = "runtime", other[] = "toolkit";

	assert_int_equal(aclFinalize(), 100037);
	assert_int_equal(aclInit("/nonexistent/acl.json"), 100003);
	assert_int_equal(aclInit(nullptr), 0);
	assert_int_equal(aclInit(""), 100002);
	assert_int_equal(aclFinalizeReference(&refs), 0);
	assert_int_equal(refs, 1);
	assert_int_equal(aclFinalizeReference(nullptr), 0);
	assert_int_equal(aclFinalizeReference(nullptr), 100037);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(aclInit(nullptr), 0);
		assert_int_equal(aclInit(nullptr), 100002);
		assert_int_equal(aclFinalize(), 0);
		assert_int_equal(aclFinalize(), 100037);
	}
	assert_int_equal(aclrtGetVersion(nullptr, &n, &n), 100000);
	assert_int_equal(aclsysGetVersionStr(runtime, text), 0);
	assert_int_equal(aclsysGetVersionNum(other, &n), 100003);
	assert_int_equal(aclsysGetVersionNum(nullptr, &n), 100000);
	assert_non_null(aclrtGetSocName());
}

/* Argument errors leave the last error alone and have a message; runtime errors set it. */
static void test_last_error(void **)
{
	aclrtRunMode mode;

	aclrtGetLastError(ACL_RT_THREAD_LEVEL);
	while (aclGetRecentErrMsg())
		;
	assert_int_equal(aclrtGetRunMode(nullptr), 100000);
	assert_int_equal(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
	const char *text = aclGetRecentErrMsg();
	assert_non_null(text);
	assert_non_null(strstr(text, "aclrtGetRunMode"));
	assert_non_null(strstr(text, "runMode"));
	assert_null(aclGetRecentErrMsg());
	assert_int_equal(aclrtSetDevice(99), 107001);
	assert_int_equal(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 107001);
	std::thread([] {
		assert_int_equal(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 0);
		assert_null(aclGetRecentErrMsg());
	}).join();
	assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 107001);
	assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
	assert_int_equal(aclrtGetLastError(static_cast<aclrtLastErrLevel>(1)), 100000);
	assert_int_equal(aclrtGetRunMode(&mode), 0);
	assert_int_equal(mode, ACL_HOST);
	for (int i = 0; i < 200; i++) /* more than are retained */
		assert_int_equal(aclrtFree(nullptr), 100000);
	text = aclGetRecentErrMsg();
	assert_non_null(text);
	assert_true(strlen(text) < 4096 && strstr(text, "aclrtFree"));
}

/* A thread's text is freed at its exit; destructors of later keys may still make errors. */
static void late_error(void *)
{
	static constexpr size_t like_text = 8216;
	auto *block = static_cast<unsigned char *>(malloc(like_text));
	const auto touched = [](unsigned char byte) { return byte != 0x5a; };

	assert_non_null(block);
	memset(block, 0x5a, like_text);
	assert_int_equal(aclrtGetRunMode(nullptr), 100000);
	assert_false(std::any_of(block, block + like_text, touched));
	const char *text = aclGetRecentErrMsg();
	assert_true(text && strstr(text, "aclrtGetRunMode"));
	free(block);
}

static void test_late_errors(void **)
{
	pthread_key_t late;

	assert_int_equal(aclrtGetRunMode(nullptr), 100000); /* its key is the first */
	assert_int_equal(pthread_key_create(&late, late_error), 0);
	std::thread([&] {
		assert_int_equal(aclrtGetRunMode(nullptr), 100000);
		assert_int_equal(pthread_setspecific(late, &late), 0);
	}).join();
	assert_int_equal(pthread_key_delete(late), 0);
}

static void test_peers_at_once(void **)
{
	for (unsigned round = 0; round < 200 * scale(); round++) {
		std::atomic<unsigned> disabled{0}, ready{0};
		const auto disable = [&] {
			assert_int_equal(aclrtSetDevice(0), 0);
			ready++;
			while (ready < 2)
				;
			disabled += !aclrtDeviceDisablePeerAccess(1);
		};

		assert_int_equal(aclrtSetDevice(0), 0);
		assert_int_equal(aclrtDeviceEnablePeerAccess(1, 0), 0);
		std::thread other(disable);
		disable();
		other.join();
		assert_int_equal(disabled, 1);
		for (int uses = 0; uses < 3; uses++)
			assert_int_equal(aclrtResetDevice(0), 0);
	}
}

static void test_devices(void **)
{
	static int32_t id;
	static uint32_t n;
	static int64_t v;
	static aclrtDeviceStatus st;
	static const row rows[] = {
		ROW(107001, aclrtSetDevice(-1)),
		ROW(107001, aclrtSetDevice(99)),
		ROW(107001, aclrtResetDevice(99)),
		ROW(507007, aclrtResetDevice(1)),
		ROW(507007, aclrtResetDeviceForce(1)),
		ROW(100000, aclrtGetDevice(nullptr)),
		ALONE(107002, aclrtGetDevice(&id)),
		ROW(0, aclrtGetDevice(&id)),
		ROW(100000, aclrtGetDeviceCount(nullptr)),
		ALONE(0, aclrtGetDeviceCount(&n)),
		ALONE(107002, aclrtSynchronizeDevice()),
		ROW(107000, aclrtSynchronizeDeviceWithTimeout(0)),
		ROW(107000, aclrtSynchronizeDeviceWithTimeout(-2)),
		ROW(0, aclrtSynchronizeDeviceWithTimeout(-1)),
		ROW(0, aclrtSynchronizeDeviceWithTimeout(1000)),
		ROW(0, aclrtQueryDeviceStatus(0, &st)),
		ROW(0, aclrtDeviceGetStreamPriorityRange(nullptr, &id)),
		ROW(100000, aclrtDeviceGetBareTgid(nullptr)),
		ROW(100000, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, nullptr)),
		ROW(0, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &v)),
		ROW(0, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_CUBE_CORE_NUM, &v) ?: v != 20),
		ROW(0, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_VECTOR_CORE_NUM, &v) ?: v != 40),
		ROW(0, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_NPU_ARCH, &v) ?: v != 2201),
		ROW(0, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_AICPU_CORE_NUM, &v) ?: v != 6),
		ROW(207000, aclrtGetDeviceInfo(0, ACL_DEV_ATTR_L2_CACHE_SIZE, &v)),
		ROW(107000, aclrtGetDeviceInfo(0, static_cast<aclrtDevAttr>(999), &v)),
		ROW(107000, aclrtDeviceCanAccessPeer(nullptr, 0, 1)),
		ROW(100000, aclrtDeviceCanAccessPeer(&id, 0, 0)),
		ROW(0, aclrtDeviceCanAccessPeer(&id, 0, 1)),
		ROW(200006, aclrtDeviceEnablePeerAccess(1, 1)),
		ROW(100000, aclrtDeviceEnablePeerAccess(0, 0)),
		ALONE(107002, aclrtDeviceEnablePeerAccess(1, 0)),
		ROW(0, aclrtDeviceEnablePeerAccess(1, 0)),
		ROW(100000, aclrtDevicePeerAccessStatus(0, 1, nullptr)),
		ROW(0, aclrtDevicePeerAccessStatus(0, 1, &id) ?: id - 1),
		ROW(0, aclrtDeviceDisablePeerAccess(1)),
		ROW(107000, aclrtDeviceDisablePeerAccess(1)),
		ROW(100000, aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, nullptr)),
		ROW(0, aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &n) ?: int(n) - 20),
	};

	run_rows(rows);
}

static void test_contexts(void **)
{
	static aclrtContext c;
	static aclrtStream s;
	static int32_t active;
	static uint32_t flags;
	static int64_t v;
	static const row rows[] = {
		ROW(100000, aclrtCreateContext(nullptr, 0)),
		ROW(107001, aclrtCreateContext(&c, 99)),
		ROW(100000, aclrtDestroyContext(nullptr)),
		ROW(107002, aclrtDestroyContext(f.context)),
		ROW(107002, aclrtDestroyContext(GARBAGE)),
		ROW(100000, aclrtSetCurrentContext(nullptr)),
		ROW(107000, aclrtSetCurrentContext(GARBAGE)),
		ROW(107000, aclrtSetCurrentContext(f.stream)),
		ROW(100000, aclrtGetCurrentContext(nullptr)),
		ALONE(107002, aclrtGetCurrentContext(&c)),
		ROW(100000, aclrtCtxGetCurrentDefaultStream(nullptr)),
		ALONE(107002, aclrtCtxGetCurrentDefaultStream(&s)),
		ROW(100000, aclrtGetPrimaryCtxState(0, &flags, &active)),
		ROW(107001, aclrtGetPrimaryCtxState(99, nullptr, &active)),
		ROW(0, aclrtGetPrimaryCtxState(0, nullptr, &active) ?: active - 1),
		ROW(0, aclrtGetPrimaryCtxState(1, nullptr, &active) ?: active),
		ROW(107021, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &v)),
		ROW(100000, aclrtCtxSetSysParamOpt(static_cast<aclSysParamOpt>(9), 1)),
		ROW(0, aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1)),
		ROW(0, aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &v)),
		ALONE(0, aclrtCreateContext(&c, 0)),
		ROW(0, aclrtDestroyContext(c)),
		ROW(107002, aclrtDestroyContext(c)),
		ROW(107000, aclrtSetCurrentContext(c)),
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
		ROW(100000, aclrtCreateStream(nullptr)),
		ALONE(107002, aclrtCreateStream(&s)),
		ROW(100000, aclrtDestroyStream(nullptr)),
		ROW(107017, aclrtDestroyStream(f.dead_stream)),
		ROW(107017, aclrtDestroyStream(GARBAGE)),
		ROW(107017, aclrtDestroyStreamForce(f.event)),
		ROW(107003, aclrtDestroyStream(f.foreign)),
		ROW(107000, aclrtCtxGetCurrentDefaultStream(&s) ?: aclrtDestroyStream(s)),
		ROW(107017, aclrtSynchronizeStream(f.dead_stream)),
		ROW(0, aclrtSynchronizeStream(f.foreign)),
		ALONE(107002, aclrtSynchronizeStream(f.stream)),
		ALONE(107017, aclrtSynchronizeStream(f.dead_stream)),
		ALONE(107002, aclrtSynchronizeStreamWithTimeout(f.stream, 10)),
		ALONE(107002, aclrtStreamQuery(f.stream, &st)),
		ALONE(107002, aclrtStreamGetPriority(f.stream, &u)),
		ALONE(107002, aclrtStreamGetFlags(f.stream, &u)),
		ALONE(0, aclrtStreamGetId(f.stream, &id)),
		ALONE(107002, aclrtSynchronizeStream(nullptr)),
		ROW(107000, aclrtSynchronizeStreamWithTimeout(f.stream, 0)),
		ROW(107000, aclrtSynchronizeStreamWithTimeout(f.stream, -2)),
		ROW(107000, aclrtSynchronizeStreamWithTimeout(f.dead_stream, -2)),
		ROW(107017, aclrtSynchronizeStreamWithTimeout(f.dead_stream, 10)),
		ROW(0, aclrtSynchronizeStreamWithTimeout(f.stream, 10)),
		ROW(100000, aclrtStreamQuery(f.stream, nullptr)),
		ROW(0, aclrtStreamQuery(f.foreign, &st) ?: st),
		ROW(107017, aclrtStreamQuery(f.dead_stream, &st)),
		ROW(100000, aclrtStreamGetId(f.stream, nullptr)),
		ROW(0, aclrtStreamGetId(f.stream, &id)),
		ROW(0, aclrtCreateStreamWithConfig(&s, 99, 0xffffffff) ?:
			       aclrtStreamGetPriority(s, &u)           ?:
									 int(u) - 7),
		ROW(0, (v.streamPriority = 3, aclrtSetStreamAttribute(s, ACL_STREAM_ATTR_PRIORITY, &v)) ?:
			       aclrtGetStreamAttribute(s, ACL_STREAM_ATTR_PRIORITY, &v)                 ?:
			       int(v.streamPriority) - 3),
		ROW(0, aclrtStreamGetFlags(s, &u) ?: int(u) - 0x3f),
		ROW(0, aclrtDestroyStream(s)),
		ROW(107017, aclrtStreamGetPriority(s, &u)),
		ROW(100000, aclrtSetStreamAttribute(f.stream, ACL_STREAM_ATTR_PRIORITY, nullptr)),
		ROW(107000, aclrtSetStreamAttribute(f.stream, static_cast<aclrtStreamAttr>(9), &v)),
		ROW(107000, aclrtGetStreamAttribute(f.stream, static_cast<aclrtStreamAttr>(9), &v)),
		ROW(0, (v.userCustomTag = 77, aclrtSetStreamAttribute(f.stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v))),
		ROW(0, (v.userCustomTag = 0, aclrtGetStreamAttribute(f.stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &v)) ?:
			       int(v.userCustomTag) - 77),
		ROW(0, aclrtSetStreamFailureMode(f.stream, ACL_STOP_ON_FAILURE)),
		ROW(207000, aclrtSetStreamFailureMode(f.stream, ACL_CONTINUE_ON_FAILURE)),
		ROW(107017, aclrtStreamAbort(f.dead_stream)),
		ROW(0, aclrtCreateStream(&s) ?: aclrtStreamAbort(s)),
		ROW(107023, aclrtSynchronizeStream(s)),
		ROW(107023, aclrtMemsetAsync(f.dev, 8, 0, 8, s)),
		ROW(0, aclrtDestroyStream(s)),
		ROW(100000, aclrtRegStreamStateCallback(nullptr, nullptr, nullptr)),
		ROW(100000, aclrtCreateStreamV2(nullptr, nullptr)),
		ROW(0, aclrtCreateStreamV2(&s, nullptr) ?: aclrtDestroyStream(s)),
		ROW(207000, aclrtActiveStream(f.stream, f.stream)),
	};
	aclrtStreamConfigHandle *h = aclrtCreateStreamConfigHandle();
	uint32_t four = 3, eight_pri = 8;
	size_t eight = 3;

	run_rows(rows);
	assert_non_null(h);
	assert_int_equal(aclrtSetStreamConfigOpt(h, ACL_RT_STREAM_FLAG, &four, 4), 0);
	assert_int_equal(aclrtSetStreamConfigOpt(h, ACL_RT_STREAM_FLAG, &eight, 8), 0);
	assert_int_equal(aclrtSetStreamConfigOpt(h, ACL_RT_STREAM_FLAG, &eight, 2), 100000);
	assert_int_equal(aclrtSetStreamConfigOpt(h, ACL_RT_STREAM_PRIORITY, &eight_pri, 4), 100000);
	assert_int_equal(aclrtSetStreamConfigOpt(h, ACL_RT_STREAM_PRIORITY, &four, 4), 0);
	assert_int_equal(aclrtDestroyStreamConfigHandle(h), 0);
	assert_int_equal(aclrtDestroyStreamConfigHandle(nullptr), 100000);
}

static void test_events(void **)
{
	static aclrtEvent e;
	static aclrtEventStatus st;
	static aclrtEventRecordedStatus rs;
	static aclrtEventWaitStatus ws;
	static aclrtIpcEventHandle h;
	static float ms;
	static uint64_t us;
	static const row rows[] = {
		ROW(100000, aclrtCreateEvent(nullptr)),
		ALONE(107002, aclrtCreateEvent(&e)),
		ROW(107000, aclrtCreateEventWithFlag(&e, 0)),
		ROW(107000, aclrtCreateEventWithFlag(&e, 0x100)),
		ROW(107000, aclrtCreateEventWithFlag(&e, ACL_EVENT_IPC | ACL_EVENT_SYNC)),
		ROW(107000, aclrtCreateEventExWithFlag(&e, ACL_EVENT_DEVICE_USE_ONLY)),
		ROW(107000, aclrtCreateEventExWithFlag(&e, 0)),
		ROW(100000, aclrtCreateEventExWithFlag(nullptr, 1)),
		ROW(100000, aclrtDestroyEvent(nullptr)),
		ROW(107017, aclrtDestroyEvent(f.dead_event)),
		ROW(107017, aclrtDestroyEvent(f.stream)),
		ROW(100000, aclrtRecordEvent(nullptr, f.stream)),
		ROW(107017, aclrtRecordEvent(f.dead_event, f.stream)),
		ROW(107017, aclrtRecordEvent(f.event, f.dead_stream)),
		ROW(107003, aclrtRecordEvent(f.event, f.foreign)),
		ROW(100000, aclrtRecordEventWithFlag(f.event, f.stream, 2)),
		ROW(107029, aclrtRecordEventWithFlag(f.event, f.stream, 1)),
		/* never recorded */
		ROW(0, aclrtQueryEvent(f.event, &st) ?: st),
		ROW(207000, aclrtQueryEvent(f.ex, &st)),
		ROW(0, aclrtQueryEventStatus(f.event, &rs) ?: rs),
		ROW(1, aclrtQueryEventStatus(f.ex, &rs) ?: int(rs)),
		ROW(0, aclrtQueryEventWaitStatus(f.event, &ws) ?: ws),
		ROW(207000, aclrtQueryEventWaitStatus(f.ex, &ws)),
		ROW(0, aclrtSynchronizeEvent(f.event)),
		ROW(107000, aclrtSynchronizeEventWithTimeout(f.event, 0)),
		ROW(107000, aclrtSynchronizeEventWithTimeout(f.event, -2)),
		ROW(107000, aclrtSynchronizeEventWithTimeout(nullptr, -2)),
		ROW(107000, aclrtStreamWaitEvent(f.stream, f.event)),
		ROW(0, aclrtStreamWaitEvent(f.stream, f.ex)),
		ROW(100000, aclrtStreamWaitEvent(f.stream, nullptr)),
		ROW(107017, aclrtStreamWaitEvent(f.stream, f.dead_event)),
		ROW(107000, aclrtStreamWaitEventWithTimeout(f.stream, f.event, -1)),
		ROW(507000, aclrtEventElapsedTime(&ms, f.event, f.event)),
		ROW(100000, aclrtEventElapsedTime(nullptr, f.event, f.event)),
		ROW(507000, aclrtEventGetTimestamp(f.event, &us)),
		/* recorded */
		ROW(0, aclrtRecordEvent(f.event, f.stream) ?: aclrtSynchronizeEvent(f.event)),
		ROW(1, aclrtQueryEventStatus(f.event, &rs) ?: int(rs)),
		ROW(0, aclrtEventElapsedTime(&ms, f.event, f.event)),
		ROW(0, aclrtEventGetTimestamp(f.event, &us)),
		ROW(207000, aclrtResetEvent(f.ex, f.stream)),
		ROW(0, aclrtResetEvent(f.event, f.stream) ?: aclrtSynchronizeStream(f.stream)),
		ROW(0, aclrtQueryEventStatus(f.event, &rs) ?: rs),
		ROW(0, aclrtRecordEvent(f.ex, f.stream) ?: aclrtSynchronizeEvent(f.ex)),
		ROW(107006, aclrtEventElapsedTime(&ms, f.ex, f.ex)),
		/* no sync capability */
		ROW(0, aclrtCreateEventWithFlag(&e, ACL_EVENT_TIME_LINE)),
		ROW(207000, aclrtStreamWaitEvent(f.stream, e)),
		ROW(207000, aclrtResetEvent(e, f.stream)),
		ROW(107000, aclrtIpcGetEventHandle(e, &h)),
		ROW(0, aclrtDestroyEvent(e)),
		ROW(107000, aclrtIpcOpenEventHandle(h, &e)),
	};

	run_rows(rows);
}

/* Events of kernels, of other processes and of graphs. */
static void test_special_events(void **)
{
	static aclrtEvent device, ipc, external;
	static uint32_t id;
	static uint64_t ns;
	static float ms;
	static const row rows[] = {
		ROW(0, aclrtCreateEventWithFlag(&device, ACL_EVENT_DEVICE_USE_ONLY)),
		ROW(107000, aclrtRecordEvent(device, f.stream)),
		ROW(107000, aclrtStreamWaitEvent(f.stream, device)),
		ROW(107000, aclrtResetEvent(device, f.stream)),
		ROW(0, aclrtGetEventId(device, &id)),
		ROW(0, aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC)),
		ROW(0, aclrtCreateEventWithFlag(&external, ACL_EVENT_EXTERNAL)),
		ROW(207000, aclrtGetEventId(ipc, &id)),
		ROW(207000, aclrtGetEventId(external, &id)),
		ROW(207000, aclrtEventGetTimestamp(ipc, &ns)),
		ROW(207000, aclrtEventGetTimestamp(external, &ns)),
		ROW(207000, aclrtEventElapsedTime(&ms, ipc, f.event)),
		ROW(0, aclrtDestroyEvent(device)      ?:
			       aclrtDestroyEvent(ipc) ?:
							aclrtDestroyEvent(external)),
	};

	run_rows(rows);
}

static void wait_to_go(void *go)
{
	while (!*static_cast<std::atomic<bool> *>(go))
		std::this_thread::yield();
}

/* The host does not track the work of these: queries and synchronisations do not wait. */
static void test_streams_of_the_device(void **)
{
	for (const uint32_t flag : {ACL_STREAM_PERSISTENT, ACL_STREAM_CPU_SCHEDULE, ACL_STREAM_DEVICE_USE_ONLY, 0u}) {
		std::atomic<bool> go{false};
		aclrtStreamStatus status;
		aclrtStream s;
		fixture f;

		assert_int_equal(aclrtCreateStreamWithConfig(&s, 0, flag), 0);
		assert_int_equal(aclrtLaunchHostFunc(s, wait_to_go, &go), 0);
		assert_int_equal(aclrtStreamQuery(s, &status), 0);
		assert_int_equal(status, flag ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY);
		if (flag)
			assert_int_equal(aclrtSynchronizeStream(s), 0);
		go = true;
		assert_int_equal(aclrtDestroyStream(s), 0);
	}
}

static void test_callbacks(void **)
{
	static uint64_t me;
	static const row rows[] = {
		ROW(100000, aclrtProcessReport(0)),
		ROW(100000, aclrtProcessReport(-2)),
		ROW(107012, aclrtProcessReport(10)),
		ROW(107015, aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, f.stream)),
		ROW(107017, aclrtSubscribeReport(me, f.dead_stream)),
		ROW(107003, aclrtSubscribeReport(me, f.foreign)),
		ROW(107011, aclrtUnSubscribeReport(me, f.stream)),
		ROW(0, aclrtSubscribeReport(me, f.stream)),
		ROW(107011, aclrtSubscribeReport(me, f.stream)),
		ROW(107012, aclrtUnSubscribeReport(me + 1, f.stream)),
		ROW(100000, aclrtLaunchCallback(nothing, nullptr, static_cast<aclrtCallbackBlockType>(2), f.stream)),
		ROW(107000, aclrtLaunchCallback(nullptr, nullptr, ACL_CALLBACK_BLOCK, f.stream)),
		ROW(107017, aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, f.dead_stream)),
		ROW(507012, aclrtProcessReport(1)),
		ALONE(107012, aclrtProcessReport(10)),
		ROW(0, aclrtLaunchCallback(nothing, nullptr, ACL_CALLBACK_BLOCK, f.stream)),
		ROW(0, aclrtProcessReport(10000)),
		ROW(0, aclrtSynchronizeStream(f.stream)),
		ROW(0, aclrtUnSubscribeReport(me, f.stream)),
		ROW(107012, aclrtProcessReport(10)),
		ROW(107000, aclrtLaunchHostFunc(f.stream, nullptr, nullptr)),
		ROW(107017, aclrtLaunchHostFunc(f.dead_stream, nothing, nullptr)),
		ROW(0, aclrtLaunchHostFunc(nullptr, nothing, nullptr)),
		ROW(0, aclrtSynchronizeStream(nullptr)),
	};

	me = uint64_t(pthread_self());
	run_rows(rows);
}

static void test_words_and_notifies(void **)
{
	static aclrtNotify n;
	static aclrtCntNotify c;
	static aclrtCntNotifyRecordInfo rec = {ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 3},
					bad = {static_cast<aclrtCntNotifyRecordMode>(3), 3};
	static aclrtCntNotifyWaitInfo wait = {ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, 3, 5, 1, {}};
	static char key[128];
	static uint32_t id;
	static int32_t pid = 1;
	static const row rows[] = {
		ROW(100000, aclrtValueWrite(nullptr, 1, 0, f.stream)),
		ROW(107000, aclrtValueWrite(f.dev, 1, 1, f.stream)),
		ROW(107000, aclrtValueWrite(f.pin, 1, 0, f.stream)),
		ROW(107000, aclrtValueWrite(static_cast<char *>(f.dev) + 4, 1, 0, f.stream)),
		ROW(107017, aclrtValueWrite(f.dev, 1, 0, f.dead_stream)),
		ROW(0, aclrtValueWrite(f.dev, 1, 0, f.stream)),
		ROW(107000, aclrtValueWait(f.dev, 1, 4, f.stream)),
		ROW(0, aclrtValueWait(f.dev, 1, ACL_STREAM_WAIT_VALUE_EQ, f.stream)),
		ROW(0, aclrtSynchronizeStream(f.stream)),
		ROW(100000, aclrtCreateNotify(nullptr, 0)),
		ROW(107000, aclrtCreateNotify(&n, 2)),
		ALONE(107002, aclrtCreateNotify(&n, 0)),
		ALONE(107002, aclrtDestroyNotify(f.notify)),
		ROW(100000, aclrtRecordNotify(nullptr, f.stream)),
		ROW(107017, aclrtRecordNotify(f.dead_notify, f.stream)),
		ROW(107017, aclrtWaitAndResetNotify(f.dead_notify, f.stream, 0)),
		ROW(107003, aclrtRecordNotify(f.notify, f.foreign)),
		ROW(107017, aclrtDestroyNotify(f.stream)),
		ROW(0, aclrtGetNotifyId(f.notify, &id)),
		ROW(0, aclrtRecordNotify(f.notify, f.stream)                  ?:
			       aclrtWaitAndResetNotify(f.notify, f.stream, 5) ?:
										aclrtSynchronizeStream(f.stream)),
		ROW(0, aclrtWaitAndResetNotify(f.notify, f.stream, 1)),
		ROW(107020, aclrtSynchronizeStream(f.stream)),
		ROW(0, aclrtSynchronizeStream(f.stream)),
		ROW(107000, aclrtNotifyBatchReset(&f.notify, 0)),
		ROW(107017, aclrtNotifyBatchReset(&f.dead_notify, 1)),
		ROW(0, aclrtNotifyBatchReset(&f.notify, 1)),
		ROW(107000, aclrtNotifyGetExportKey(f.notify, key, 64, 0)),
		ROW(107000, aclrtNotifyGetExportKey(f.notify, key, 65, 1)),
		ROW(107000, aclrtNotifySetImportPid(f.notify, &pid, 1)),
		ROW(0, aclrtNotifyGetExportKey(f.notify, key, 65, 0)),
		ROW(0, int(strlen(key)) - 64),
		ROW(0, aclrtNotifySetImportPid(f.notify, &pid, 1)),
		ROW(207006, aclrtNotifyImportByKey(&n, key, 0)),
		ROW(107000, aclrtNotifyImportByKey(&n, "no key", 0)),
		ROW(107000, aclrtNotifyImportByKey(&n, key, 1)),
		ROW(0, aclrtCntNotifyCreate(&c, 0)),
		ALONE(107002, aclrtCntNotifyDestroy(c)),
		ROW(107017, aclrtRecordNotify(c, f.stream)),
		ROW(107000, aclrtCntNotifyRecord(c, f.stream, &bad)),
		ROW(0, aclrtCntNotifyRecord(c, f.stream, &rec)                   ?:
			       aclrtCntNotifyWaitWithTimeout(c, f.stream, &wait) ?:
										   aclrtSynchronizeStream(f.stream)),
		ROW(0, aclrtCntNotifyReset(c, f.stream) ?: aclrtCntNotifyDestroy(c)),
		ROW(107017, aclrtCntNotifyReset(c, f.stream)),
		ROW(100000, aclrtCmoAsync(nullptr, 8, ACL_RT_CMO_TYPE_FLUSH, f.stream)),
		ROW(0, aclrtCmoAsync(f.dev, 8, ACL_RT_CMO_TYPE_PREFETCH, f.stream)),
	};

	run_rows(rows);
}

static void test_virtual_memory(void **)
{
	static const size_t size = 4 << 20;
	static void *va;
	static aclrtDrvMemHandle h, h2;
	static size_t g;
	static uint64_t number, flag;
	static int32_t self;
	static aclrtPhysicalMemProp good, ddr, invalid_device;
	static aclrtMemAccessDesc access = {ACL_RT_MEM_ACCESS_FLAGS_READWRITE, {0, ACL_MEM_LOCATION_TYPE_DEVICE}, {}};
	static aclrtMemLocation loc = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	static const row rows[] = {
		ROW(100000, aclrtMemGetAllocationGranularity(nullptr, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &g)),
		ROW(207000, aclrtMemGetAllocationGranularity(&good, ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF, &g)),
		ROW(0, aclrtMemGetAllocationGranularity(&good, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &g) ?:
			       int(g) - (2 << 20)),
		ROW(100000, aclrtReserveMemAddress(nullptr, size, 0, nullptr, 0)),
		ROW(100000, aclrtReserveMemAddress(&va, 0, 0, nullptr, 0)),
		ROW(100000, aclrtReserveMemAddress(&va, size, 0, nullptr, 2)),
		ROW(107000, aclrtReserveMemAddress(&va, size, 0, GARBAGE, 0)),
		ROW(0, aclrtReserveMemAddress(&va, 2 * size, 0, nullptr, 1)),
		ROW(100000, aclrtMallocPhysical(nullptr, size, &good, 0)),
		ROW(100000, aclrtMallocPhysical(&h, size, &good, 1)),
		ROW(100000, aclrtMallocPhysical(&h, size, &ddr, 0)),
		ROW(107001, aclrtMallocPhysical(&h, size, &invalid_device, 0)),
		ROW(107000, aclrtMallocPhysical(&h, 4096, &good, 0)),
		ROW(0, aclrtMallocPhysical(&h, size, &good, 0)),
		ROW(100000, aclrtMapMem(va, size, 0, h, 1)),
		ROW(107017, aclrtMapMem(va, size, 0, f.stream, 0)),
		ROW(107000, aclrtMapMem(va, size, 4096, h, 0)),
		ROW(107000, aclrtMapMem(va, size / 2, 0, h, 0)),
		ROW(107000, aclrtMapMem(f.dev, size, 0, h, 0)),
		ROW(507899, aclrtMemcpyAsync(va, 8, f.pin, 8, ACL_MEMCPY_DEFAULT, f.stream)),
		ROW(0, aclrtMapMem(va, size, 0, h, 0)),
		ROW(107000, aclrtMapMem(va, size, 0, h, 0)),
		ROW(0, aclrtMemGetAccess(va, &loc, &flag) ?: int(flag) - 3),
		ROW(0, aclrtMemSetAccess(va, size, &access, 1)),
		ROW(107000, aclrtMemSetAccess(va, size / 2, &access, 1)),
		ROW(107000, aclrtFree(va)),
		ROW(107000, aclrtReleaseMemAddress(va)),
		ROW(0, aclrtMemset(va, size, 7, size)),
		ROW(0, aclrtMemRetainAllocationHandle(va, &h2)),
		ROW(0, h2 != h),
		ROW(0, aclrtFreePhysical(h2)),
		ROW(107000, aclrtMemExportToShareableHandle(h, ACL_MEM_HANDLE_TYPE_NONE, 2, &number)),
		ROW(100000, aclrtMemExportToShareableHandle(h, ACL_MEM_HANDLE_TYPE_POSIX, 0, &number)),
		ROW(0, aclrtMemExportToShareableHandle(h, ACL_MEM_HANDLE_TYPE_NONE, 0, &number)),
		ROW(107000, aclrtMemExportToShareableHandle(h, ACL_MEM_HANDLE_TYPE_NONE, 0, &number)),
		/* The upper half is the exporting process: Linux has none of this number. */
		ROW(107000, aclrtMemImportFromShareableHandle(number | 0x7fffffffull << 32, 0, &h2)),
		ROW(207006, aclrtMemImportFromShareableHandle(number, 0, &h2)),
		ROW(0, aclrtMemSetPidToShareableHandle(number, &self, 1)),
		ROW(0, aclrtMemImportFromShareableHandle(number, 0, &h2)),
		ROW(0, h2 == h),
		ROW(0, aclrtFreePhysical(h2)),
		ROW(0, aclrtFreePhysical(h)),
		ROW(107017, aclrtFreePhysical(h)),
		ROW(0, aclrtMemset(va, size, 8, size)),
		ROW(107000, aclrtUnmapMem(static_cast<char *>(va) + 4096)),
		ROW(0, aclrtUnmapMem(va)),
		ROW(107000, aclrtUnmapMem(va)),
		ROW(107000, aclrtMemset(va, size, 7, size)),
		ROW(0, aclrtReleaseMemAddress(va)),
		ROW(107000, aclrtReleaseMemAddress(va)),
	};

	good = {ACL_MEM_HANDLE_TYPE_NONE,
		ACL_MEM_ALLOCATION_TYPE_PINNED,
		ACL_HBM_MEM_HUGE,
		{0, ACL_MEM_LOCATION_TYPE_DEVICE},
		0};
	ddr = invalid_device = good;
	self = getpid();
	ddr.memAttr = ACL_DDR_MEM_HUGE;
	invalid_device.location.id = 99;
	run_rows(rows);
}

static void test_keys(void **)
{
	static char key[128];
	static void *p;
	static int32_t pid = 1;
	static const row rows[] = {
		ROW(100000, aclrtIpcMemGetExportKey(nullptr, 64, key, 65, 0)),
		ROW(107000, aclrtIpcMemGetExportKey(f.dev, 0, key, 65, 0)),
		ROW(107000, aclrtIpcMemGetExportKey(f.dev, 64, key, 0, 0)),
		ROW(107000, aclrtIpcMemGetExportKey(f.dev, 64, key, 65, 2)),
		ROW(107000, aclrtIpcMemGetExportKey(static_cast<char *>(f.dev) + 64, 64, key, 65, 0)),
		ROW(107000, aclrtIpcMemGetExportKey(f.pin, 64, key, 65, 0)),
		ROW(107000, aclrtIpcMemGetExportKey(f.dev, block * 64, key, 65, 0)),
		ROW(0, aclrtIpcMemGetExportKey(f.dev, block, key, 65, 0)),
		ROW(0, int(strlen(key)) - 64),
		ROW(107000, aclrtIpcMemSetImportPid(key, &pid, 0)),
		ROW(107000, aclrtIpcMemSetImportPid("no key", &pid, 1)),
		ROW(0, aclrtIpcMemSetImportPid(key, &pid, 1)),
		ROW(207006, aclrtIpcMemImportByKey(&p, key, 0)),
		ROW(107000, aclrtIpcMemImportByKey(&p, "no key", 0)),
		ROW(107000, aclrtIpcMemImportByKey(&p, key, 2)),
		ROW(100000, aclrtIpcMemClose(nullptr)),
		ROW(0, aclrtIpcMemClose(key)),
		ROW(107000, aclrtIpcMemClose(key)),
	};

	run_rows(rows);
}

static void test_pools(void **)
{
	static aclrtMemPool pool;
	static aclrtMemPoolProps good, host;
	static void *p;
	static uint64_t v;
	static const row rows[] = {
		ROW(100000, aclrtMemPoolCreate(nullptr, &good)),
		ROW(100000, aclrtMemPoolCreate(&pool, &host)),
		ROW(0, aclrtMemPoolCreate(&pool, &good)),
		ROW(100000, aclrtMemPoolMallocAsync(&p, 8, pool, nullptr)),
		ROW(100000, aclrtMemPoolMallocAsync(nullptr, 8, pool, f.stream)),
		ROW(107017, aclrtMemPoolMallocAsync(&p, 8, f.stream, f.stream)),
		ROW(107017, aclrtMemPoolMallocAsync(&p, 8, pool, f.dead_stream)),
		ROW(0, aclrtMemPoolMallocAsync(&p, 0, pool, f.stream)),
		ROW(207001, aclrtMemPoolMallocAsync(&p, 2 << 20, pool, f.stream)),
		ROW(0, aclrtMemPoolMallocAsync(&p, 1000, pool, f.stream)),
		ROW(0, aclrtMemsetAsync(p, 1000, 1, 1000, f.stream)),
		ROW(0, aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &v) ?: int(v) - 1024),
		ROW(107000, aclrtMemPoolFreeAsync(f.dev, f.stream)),
		ROW(0, aclrtMemPoolFreeAsync(p, f.stream)),
		ROW(107000, aclrtMemPoolFreeAsync(p, f.stream)),
		ROW(0, aclrtMemPoolTrimTo(pool, 0)),
		ROW(0, aclrtMemPoolGetAttr(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, &v) ?: int(v)),
		ROW(107000, aclrtMemPoolGetAttr(pool, static_cast<aclrtMemPoolAttr>(99), &v)),
		ROW(0, aclrtMemPoolDestroy(pool)),
		ROW(107017, aclrtMemPoolDestroy(pool)),
		ROW(100000, aclrtMemPoolDestroy(nullptr)),
	};

	good = {};
	good.location = {0, ACL_MEM_LOCATION_TYPE_DEVICE};
	good.maxSize = 1 << 20;
	host = good;
	host.location.type = ACL_MEM_LOCATION_TYPE_HOST;
	run_rows(rows);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_init),           cmocka_unit_test(test_last_error),
		cmocka_unit_test(test_late_errors),    cmocka_unit_test(test_peers_at_once),
		cmocka_unit_test(test_devices),        cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_streams),        cmocka_unit_test(test_events),
		cmocka_unit_test(test_special_events), cmocka_unit_test(test_streams_of_the_device),
		cmocka_unit_test(test_callbacks),      cmocka_unit_test(test_words_and_notifies),
		cmocka_unit_test(test_virtual_memory), cmocka_unit_test(test_keys),
		cmocka_unit_test(test_pools),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
