/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream capture: the code of each call in each state. */
#include "acl_capture.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <unistd.h>

using namespace usdma::test;

namespace {

/* ---- codes ------------------------------------------------------------------------------------------ */

void test_begin_and_info(void **)
{
	rig r(1);
	aclrtStream dead, deflt, uncaptured;
	aclmdlRICaptureStatus status;
	aclmdlRI info, m;

	GOOD(aclrtCreateStream(&dead));
	GOOD(aclrtDestroyStream(dead));
	GOOD(aclrtCtxGetCurrentDefaultStream(&deflt));
	GOOD(aclrtCreateStreamWithConfig(&uncaptured, 0, ACL_STREAM_DEVICE_USE_ONLY));
	IS(100000, aclmdlRICaptureBegin(nullptr, global));
	IS(107017, aclmdlRICaptureBegin(dead, global));
	IS(107000, aclmdlRICaptureBegin(r.s, static_cast<aclmdlRICaptureMode>(3)));
	IS(507000, aclmdlRICaptureBegin(uncaptured, global));
	IS(207000, aclmdlRICaptureBegin(deflt, global));
	std::thread([&] { IS(107002, aclmdlRICaptureBegin(r.s, global)); }).join();
	IS(100000, aclmdlRICaptureGetInfo(nullptr, &status, &info));
	IS(100000, aclmdlRICaptureGetInfo(r.s, nullptr, nullptr));
	IS(107017, aclmdlRICaptureGetInfo(dead, &status, &info));
	assert_int_equal(status_of(r.s), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
	IS(100000, aclmdlRICaptureEnd(nullptr, &m));
	IS(107029, aclmdlRICaptureEnd(r.s, nullptr));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	IS(107027, aclmdlRICaptureBegin(r.s, global));
	assert_int_equal(status_of(r.s), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
	GOOD(aclmdlRICaptureGetInfo(r.s, nullptr, &info));
	IS(107000, aclmdlRICaptureEnd(r.s, nullptr));
	IS(107026, aclmdlRIExecuteAsync(info, r.t));
	IS(107026, aclmdlRIDebugJsonPrint(info, "/dev/full", 0));
	IS(107026, aclmdlRIDestroy(info));
	m = r.end(r.s);
	assert_ptr_equal(m, info);
	GOOD(aclmdlRIExecuteAsync(m, r.s)); /* empty */
	GOOD(aclmdlRIExecuteAsync(m, nullptr));
	GOOD(aclrtSynchronizeDevice());
	GOOD(aclmdlRIDestroy(m));
	GOOD(aclrtDestroyStream(uncaptured));
}

void test_execute_and_destroy(void **)
{
	rig r(2);
	aclrtContext other;
	aclrtStream foreign;
	aclmdlRI m;
	std::atomic<int> calls{0}, late{0};

	GOOD(aclrtCreateContext(&other, 0));
	GOOD(aclrtCreateStream(&foreign));
	IS(107003, aclmdlRICaptureBegin(r.s, global));
	GOOD(aclrtSetCurrentContext(r.ctx));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	m = r.end(r.s);
	GOOD(aclmdlRIDestroyRegisterCallback(m, count_call, &calls));
	GOOD(aclmdlRIDestroyRegisterCallback(m, count_call, &calls));
	IS(100000, aclmdlRIDestroyRegisterCallback(m, nullptr, &calls));
	IS(100000, aclmdlRIDestroyRegisterCallback(nullptr, count_call, &calls));
	IS(100000, aclmdlRIDestroyUnregisterCallback(m, nullptr));
	IS(107000, aclmdlRIDestroyUnregisterCallback(m, [](void *) {}));
	IS(100000, aclmdlRIExecuteAsync(nullptr, r.s));
	IS(107003, aclmdlRIExecuteAsync(m, foreign));
	IS(100000, aclmdlRIExecute(nullptr, 1));
	IS(107000, aclmdlRIExecute(m, 0));
	IS(107000, aclmdlRIExecute(m, -2));
	IS(107000, aclmdlRIExecute(m, -1));
	GOOD(aclmdlRICaptureBegin(r.t, global));
	IS(107027, aclmdlRIExecuteAsync(m, r.t));
	GOOD(aclmdlRIDestroy(r.end(r.t)));
	GOOD(aclrtSetCurrentContext(other));
	IS(107004, aclmdlRIExecuteAsync(m, foreign));
	IS(107004, aclmdlRIDestroy(m));
	IS(107004, aclmdlRIDebugJsonPrint(m, "/dev/null", 0));
	GOOD(aclrtSetCurrentContext(r.ctx));
	IS(100000, aclmdlRIDestroy(nullptr));
	assert_int_equal(calls.load(), 0);
	GOOD(aclmdlRIDestroy(m));
	assert_int_equal(calls.load(), 2);
	IS(107017, aclmdlRIDestroy(m));
	IS(107017, aclmdlRIExecuteAsync(m, r.s));
	IS(107017, aclmdlRIDestroyRegisterCallback(m, count_call, &calls));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	m = r.end(r.s);
	GOOD(aclmdlRIDestroyRegisterCallback(m, count_call, &late));
	GOOD(aclmdlRIDestroyUnregisterCallback(m, count_call));
	GOOD(aclmdlRIDestroy(m));
	assert_int_equal(late.load(), 0);
	/* Destroying a context destroys its captures and instances. */
	GOOD(aclrtSetCurrentContext(other));
	GOOD(aclmdlRICaptureBegin(foreign, global));
	GOOD(aclmdlRICaptureGetInfo(foreign, nullptr, &m));
	GOOD(aclrtDestroyContext(other));
	GOOD(aclrtSetCurrentContext(r.ctx));
	IS(107017, aclmdlRIDestroy(m));
	GOOD(aclrtMemcpy(r.dev, size, r.pin, size, ACL_MEMCPY_HOST_TO_DEVICE));
}

void test_refused(void **)
{
	rig r(3);
	aclrtStreamStatus status;
	aclrtStreamAttrValue value{};
	aclmdlRI m;

	memset(r.back, 0, size);
	GOOD(aclmdlRICaptureBegin(r.s, relaxed));
	r.around([](rig &in) { return rig::copy(in.dev, in.pin, in.t); });
	for (aclrtStream x : {r.s, r.t}) {
		IS(107027, aclrtSynchronizeStream(x));
		IS(107027, aclrtSynchronizeStreamWithTimeout(x, 10));
		IS(107027, aclrtStreamQuery(x, &status));
		IS(107027, aclrtDestroyStream(x));
		IS(107027, aclrtDestroyStreamForce(x));
		IS(107027, aclmdlRICaptureTaskUpdateBegin(x, x));
		IS(107027, aclmdlRICaptureTaskUpdateEnd(x));
		IS(107027, aclrtSetStreamOverflowSwitch(x, 0));
		IS(107027, aclrtSetStreamAttribute(x, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value));
		assert_int_equal(status_of(x), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
	}
	IS(107027, aclrtSynchronizeDevice());
	IS(107027, aclrtSynchronizeDeviceWithTimeout(10));
	IS(107000, rig::copy(r.dev, r.heap, r.s));
	IS(107000, aclrtMemcpy2dAsync(r.dev, 64, r.heap, 64, 64, 8, ACL_MEMCPY_HOST_TO_DEVICE, r.s));
	IS(107000, aclrtMemcpyAsync(r.dev, 1, r.pin, 2, ACL_MEMCPY_DEFAULT, r.s));
	IS(107000, rig::copy(r.dev, r.pin, r.s, size_t(1) << 30));
	GOOD(rig::copy(r.dev, r.heap, r.u)); /* RELAXED: allowed */
	IS(107036, aclmdlRICaptureEnd(r.t, &m));
	GOOD(rig::copy(r.back, r.dev, r.s));
	/* Of pageable memory, as what it is not. */
	GOOD(aclrtMemcpyAsync(r.heap, size, r.dev, size, ACL_MEMCPY_DEVICE_TO_DEVICE, r.s));
	m = r.end(r.s);
	for (aclrtStream x : {r.s, r.t})
		assert_int_equal(status_of(x), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
	GOOD(aclrtSynchronizeDevice());
	assert_int_equal(r.back[0] | memcmp(r.back, r.back + 1, size - 1), 0);
	GOOD(aclmdlRIExecuteAsync(m, r.u));
	GOOD(aclrtSynchronizeStream(r.u));
	for (const void *copied : {r.back, r.heap})
		assert_memory_equal(copied, r.pin, size);
	GOOD(aclmdlRIDestroy(m));
}

/* Synchronous copies depend on the thread's mode, and on the captures of this thread and of other threads. */
void test_modes(void **)
{
	static const struct {
		aclmdlRICaptureMode capture, thread;
		aclError own, other;
	} rows[] = {
		{global, global, 107030, 107030}, {global, local, 107030, 0}, {global, relaxed, 0, 0},
		{local, global, 107030, 0},       {local, local, 107030, 0},  {local, relaxed, 0, 0},
		{relaxed, global, 0, 0},          {relaxed, local, 0, 0},     {relaxed, relaxed, 0, 0},
	};
	rig r(4);
	aclmdlRICaptureMode bad = static_cast<aclmdlRICaptureMode>(3);

	IS(100000, aclmdlRICaptureThreadExchangeMode(nullptr));
	IS(107000, aclmdlRICaptureThreadExchangeMode(&bad));
	std::thread([&] { IS(107002, aclmdlRICaptureThreadExchangeMode(&bad)); }).join();
	for (const auto &row : rows) {
		const auto all = [&](aclError want) {
			aclmdlRICaptureMode mode = row.thread;

			GOOD(aclmdlRICaptureThreadExchangeMode(&mode));
			assert_int_equal(mode, global);
			IS(want, aclrtMemcpy(r.dev, size, r.pin, size, ACL_MEMCPY_HOST_TO_DEVICE));
			IS(want, aclrtMemset(r.dev, size, 1, size));
			IS(want, aclrtMemcpy2d(r.dev, 64, r.pin, 64, 64, 8, ACL_MEMCPY_HOST_TO_DEVICE));
			IS(want ? 107041 : 0, rig::copy(r.dev, r.heap, r.u));
			IS(want ? 107041 : 0,
			   aclrtMemcpy2dAsync(r.dev, 64, r.heap, 64, 64, 8, ACL_MEMCPY_HOST_TO_DEVICE, r.u));
			GOOD(rig::copy(r.dev, r.pin, r.u));
			GOOD(aclrtSynchronizeStream(r.u));
			GOOD(aclmdlRICaptureThreadExchangeMode(&mode));
			assert_int_equal(mode, row.thread);
		};

		GOOD(aclmdlRICaptureBegin(r.s, row.capture));
		GOOD(aclmdlRICaptureBegin(r.t, relaxed)); /* the stricter one of two captures applies */
		all(row.own);
		std::thread([&] {
			GOOD(aclrtSetCurrentContext(r.ctx));
			all(row.other);
		}).join();
		GOOD(aclmdlRIDestroy(r.end(r.s)));
		GOOD(aclrtMemset(r.dev, size, 1, size));
		GOOD(aclmdlRIDestroy(r.end(r.t)));
	}
}

void test_end_in_another_thread(void **)
{
	rig r(5);
	aclmdlRI info, m;

	GOOD(aclmdlRICaptureBegin(r.s, local));
	GOOD(aclmdlRICaptureGetInfo(r.s, nullptr, &info));
	std::thread([&] {
		GOOD(aclrtSetCurrentContext(r.ctx));
		GOOD(rig::copy(r.dev, r.pin, r.s)); /* captured, from any thread */
		IS(107038, aclmdlRICaptureEnd(r.s, &m));
		assert_null(m);
	}).join();
	IS(107029, aclmdlRICaptureEnd(r.s, &m));
	assert_int_equal(status_of(r.s), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
	IS(507011, aclmdlRIExecuteAsync(info, r.s));
	IS(507011, aclmdlRIDebugJsonPrint(info, "/dev/full", 0));
	GOOD(aclmdlRIDestroy(info));
	GOOD(aclmdlRICaptureBegin(r.s, relaxed));
	std::thread([&] {
		GOOD(aclrtSetCurrentContext(r.ctx));
		m = r.end(r.s);
	}).join();
	GOOD(aclmdlRIDestroy(m));
}

/* The tasks of an instance as a file. */
void test_print(void **)
{
	rig r(6);
	char path[] = "/tmp/usdma-print.XXXXXX", id[16];
	uint32_t number;

	close(mkstemp(path));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	GOOD(rig::copy(r.dev, r.pin, r.s));
	GOOD(aclrtMemsetAsync(r.dev, size, 1, size, r.s));
	const aclmdlRI m = r.end(r.s);
	GOOD(aclmdlRISetName(m, "a \"name\""));
	IS(100000, aclmdlRIDebugJsonPrint(m, nullptr, 0));
	IS(107000, aclmdlRIDebugJsonPrint(m, path, 2));
	IS(107009, aclmdlRIDebugJsonPrint(m, "/no such folder/file", 0));
	IS(107010, aclmdlRIDebugJsonPrint(m, "/dev/full", 0));
	GOOD(aclmdlRIDebugJsonPrint(m, path, ACL_MDLRI_DEBUG_JSON_PRINT_VERBOSE));
	GOOD(aclmdlRIGetId(m, &number));
	snprintf(id, sizeof(id), "%u", number);
	std::ifstream file(path);
	const std::string text{std::istreambuf_iterator<char>(file), {}};
	const std::string want = std::string("{\"id\": ") + id +
				 ", \"name\": \"a \\u0022name\\u0022\", \"streams\": 1, \"tasks\": [\n"
				 "  {\"stream\": 0, \"type\": \"copy\", \"items\": 1, \"bytes\": " +
				 std::to_string(size) + "},\n  {\"stream\": 0, \"type\": \"task\"}\n]}\n";
	assert_string_equal(text.c_str(), want.c_str());
	GOOD(aclmdlRIDestroy(m));
	IS(107017, aclmdlRIDebugJsonPrint(m, path, 0));
	unlink(path);
}

/* Refused while an execution has not finished; the instance is unchanged. */
void test_destroy_while_running(void **)
{
	rig r(16);

	GOOD(aclrtMemset(r.dev, size, 0, size));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	GOOD(aclrtValueWait(r.dev, 1, ACL_STREAM_WAIT_VALUE_EQ, r.s));
	const aclmdlRI m = r.end(r.s);
	GOOD(aclmdlRIExecuteAsync(m, r.t));
	IS(107037, aclmdlRIDestroy(m));
	GOOD(aclrtValueWrite(r.dev, 1, 0, r.u));
	GOOD(aclmdlRIExecuteAsync(m, r.t));
	GOOD(aclmdlRIDestroy(m));
}

/* ---- events -------------------------------------------------------------------------------------------- */

void test_unjoined(void **)
{
	static const struct {
		const char *what;
		aclError want;
		aclError (*work)(rig &r);
	} rows[] = {
		{"joined", 0,
		 [](rig &r) { return aclrtRecordEvent(r.join, r.t) ?: aclrtStreamWaitEvent(r.s, r.join); }},
		{"no record", 107025, [](rig &r) { return rig::copy(r.dev, r.pin, r.t); }},
		{"only waits", 107025, [](rig &) { return 0; }},
		{"not waited for", 107025, [](rig &r) { return aclrtRecordEvent(r.join, r.t); }},
		{"work behind", 107025,
		 [](rig &r) {
			 return aclrtRecordEvent(r.join, r.t)             ?:
					aclrtStreamWaitEvent(r.s, r.join) ?:
									    rig::copy(r.dev, r.pin, r.t);
		 }},
		{"through a third", 0,
		 [](rig &r) {
			 return aclrtRecordEvent(r.join, r.t)             ?:
					aclrtStreamWaitEvent(r.u, r.join) ?:
					aclrtRecordEvent(r.fork, r.u)     ?:
									    aclrtStreamWaitEvent(r.s, r.fork);
		 }},
	};
	rig r(6);

	for (const auto &row : rows) {
		GOOD(aclmdlRICaptureBegin(r.s, global));
		GOOD(aclrtRecordEvent(r.fork, r.s));
		GOOD(aclrtStreamWaitEvent(r.t, r.fork));
		GOOD(row.work(r));
		aclmdlRI m = &m;
		const aclError got = aclmdlRICaptureEnd(r.s, &m);
		if (got != row.want)
			print_error("%s: %d instead of %d\n", row.what, got, row.want);
		assert_int_equal(got, row.want);
		for (aclrtStream x : {r.s, r.t, r.u})
			assert_int_equal(status_of(x), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
		if (!got)
			GOOD(aclmdlRIDestroy(m));
	}
	GOOD(aclmdlRICaptureBegin(r.s, global));
	GOOD(aclrtRecordEvent(r.fork, r.s));
	GOOD(aclrtStreamWaitEvent(r.t, r.fork));
	aclmdlRI m = nullptr;
	IS(107025, aclmdlRICaptureEnd(r.s, &m));
}

/* Neither the capture nor the replay has recorded the event. */
static void check_unrecorded(const rig &r)
{
	std::uint64_t us;

	GOOD(aclrtSynchronizeEvent(r.join));
	IS(507000, aclrtEventGetTimestamp(r.join, &us));
	GOOD(aclrtRecordEvent(r.join, r.t));
	GOOD(aclrtSynchronizeEvent(r.join));
}

void test_event_codes(void **)
{
	rig r(7);
	aclrtEvent plain, flag, time, ipc, never, live, outside;
	aclrtEventStatus status;
	aclrtEventRecordedStatus recorded;
	std::uint64_t us;
	float ms;
	aclmdlRI m;

	GOOD(aclrtCreateEvent(&plain));
	GOOD(aclrtCreateEventWithFlag(&flag, ACL_EVENT_SYNC));
	GOOD(aclrtCreateEventExWithFlag(&time, ACL_EVENT_TIME_LINE));
	GOOD(aclrtCreateEventExWithFlag(&ipc, ACL_EVENT_IPC));
	GOOD(aclrtCreateEventExWithFlag(&never, ACL_EVENT_SYNC));
	GOOD(aclrtCreateEventExWithFlag(&live, ACL_EVENT_SYNC));
	GOOD(aclrtCreateEventWithFlag(&outside, ACL_EVENT_EXTERNAL));
	GOOD(aclrtRecordEvent(live, r.u));
	GOOD(aclrtSynchronizeStream(r.u));
	IS(107029, aclrtRecordEventWithFlag(live, r.s, ACL_EVENT_RECORD_EXTERNAL));
	IS(107029, aclrtStreamWaitEventWithFlag(r.s, live, 0, ACL_EVENT_WAIT_EXTERNAL));
	IS(207000, aclrtSynchronizeEvent(outside));
	IS(207000, aclrtQueryEvent(outside, &status));
	IS(207000, aclrtQueryEventStatus(outside, &recorded));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	IS(207000, aclrtRecordEvent(plain, r.s));
	IS(207000, aclrtRecordEvent(flag, r.s));
	IS(207000, aclrtRecordEvent(ipc, r.s));
	GOOD(aclrtRecordEvent(time, r.s));
	IS(207000, aclrtStreamWaitEvent(r.s, time));
	IS(207000, aclrtStreamWaitEvent(r.s, plain));
	IS(207000, aclrtStreamWaitEvent(r.s, flag));
	IS(207000, aclrtResetEvent(never, r.s));
	GOOD(aclrtStreamWaitEvent(r.s, never));
	IS(107024, aclrtStreamWaitEvent(r.s, live));
	IS(207000, aclrtRecordEventWithFlag(plain, r.s, ACL_EVENT_RECORD_EXTERNAL));
	IS(207000, aclrtRecordEventWithFlag(time, r.s, ACL_EVENT_RECORD_EXTERNAL));
	IS(207000, aclrtStreamWaitEventWithFlag(r.s, plain, 0, ACL_EVENT_WAIT_EXTERNAL));
	IS(100000, aclrtStreamWaitEventWithFlag(r.s, live, 1, ACL_EVENT_WAIT_EXTERNAL));
	GOOD(aclrtStreamWaitEventWithFlag(r.s, live, 0, ACL_EVENT_WAIT_EXTERNAL));
	IS(107000, aclrtStreamWaitEventWithFlag(r.s, live, 0, ACL_EVENT_WAIT_EXTERNAL));
	IS(107000, aclrtRecordEvent(live, r.s));
	GOOD(aclrtRecordEvent(r.join, r.s));
	IS(107000, aclrtRecordEventWithFlag(r.join, r.s, ACL_EVENT_RECORD_EXTERNAL));
	IS(107031, aclrtStreamWaitEvent(nullptr, r.join));
	IS(107028, aclrtSynchronizeEvent(r.join));
	IS(107028, aclrtSynchronizeEventWithTimeout(r.join, 10));
	IS(107028, aclrtQueryEventStatus(r.join, &recorded));
	IS(107028, aclrtEventGetTimestamp(r.join, &us));
	IS(107028, aclrtEventElapsedTime(&ms, r.join, r.join));
	IS(207000, aclrtQueryEvent(r.join, &status));
	m = r.end(r.s);
	GOOD(aclmdlRIExecuteAsync(m, r.s));
	GOOD(aclrtSynchronizeStream(r.s));
	check_unrecorded(r);
	GOOD(aclmdlRIDestroy(m));
	for (aclrtEvent e : {plain, flag, time, ipc, never, live, outside})
		GOOD(aclrtDestroyEvent(e));
}

void test_conflict(void **)
{
	rig r(8);
	aclmdlRI m;

	GOOD(aclmdlRICaptureBegin(r.s, relaxed));
	GOOD(aclmdlRICaptureBegin(r.t, relaxed));
	GOOD(aclrtRecordEvent(r.fork, r.s));
	IS(107032, aclrtStreamWaitEvent(r.t, r.fork));
	IS(507903, aclmdlRICaptureEnd(r.s, &m));
	IS(507903, aclmdlRICaptureEnd(r.t, &m));
	assert_null(m);
	IS(107029, aclmdlRICaptureEnd(r.t, &m));
	GOOD(aclrtSynchronizeEvent(r.fork));
}

void test_task_groups(void **)
{
	rig r(9);
	aclrtTaskGrp g;
	aclrtNotify n;
	aclmdlRI m;
	char key[65];

	IS(100000, aclmdlRICaptureTaskGrpBegin(nullptr));
	IS(107029, aclmdlRICaptureTaskGrpBegin(r.s));
	IS(100000, aclmdlRICaptureTaskGrpEnd(r.s, nullptr));
	IS(107029, aclmdlRICaptureTaskGrpEnd(r.s, &g));
	IS(100000, aclmdlRICaptureTaskUpdateBegin(r.s, nullptr));
	IS(107017, aclmdlRICaptureTaskUpdateBegin(r.s, r.pin));
	IS(107033, aclmdlRICaptureTaskUpdateEnd(r.s));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	IS(107033, aclmdlRICaptureTaskGrpEnd(r.s, &g));
	GOOD(aclmdlRICaptureTaskGrpBegin(r.s));
	IS(107033, aclmdlRICaptureTaskGrpBegin(r.s));
	IS(507009, rig::copy(r.dev, r.pin, r.s));
	/* The notify, whose page is a file, is freed although a call with it was refused. */
	const unsigned fds = fds_without_rings();
	GOOD(aclrtCreateNotify(&n, 0));
	GOOD(aclrtNotifyGetExportKey(n, key, sizeof(key), 0));
	IS(507009, aclrtRecordNotify(n, r.s));
	GOOD(aclrtDestroyNotify(n));
	assert_int_equal(fds_without_rings(), fds);
	GOOD(aclmdlRICaptureTaskGrpEnd(r.s, &g));
	m = r.end(r.s);
	GOOD(aclmdlRICaptureTaskUpdateBegin(r.t, g));
	IS(107033, aclmdlRICaptureTaskUpdateBegin(r.u, g));
	GOOD(aclmdlRICaptureTaskUpdateEnd(r.t));
	GOOD(aclmdlRIDestroy(m));
	IS(107017, aclmdlRICaptureTaskUpdateBegin(r.t, g));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	GOOD(aclmdlRICaptureTaskGrpBegin(r.s));
	IS(107033, aclmdlRICaptureEnd(r.s, &m));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	GOOD(aclrtRecordEvent(r.fork, r.s));
	GOOD(aclrtStreamWaitEvent(r.t, r.fork));
	GOOD(aclmdlRICaptureTaskGrpBegin(r.s));
	IS(107034, rig::copy(r.dev, r.pin, r.t));
	assert_int_equal(status_of(r.s), ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
	IS(507903, aclmdlRICaptureTaskGrpEnd(r.s, &g));
	IS(507903, aclmdlRICaptureEnd(r.s, &m));
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_begin_and_info),
		cmocka_unit_test(test_execute_and_destroy),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_end_in_another_thread),
		cmocka_unit_test(test_print),
		cmocka_unit_test(test_destroy_while_running),
		cmocka_unit_test(test_unjoined),
		cmocka_unit_test(test_event_codes),
		cmocka_unit_test(test_conflict),
		cmocka_unit_test(test_task_groups),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
