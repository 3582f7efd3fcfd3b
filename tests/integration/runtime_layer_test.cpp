/* SPDX-License-Identifier: BSD-3-Clause */
/* The layer below ACL, as older programs use it: a program that knows nothing else, and its codes. */
#include <runtime/rt.h>
#include <runtime/rt_external.h>
#include <runtime/rt_ffts.h>

#include "tests/support/test.h"
#include "tests/support/until.h"

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, RT_ERROR_NONE)

static constexpr size_t size = 1 << 20;

namespace {

/* A device with memory on both sides. */
struct program {
	rtStream_t stream = nullptr, other = nullptr;
	rtEvent_t event = nullptr;
	void *dev = nullptr, *dev2 = nullptr, *host = nullptr, *back = nullptr;

	program()
	{
		until("the server takes the next client", [] { return rtSetDevice(0) == RT_ERROR_NONE; });
		GOOD(rtStreamCreate(&stream, 0));
		GOOD(rtStreamCreateWithFlags(&other, 7, 0));
		GOOD(rtEventCreateWithFlag(&event, RT_EVENT_DEFAULT));
		GOOD(rtMalloc(&dev, size, RT_MEMORY_HBM | RT_MEMORY_POLICY_HUGE_PAGE_FIRST, 33));
		GOOD(rtMalloc(&dev2, size, RT_MEMORY_DDR | RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY, 0));
		GOOD(rtMallocHost(&host, size, 33));
		GOOD(rtMallocHost(&back, size, 0));
	}
	~program()
	{
		GOOD(rtFree(dev));
		GOOD(rtFreeWithDevSync(dev2));
		GOOD(rtFreeHost(host));
		GOOD(rtFreeHostWithDevSync(back));
		GOOD(rtEventDestroy(event));
		GOOD(rtStreamDestroy(stream));
		GOOD(rtStreamDestroyForce(other));
		GOOD(rtDeviceReset(0));
	}
	program(const program &) = delete;
	program &operator=(const program &) = delete;
};

/* The stream waits until it is released. */
class held {
public:
	explicit held(rtStream_t s) { GOOD(aclrtLaunchHostFunc(s, wait, this)); }
	~held() { release(); }
	held(const held &) = delete;
	held &operator=(const held &) = delete;
	void release() { goes_on_ = true; }

private:
	static void wait(void *self)
	{
		until("the test goes on", [&] { return static_cast<held *>(self)->goes_on_.load(); });
	}
	std::atomic<bool> goes_on_ = false;
};

} // namespace

static void test_copies(void **)
{
	program p;
	std::mt19937_64 gen = rng(70);
	size_t before, after, total;
	void *more;

	fill_random(p.host, size, gen);
	GOOD(rtMemcpyAsync(p.dev, size, p.host, size, RT_MEMCPY_HOST_TO_DEVICE, p.stream));
	GOOD(rtMemcpyAsyncWithCfg(p.dev2, size, p.dev, size, RT_MEMCPY_DEVICE_TO_DEVICE, p.stream, 7));
	GOOD(rtEventRecord(p.event, p.stream));
	GOOD(rtStreamWaitEvent(p.other, p.event));
	GOOD(rtMemcpyAsyncWithoutCheckKind(p.back, size, p.dev2, size, RT_MEMCPY_MANAGED, p.other));
	GOOD(rtStreamSynchronizeWithTimeout(p.other, 60000));
	assert_memory_equal(p.back, p.host, size);
	GOOD(rtMemset(p.dev, size, 0x5a, size / 2));
	GOOD(rtMemsetAsync(p.dev, size, 0xa5, 16, p.stream));
	GOOD(rtStreamSynchronize(p.stream));
	GOOD(rtMemcpy(p.back, size, p.dev, size, RT_MEMCPY_DEFAULT));
	const auto *got = static_cast<unsigned char *>(p.back);
	assert_true(got[0] == 0xa5 && got[16] == 0x5a && got[size / 2 - 1] == 0x5a);
	assert_memory_equal(got + size / 2, static_cast<char *>(p.host) + size / 2, size / 2);
	GOOD(rtMemcpy2dAsync(p.dev, 64, p.host, 128, 64, 8, RT_MEMCPY_HOST_TO_DEVICE, p.stream));
	GOOD(rtMemcpyAsync(p.back, size, p.dev, 512, RT_MEMCPY_DEVICE_TO_HOST_EX, p.stream));
	GOOD(rtDeviceSynchronize());
	for (size_t row = 0; row < 8; row++)
		assert_memory_equal(got + row * 64, static_cast<char *>(p.host) + row * 128, 64);
	GOOD(rtMemGetInfo(&before, &total));
	GOOD(rtMalloc(&more, size, RT_MEMORY_DEFAULT, 0));
	GOOD(rtMemGetInfoEx(RT_MEMORYINFO_HBM, &after, &total));
	assert_true(after < before && before <= total);
	GOOD(rtFree(more));
}

template <class T> static void reduce(const program &p, rtDataType_t type, rtRecudeKind_t kind, T a, T b, T want)
{
	constexpr size_t n = 100;
	auto *to = static_cast<T *>(p.back), *from = static_cast<T *>(p.host);

	for (size_t i = 0; i < n; i++)
		to[i] = a, from[i] = b;
	GOOD(rtMemcpy(p.dev, size, to, n * sizeof(T), RT_MEMCPY_HOST_TO_DEVICE));
	GOOD(rtMemcpy(p.dev2, size, from, n * sizeof(T), RT_MEMCPY_HOST_TO_DEVICE));
	GOOD(rtReduceAsync(p.dev, n * sizeof(T), p.dev2, n * sizeof(T), kind, type, p.stream));
	GOOD(rtStreamSynchronize(p.stream));
	GOOD(rtMemcpy(to, size, p.dev, n * sizeof(T), RT_MEMCPY_DEVICE_TO_HOST));
	for (size_t i = 0; i < n; i++)
		assert_true(to[i] == want);
}

static void test_reductions(void **)
{
	program p;

	reduce<float>(p, RT_DATA_TYPE_FP32, RT_MEMCPY_SDMA_AUTOMATIC_ADD, 1.5f, 2.25f, 3.75f);
	reduce<int32_t>(p, RT_DATA_TYPE_INT32, RT_MEMCPY_SDMA_AUTOMATIC_MAX, -7, 5, 5);
	reduce<int16_t>(p, RT_DATA_TYPE_INT16, RT_MEMCPY_SDMA_AUTOMATIC_MIN, -7, 5, -7);
	reduce<int8_t>(p, RT_DATA_TYPE_INT8, RT_MEMCPY_SDMA_AUTOMATIC_ADD, 100, 20, 120);
	GOOD(rtReduceAsync(p.dev, 0, p.dev2, 8, RT_MEMCPY_SDMA_AUTOMATIC_ADD, RT_DATA_TYPE_FP32, p.stream));
	assert_int_equal(rtReduceAsync(p.dev, 8, p.dev2, 8, RT_MEMCPY_SDMA_AUTOMATIC_ADD, RT_DATA_TYPE_BFP32, p.stream),
			 aclrtReduceAsync(p.dev, p.dev2, 8, ACL_RT_MEMCPY_SDMA_AUTOMATIC_SUM, ACL_DT_UNDEFINED,
					  p.stream, nullptr) == 100000 ?
				 107000 :
				 207000);
}

/* Which of them are waited for: those of which ACL's are. */
static void test_flags(void **)
{
	static constexpr uint32_t
		waited[] = {RT_STREAM_DEFAULT,     RT_STREAM_FORCE_COPY, RT_STREAM_HUGE, 0x10, 0x20, 0x1000,
			    RT_STREAM_FAST_LAUNCH, RT_STREAM_FAST_SYNC},
		not_waited[] = {RT_STREAM_PERSISTENT, RT_STREAM_CPU_SCHEDULE, RT_STREAM_CP_PROCESS_USE};
	constexpr uint32_t valid = 0xe0d;
	program p;
	rtStreamCreateAttr_t attr = {RT_STREAM_CREATE_ATTR_FLAGS, {0}};
	rtStreamCreateConfig_t config = {&attr, 1};

	for (int how = 0; how < 2; how++)
		for (bool waits : {true, false})
			for (uint32_t flags : waits ? std::vector(std::begin(waited), std::end(waited)) :
						      std::vector(std::begin(not_waited), std::end(not_waited))) {
				rtStream_t s;
				uint32_t got = 99;

				attr.value.flags = flags;
				GOOD(how ? rtsStreamCreate(&s, &config) : rtStreamCreateWithFlags(&s, 0, flags));
				GOOD(rtStreamGetFlags(s, &got));
				assert_int_equal(got, flags & valid);
				held h(s);
				assert_int_equal(rtStreamQuery(s), waits ? ACL_ERROR_RT_STREAM_NOT_COMPLETE : 0);
				assert_int_equal(rtStreamSynchronizeWithTimeout(s, 1), waits ? 507046 : 0);
				h.release();
				GOOD(rtStreamDestroy(s));
			}
	for (uint32_t flags : {RT_EVENT_DDSYNC, RT_EVENT_DDSYNC_NS, RT_EVENT_DDSYNC | RT_EVENT_TIME_LINE}) {
		rtEvent_t event;

		GOOD(rtEventCreateWithFlag(&event, flags));
		GOOD(rtEventRecord(event, p.stream));
		GOOD(rtStreamWaitEvent(p.other, event));
		GOOD(rtStreamSynchronize(p.other));
		GOOD(rtEventDestroy(event));
	}
}

static void test_states(void **)
{
	program p;
	rtEventStatus_t recorded = RT_EVENT_RECORDED;
	rtEvent_t first, last;
	uint64_t at = 0;
	float ms = -1;

	GOOD(rtEventCreate(&first));
	GOOD(rtEventCreate(&last));
	GOOD(rtEventRecord(first, p.stream));
	{
		held h(p.stream);

		GOOD(rtEventRecord(p.event, p.stream));
		assert_int_equal(rtStreamQuery(p.stream), ACL_ERROR_RT_STREAM_NOT_COMPLETE);
		assert_int_equal(rtEventQuery(p.event), ACL_ERROR_RT_EVENT_NOT_COMPLETE);
		GOOD(rtEventQueryStatus(p.event, &recorded));
		assert_int_equal(recorded, RT_EVENT_INIT);
		assert_int_equal(rtStreamSynchronizeWithTimeout(p.stream, 1), 507046);
		h.release();
		GOOD(rtEventSynchronizeWithTimeout(p.event, 60000));
	}
	GOOD(rtEventQuery(p.event));
	GOOD(rtEventQueryStatus(p.event, &recorded));
	assert_int_equal(recorded, RT_EVENT_RECORDED);
	GOOD(rtEventRecord(last, p.stream));
	GOOD(rtEventSynchronize(last));
	GOOD(rtEventElapsedTime(&ms, first, last));
	assert_true(ms >= 0);
	GOOD(rtEventGetTimeStamp(&at, last));
	assert_true(at > 0);
	GOOD(rtStreamQuery(p.stream));
	GOOD(rtEventDestroy(first));
	GOOD(rtEventDestroy(last));
}

static void test_notifies_and_captures(void **)
{
	program p;
	rtNotify_t notify;
	rtModel_t graph;
	rtStreamCaptureStatus status = RT_STREAM_CAPTURE_STATUS_INVALIDATED;
	uint32_t id;
	char key[65];

	GOOD(rtNotifyCreate(0, &notify));
	assert_int_equal(rtNotifyCreate(1, &notify), 107000);
	GOOD(rtGetNotifyID(notify, &id));
	GOOD(rtNotifyWaitWithTimeOut(notify, p.other, 0));
	assert_int_equal(rtStreamQuery(p.other), ACL_ERROR_RT_STREAM_NOT_COMPLETE);
	GOOD(rtNotifyRecord(notify, p.stream));
	GOOD(rtStreamSynchronize(p.other));
	GOOD(rtNotifyReset(notify));
	GOOD(rtIpcSetNotifyName(notify, key, sizeof(key)));
	GOOD(rtNotifyDestroy(notify));

	memset(p.host, 0x11, size);
	memset(p.back, 0, size);
	GOOD(rtStreamBeginCapture(p.stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
	GOOD(rtStreamGetCaptureInfo(p.stream, &status, &graph));
	assert_int_equal(status, RT_STREAM_CAPTURE_STATUS_ACTIVE);
	status = RT_STREAM_CAPTURE_STATUS_NONE;
	GOOD(rtStreamGetCaptureInfo(p.stream, &status, nullptr));
	assert_int_equal(status, RT_STREAM_CAPTURE_STATUS_ACTIVE);
	GOOD(rtMemcpyAsync(p.dev, size, p.host, size, RT_MEMCPY_HOST_TO_DEVICE, p.stream));
	GOOD(rtMemcpyAsync(p.back, size, p.dev, size, RT_MEMCPY_DEVICE_TO_HOST, p.stream));
	GOOD(rtStreamEndCapture(p.stream, &graph));
	GOOD(aclmdlRIExecuteAsync(graph, p.other));
	GOOD(rtStreamSynchronize(p.other));
	assert_memory_equal(p.back, p.host, size);
	GOOD(aclmdlRIDestroy(graph));
}

static void test_values(void **)
{
	program p;
	rtStreamCreateAttr_t attrs[2] = {{RT_STREAM_CREATE_ATTR_PRIORITY, {5}}, {RT_STREAM_CREATE_ATTR_FLAGS, {1}}};
	rtStreamCreateConfig_t config = {attrs, 2};
	rtContext_t context, now;
	rtStream_t s;
	rtRunMode mode;
	char name[64];
	uint32_t n, ids[2], none[3];
	int32_t count = 0, device = 7, least = -1, greatest = 99;

	GOOD(rtInit());
	GOOD(rtGetDeviceCount(&count));
	assert_int_equal(count, 2);
	GOOD(rtGetDeviceIDs(ids, 2));
	assert_int_equal(ids[1], 1);
	assert_int_equal(rtGetDeviceIDs(none, 3), 107000);
	GOOD(rtGetSocVersion(name, sizeof(name)));
	assert_string_equal(name, aclrtGetSocName());
	assert_int_equal(rtGetSocVersion(name, uint32_t(strlen(name))), 107000);
	GOOD(rtDeviceGetStreamPriorityRange(nullptr, &greatest));
	GOOD(rtDeviceGetStreamPriorityRange(&least, nullptr));
	assert_true(least >= greatest);
	GOOD(rtGetRunMode(&mode));
	assert_int_equal(mode, RT_RUN_MODE_ONLINE);
	GOOD(rtGetAiCoreCount(&n));
	assert_int_equal(n, 20);
	GOOD(rtsStreamCreate(&s, &config));
	GOOD(rtStreamGetPriority(s, &n));
	assert_int_equal(n, 5);
	GOOD(rtStreamGetFlags(s, &n));
	assert_int_equal(n, 1);
	GOOD(rtStreamDestroy(s));
	GOOD(rtsStreamCreate(&s, nullptr));
	GOOD(rtStreamDestroy(s));
	attrs[1].id = RT_STREAM_CREATE_ATTR_MAX;
	assert_int_equal(rtsStreamCreate(&s, &config), 107000);
	GOOD(rtCtxCreate(&context, 0, 0));
	GOOD(rtCtxGetCurrent(&now));
	assert_ptr_equal(now, context);
	GOOD(rtCtxGetDevice(&device));
	assert_int_equal(device, 0);
	assert_int_equal(rtMemsetAsync(p.dev, size, 0, 64, p.stream), 107003);
	GOOD(rtCtxDestroy(context));
	assert_int_equal(rtCtxCreate(&context, 1, 0), 107000);
	GOOD(rtSetDevice(0));
	GOOD(rtDeviceReset(0));
}

/* Each wrong argument is 107000, and the thread's last error, as that layer has it; text: of which call it is. */
static void expect(const char *call, int code, int got)
{
	const char *text = aclGetRecentErrMsg();

	if (code != got || !text || !strstr(text, ": "))
		print_error("%s: %d, not %d; %s\n", call, got, code, text ? text : "no text");
	assert_int_equal(got, code);
	assert_non_null(text);
	assert_int_equal(rtGetLastError(RT_THREAD_LEVEL), code == 207000 ? 0 : code);
}

#define WRONG(code, call) expect(#call, code, call)

static void test_wrong_arguments(void **)
{
	program p;
	void *out;
	uint64_t addr = 0;
	uint32_t len;
	rtDevBinary_t binary = {RT_DEV_BINARY_MAGIC_ELF, 0, "", 1};
	rtDevResInfo res = {0, RT_PROCESS_CP1, RT_RES_TYPE_STARS_NOTIFY_RECORD, 0, 0};
	rtDevResAddrInfo where = {&addr, &len};

	rtGetLastError(RT_THREAD_LEVEL);
	WRONG(107000, rtMalloc(nullptr, 64, RT_MEMORY_HBM, 0));
	WRONG(107000, rtMalloc(&out, 0, RT_MEMORY_HBM, 0));
	WRONG(107000, rtMalloc(&out, 64, RT_MEMORY_HOST, 0));
	WRONG(107000, rtFree(nullptr));
	WRONG(107000, rtMemcpy(p.dev, 64, nullptr, 64, RT_MEMCPY_HOST_TO_DEVICE));
	WRONG(107000, rtMemcpy(p.dev, 63, p.host, 64, RT_MEMCPY_HOST_TO_DEVICE));
	WRONG(107000, rtMemcpy(p.dev, 64, p.host, 64, RT_MEMCPY_RESERVED));
	WRONG(107000, rtMemcpyAsync(p.dev, 64, p.host, 64, RT_MEMCPY_ADDR_DEVICE_TO_DEVICE, p.stream));
	WRONG(207000, rtMemcpyAsync(p.back, 64, p.host, 64, RT_MEMCPY_HOST_TO_HOST, p.stream));
	WRONG(107000, rtMemset(nullptr, 64, 0, 64));
	WRONG(107000, rtStreamCreate(nullptr, 0));
	WRONG(107000, rtStreamDestroy(nullptr));
	WRONG(107000, rtEventRecord(nullptr, p.stream));
	WRONG(107000, rtEventQuery(nullptr));
	WRONG(107000, rtCtxSetCurrent(nullptr));
	WRONG(107001, rtSetDevice(99));
	WRONG(107000, rtGetC2cCtrlAddr(nullptr, &len));
	WRONG(207000, rtGetC2cCtrlAddr(&addr, &len));
	WRONG(207000, rtGetDevResAddress(&res, &where));
	WRONG(207000, rtDevBinaryRegister(&binary, &out));
	WRONG(107000, rtDevBinaryRegister(nullptr, &out));
	WRONG(207000, rtKernelLaunch(&binary, 1, &addr, 8, nullptr, p.stream));
	assert_int_equal(addr, 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_reductions),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_notifies_and_captures),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_wrong_arguments),
	};

	return cmocka_run_group_tests_name("the layer below ACL", tests, nullptr, nullptr);
}
