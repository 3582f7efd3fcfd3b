/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports to the program: states of devices and streams, failed tasks, aborts;
 * and the codes of the calls that process callbacks.  Device 0 works; on device 1
 * the first task after each open fails, on device 2 the sixth one, on device 3 each
 * second one.
 */
#include "acl/acl.h"
#include "tests/support/dropping.h"
#include "tests/support/test.h"
#include "tests/support/until.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <csignal>
#include <poll.h>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* aclrtSetExceptionInfoCallback */

#define GOOD(call) assert_int_equal(call, 0)

namespace {

constexpr size_t size = 4096;
constexpr int sound = 0, failing = 1, failing_later = 2, failing_often = 3; /* waits in rings are tasks, too */

struct event_log {
	std::vector<std::string> lines;
	void expect(const std::vector<std::string> &want)
	{
		if (lines != want)
			for (const auto &l : lines)
				print_error("received %s\n", l.c_str());
		assert_true(lines == want);
		lines.clear();
	}
};

void on_device(int32_t id, aclrtDeviceState state, void *arg)
{
	static_cast<event_log *>(arg)->lines.push_back(std::to_string(id) + " " + std::to_string(state));
}

void on_stream(aclrtStream s, aclrtStreamState state, void *arg)
{
	int32_t id = -1;

	GOOD(aclrtStreamGetId(s, &id)); /* the stream is valid at both times */
	static_cast<event_log *>(arg)->lines.push_back(std::to_string(id) + " " + std::to_string(state));
}

int32_t on_abort(int32_t id, aclrtDeviceTaskAbortStage stage, uint32_t timeout, void *arg)
{
	static_cast<event_log *>(arg)->lines.push_back(std::to_string(id) + " " + std::to_string(stage) + " " +
						       std::to_string(timeout));
	return 0;
}

int32_t fail_at_post(int32_t, aclrtDeviceTaskAbortStage stage, uint32_t, void *)
{
	return stage == ACL_RT_DEVICE_TASK_ABORT_POST ? -3 : 0;
}

std::string line_of(aclrtStream s, int state)
{
	int32_t id = -1;

	GOOD(aclrtStreamGetId(s, &id));
	return std::to_string(id) + " " + std::to_string(state);
}

/* A device, a stream and memory in two halves. */
struct bench {
	int id;
	aclrtStream s = nullptr;
	char *mem = nullptr;

	explicit bench(int device) : id(device)
	{
		GOOD(aclrtSetDevice(id));
		GOOD(aclrtCreateStream(&s));
		GOOD(aclrtMalloc(reinterpret_cast<void **>(&mem), 2 * size, ACL_MEM_MALLOC_HUGE_FIRST));
	}
	~bench()
	{
		GOOD(aclrtSetDevice(id));
		GOOD(aclrtFree(mem));
		aclrtDestroyStream(s);
		GOOD(aclrtResetDeviceForce(id));
	}
	bench(const bench &) = delete;
	bench &operator=(const bench &) = delete;
	void set(int half, int value) { GOOD(aclrtMemsetAsync(mem + size_t(half) * size, size, value, size, s)); }
	int first_byte(int half)
	{
		unsigned char c;

		GOOD(aclrtMemcpy(&c, 1, mem + size_t(half) * size, 1, ACL_MEMCPY_DEVICE_TO_HOST));
		return c;
	}
};

} // namespace

static void test_device_states(void **)
{
	event_log l, other;

	assert_int_equal(aclrtRegDeviceStateCallback(nullptr, on_device, &l), 100000);
	assert_int_equal(aclrtRegDeviceStateCallback("l", nullptr, nullptr), 107000);
	GOOD(aclrtRegDeviceStateCallback("l", on_device, &other));
	GOOD(aclrtRegDeviceStateCallback("l", on_device, &l)); /* replaces it */
	GOOD(aclrtSetDevice(0));
	l.expect({"0 0", "0 1"});
	GOOD(aclrtSetDevice(0));
	GOOD(aclrtSetDevice(1));
	l.expect({"1 0", "1 1"});
	GOOD(aclrtResetDevice(0));
	l.expect({});
	GOOD(aclrtResetDevice(0));
	l.expect({"0 2", "0 3"});
	assert_int_equal(aclrtResetDevice(0), 507007);
	GOOD(aclrtResetDeviceForce(1));
	l.expect({"1 2", "1 3"});
	other.expect({});
	GOOD(aclrtRegDeviceStateCallback("l", nullptr, nullptr));
	GOOD(aclrtSetDevice(0));
	GOOD(aclrtResetDevice(0));
	l.expect({});
}

static void test_stream_states(void **)
{
	aclrtContext context;
	aclrtStream s, left;
	event_log l;

	GOOD(aclrtSetDevice(0));
	assert_int_equal(aclrtRegStreamStateCallback(nullptr, on_stream, &l), 100000);
	GOOD(aclrtRegStreamStateCallback("l", on_stream, &l));
	GOOD(aclrtCreateStream(&s));
	l.expect({line_of(s, 1)});
	const std::string end = line_of(s, 2);
	GOOD(aclrtDestroyStream(s));
	l.expect({end});
	GOOD(aclrtCreateContext(&context, 0));
	GOOD(aclrtCreateStreamWithConfig(&left, 0, ACL_STREAM_FAST_LAUNCH));
	l.expect({line_of(left, 1)});
	const std::string with_context = line_of(left, 2);
	GOOD(aclrtDestroyContext(context));
	l.expect({with_context});
	GOOD(aclrtRegStreamStateCallback("l", nullptr, nullptr));
	GOOD(aclrtSetDevice(0));
	GOOD(aclrtCreateStream(&s));
	GOOD(aclrtDestroyStream(s));
	l.expect({});
	GOOD(aclrtResetDeviceForce(0));
}

/* ---- handles of destroyed objects ---------------------------------------------------------------------- */

using stale_call = aclError (*)(void *h, aclrtStream s);

struct stale_kind {
	aclError (*make)(void **h);
	stale_call end, use;
};

static const stale_kind stale_kinds[] = {
	{[](void **h) { return aclrtCreateStream(h); }, [](void *h, void *) { return aclrtDestroyStream(h); },
	 [](void *h, void *) { return aclrtSynchronizeStream(h); }},
	{[](void **h) { return aclrtCreateEvent(h); }, [](void *h, void *) { return aclrtDestroyEvent(h); },
	 [](void *h, void *s) { return aclrtRecordEvent(h, s); }},
	{[](void **h) { return aclrtCreateNotify(h, 0); }, [](void *h, void *) { return aclrtDestroyNotify(h); },
	 [](void *h, void *s) { return aclrtRecordNotify(h, s); }},
	{[](void **h) { return aclrtCntNotifyCreate(h, 0); }, [](void *h, void *) { return aclrtCntNotifyDestroy(h); },
	 [](void *h, void *s) { return aclrtCntNotifyReset(h, s); }},
};

/* The next object may reuse the same slot: an old handle must never refer to it. */
static void test_stale_handles(void **)
{
	bench b(sound);

	for (const stale_kind &k : stale_kinds) {
		std::vector<void *> old;
		void *h;

		for (int i = 0; i < 200; i++) {
			GOOD(k.make(&h));
			for (size_t n = old.size() > 20 ? old.size() - 20 : 0; n < old.size(); n++) {
				assert_ptr_not_equal(old[n], h);
				assert_int_equal(k.use(old[n], b.s), 107017);
				assert_int_equal(k.end(old[n], b.s), 107017);
			}
			GOOD(k.use(h, b.s));
			GOOD(k.end(h, b.s));
			assert_int_equal(k.use(h, b.s), 107017);
			assert_non_null(strstr(aclGetRecentErrMsg(), "live"));
			old.push_back(h);
		}
	}
	GOOD(aclrtSynchronizeStream(b.s));
}

static void test_stale_contexts(void **)
{
	aclrtContext mine, one, next, now;

	GOOD(aclrtSetDevice(sound));
	GOOD(aclrtGetCurrentContext(&mine));
	for (int i = 0; i < 10; i++) {
		GOOD(aclrtCreateContext(&one, sound));
		GOOD(aclrtDestroyContext(one));
		GOOD(aclrtCreateContext(&next, sound));
		assert_int_equal(aclrtSetCurrentContext(one), 107000);
		assert_int_equal(aclrtDestroyContext(one), 107002);
		GOOD(aclrtGetCurrentContext(&now));
		assert_ptr_equal(now, next);
		GOOD(aclrtDestroyContext(next));
		GOOD(aclrtSetCurrentContext(mine));
	}
	GOOD(aclrtResetDevice(sound));
}

/* A thread that has set a device has the primary context that another thread makes after a reset. */
static void test_primary_context_made_anew(void **)
{
	GOOD(aclrtSetDevice(sound));
	std::thread([] {
		GOOD(aclrtResetDevice(sound));
		assert_int_equal(aclrtSynchronizeDevice(), 107002);
		GOOD(aclrtSetDevice(sound));
	}).join();
	GOOD(aclrtSynchronizeDevice());
	GOOD(aclrtResetDevice(sound));
}

static void test_stale_memory_handles(void **)
{
	aclrtPhysicalMemProp prop{};
	aclrtMemPoolProps props{};
	void *one, *next;
	uint64_t v;

	GOOD(aclrtSetDevice(sound));
	prop.location = {sound, ACL_MEM_LOCATION_TYPE_DEVICE};
	prop.memAttr = ACL_HBM_MEM_HUGE;
	props.location = prop.location;
	for (int i = 0; i < 10; i++) {
		GOOD(aclrtMallocPhysical(&one, 2 << 20, &prop, 0));
		GOOD(aclrtFreePhysical(one));
		GOOD(aclrtMallocPhysical(&next, 2 << 20, &prop, 0));
		assert_true(aclrtFreePhysical(one));
		GOOD(aclrtFreePhysical(next));
		GOOD(aclrtMemPoolCreate(&one, &props));
		GOOD(aclrtMemPoolDestroy(one));
		GOOD(aclrtMemPoolCreate(&next, &props));
		assert_int_equal(aclrtMemPoolGetAttr(one, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT, &v), 107017);
		assert_int_equal(aclrtMemPoolDestroy(one), 107017);
		GOOD(aclrtMemPoolDestroy(next));
	}
	GOOD(aclrtResetDevice(sound));
}

/* ---- failed tasks ----------------------------------------------------------------------------------- */

static std::atomic<int> exceptions;

static void on_exception(aclrtExceptionInfo *info)
{
	exceptions += info ? 1 : 100;
}

/* The values that the registered callbacks received, in order. */
static std::vector<uint32_t> reported;

static void first_callback(aclrtExceptionInfo *info)
{
	for (const auto read :
	     {aclrtGetTaskIdFromExceptionInfo, aclrtGetStreamIdFromExceptionInfo, aclrtGetThreadIdFromExceptionInfo,
	      aclrtGetDeviceIdFromExceptionInfo, aclrtGetErrorCodeFromExceptionInfo})
		reported.push_back(read(info));
}

static void second_callback(aclrtExceptionInfo *)
{
	reported.push_back(2);
	assert_int_equal(aclrtIpcMemClose("no key"), 107000);
}

template <int n> static void one_of_many(aclrtExceptionInfo *) {}

template <int... n> static void register_many(std::integer_sequence<int, n...>)
{
	const aclrtExceptionInfoCallback all[] = {one_of_many<n>...};

	for (const auto fn : all)
		GOOD(aclrtExceptionInfoCallbackRegister(fn));
	assert_int_equal(aclrtExceptionInfoCallbackRegister(second_callback), 207005);
	for (const auto fn : all)
		GOOD(aclrtExceptionInfoCallbackUnregister(fn));
}

/*
 * Each registered callback is called once for each failed task, by whichever call finds it first, in order, with task,
 * stream, device and code; unregistered ones are not.
 */
static void test_registered_callbacks(void **)
{
	uint32_t task;
	int32_t id;

	assert_int_equal(aclrtExceptionInfoCallbackRegister(nullptr), 107000);
	assert_int_equal(aclrtExceptionInfoCallbackUnregister(nullptr), 100000);
	for (uint32_t (*const read)(const aclrtExceptionInfo *) :
	     {aclrtGetTaskIdFromExceptionInfo, aclrtGetStreamIdFromExceptionInfo, aclrtGetThreadIdFromExceptionInfo,
	      aclrtGetDeviceIdFromExceptionInfo, aclrtGetErrorCodeFromExceptionInfo})
		assert_int_equal(read(nullptr), 0xFFFFFFFF);
	register_many(std::make_integer_sequence<int, 16>());
	GOOD(aclrtExceptionInfoCallbackRegister(first_callback));
	GOOD(aclrtExceptionInfoCallbackRegister(on_exception));
	GOOD(aclrtExceptionInfoCallbackRegister(second_callback));
	GOOD(aclrtExceptionInfoCallbackRegister(first_callback));
	GOOD(aclrtExceptionInfoCallbackUnregister(on_exception));
	GOOD(aclrtExceptionInfoCallbackUnregister(on_exception));
	exceptions = 0;
	for (int by = 0; by < 3; by++) {
		bench b(failing_often);
		std::vector<uint32_t> want;
		aclrtEvent e;

		reported.clear();
		GOOD(aclrtStreamGetId(b.s, &id));
		GOOD(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
		for (int i = 0; i < 4; i++) {
			b.set(0, i);
			GOOD(aclrtGetThreadLastTaskId(&task));
			if (i % 2)
				want.insert(want.end(),
					    {task, uint32_t(id), uint32_t(gettid()), failing_often, 507013, 2});
		}
		GOOD(aclrtRecordEvent(e, b.s));
		assert_int_equal(by == 0 ? aclrtSynchronizeEvent(e) :
				 by == 1 ? aclrtSynchronizeDevice() :
					   aclrtSynchronizeStream(b.s),
				 507013);
		/* The callback's own failed call does not replace it. */
		assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 507013);
		assert_int_equal(aclrtSynchronizeStream(b.s), by < 2 ? 507013 : 0);
		assert_true(reported == want);
		GOOD(aclrtDestroyEvent(e));
	}
	assert_int_equal(exceptions.load(), 0);
	GOOD(aclrtExceptionInfoCallbackUnregister(first_callback));
	GOOD(aclrtExceptionInfoCallbackUnregister(second_callback));
}

static aclrtStream to_destroy;
static std::vector<aclError> destroy_results;

static void destroying_callback(aclrtExceptionInfo *)
{
	destroy_results = {aclrtDestroyStream(to_destroy), aclrtResetDevice(failing)};
}

/* A callback may destroy the stream that is synchronised, and reset the device. */
static void test_callback_destroys_what_failed(void **)
{
	GOOD(aclrtExceptionInfoCallbackRegister(destroying_callback));
	for (int by = 0; by < 3; by++) {
		void *mem;
		aclrtEvent e;

		destroy_results.clear();
		GOOD(aclrtSetDevice(failing));
		GOOD(aclrtCreateStream(&to_destroy));
		GOOD(aclrtCreateEvent(&e));
		GOOD(aclrtMalloc(&mem, size, ACL_MEM_MALLOC_HUGE_FIRST));
		GOOD(aclrtMemsetAsync(mem, size, 1, size, to_destroy));
		GOOD(aclrtRecordEvent(e, to_destroy));
		assert_int_equal(by == 0 ? aclrtSynchronizeStream(to_destroy) :
				 by == 1 ? aclrtSynchronizeDevice() :
					   aclrtSynchronizeEvent(e),
				 507013);
		/* Synchronizing the device or the event leaves the error pending in the stream. */
		assert_true(destroy_results == std::vector<aclError>({by < 1 ? 0 : 507013, 0}));
		assert_int_equal(aclrtSynchronizeStream(to_destroy), 107017);
		assert_int_equal(aclrtSynchronizeDevice(), 107002);
		aclrtDestroyEvent(e);
	}
	GOOD(aclrtExceptionInfoCallbackUnregister(destroying_callback));
}

/* The failure of a synchronous copy is returned to its caller, also while others synchronise the device. */
static void test_failed_copy_returns_to_caller(void **)
{
	constexpr size_t n = 1 << 20;
	std::vector<char> mine(n, 5);

	for (int round = 0; round < 20; round++) {
		bench b(failing);
		std::atomic<bool> stop{false}, runs{false};
		std::atomic<int> taken{0};
		std::thread other([&] {
			GOOD(aclrtSetDevice(failing));
			while (!stop) {
				taken += aclrtSynchronizeDevice() != 0;
				runs = true;
			}
			GOOD(aclrtResetDevice(failing));
		});
		void *mem;

		GOOD(aclrtMalloc(&mem, n, ACL_MEM_MALLOC_HUGE_FIRST));
		while (!runs)
			std::this_thread::yield();
		assert_int_equal(aclrtMemcpy(mem, n, mine.data(), n, ACL_MEMCPY_HOST_TO_DEVICE), 507052);
		GOOD(aclrtMemcpy(mem, n, mine.data(), n, ACL_MEMCPY_HOST_TO_DEVICE));
		stop = true;
		other.join();
		assert_int_equal(taken, 0);
		GOOD(aclrtFree(mem));
	}
}

/*
 * The stream's next synchronisation reports the failure once; later tasks run. The device's synchronisation reports it
 * once, too, and leaves it pending in the stream. The old callback is called as well.
 */
static void test_failed_task(void **)
{
	for (int by_device = 0; by_device < 2; by_device++) {
		bench b(failing);

		exceptions = 0;
		GOOD(aclrtSetExceptionInfoCallback(on_exception));
		aclrtGetLastError(ACL_RT_THREAD_LEVEL);
		b.set(0, 1);
		b.set(1, 2);
		const aclError err = by_device ? aclrtSynchronizeDevice() : aclrtSynchronizeStream(b.s);
		assert_int_equal(err, 507013);
		assert_non_null(aclGetRecentErrMsg());
		assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 507013);
		if (by_device) {
			GOOD(aclrtSynchronizeDevice());
			assert_int_equal(aclrtSynchronizeStream(b.s), 507013);
		}
		GOOD(aclrtSynchronizeStream(b.s));
		GOOD(aclrtSynchronizeDevice());
		assert_int_equal(exceptions.load(), 1);
		assert_int_equal(b.first_byte(1), 2);
		b.set(0, 3);
		GOOD(aclrtSynchronizeStream(b.s));
		assert_int_equal(b.first_byte(0), 3);
		GOOD(aclrtSetExceptionInfoCallback(nullptr));
	}
}

/* Without a registered callback; a later pageable copy is made, and leaves the failure to the stream's next wait. */
static void test_failed_before_copy(void **)
{
	bench b(failing);
	char heap[64] = {};

	exceptions = 0;
	b.set(0, 1);
	memset(heap, 5, sizeof(heap));
	GOOD(aclrtMemcpyAsync(b.mem, 64, heap, 64, ACL_MEMCPY_HOST_TO_DEVICE, b.s));
	assert_int_equal(b.first_byte(0), 5);
	assert_int_equal(aclrtSynchronizeStream(b.s), 507013);
	GOOD(aclrtSynchronizeStream(b.s));
	assert_int_equal(exceptions.load(), 0);
}

static void test_stop_on_failure(void **)
{
	bench b(failing);
	aclrtStreamAttrValue v;
	aclrtStream other;

	v.failureMode = ACL_STOP_ON_FAILURE;
	GOOD(aclrtCtxGetCurrentDefaultStream(&other));
	assert_int_equal(aclrtSetStreamAttribute(other, ACL_STREAM_ATTR_FAILURE_MODE, &v), 107000);
	GOOD(aclrtSetStreamFailureMode(b.s, ACL_CONTINUE_ON_FAILURE));
	GOOD(aclrtSetStreamFailureMode(b.s, ACL_STOP_ON_FAILURE));
	assert_int_equal(aclrtSetStreamFailureMode(b.s, ACL_CONTINUE_ON_FAILURE), 207000);
	GOOD(aclrtGetStreamAttribute(b.s, ACL_STREAM_ATTR_FAILURE_MODE, &v));
	assert_int_equal(v.failureMode, ACL_STOP_ON_FAILURE);
	aclrtMemsetAsync(b.mem, size, 1, size, b.s);
	aclrtMemsetAsync(b.mem + size, size, 2, size, b.s); /* refused, if the failure was already detected */
	assert_int_equal(aclrtSynchronizeStream(b.s), 507013);
	assert_int_not_equal(aclrtMemsetAsync(b.mem + size, size, 2, size, b.s), 0);
	assert_int_not_equal(b.first_byte(1), 2);
}

static void wait_to_go(void *go)
{
	while (!*static_cast<std::atomic<bool> *>(go))
		std::this_thread::yield();
}

static void count(void *arg)
{
	++*static_cast<int *>(arg);
}

static void count_one(void *n)
{
	++*static_cast<std::atomic<int> *>(n);
}

/* Two streams of a context, work of the second waits for what comes behind a failure of the first. */
struct failing_pair {
	bench b{failing};
	aclrtStream other = nullptr;
	aclrtEvent before = nullptr, behind = nullptr;
	std::atomic<bool> go{false};
	std::atomic<int> functions{0};
	aclrtMemPool pool = nullptr;
	void *pooled = nullptr;

	failing_pair()
	{
		GOOD(aclrtCreateStream(&other));
		GOOD(aclrtCreateEventExWithFlag(&before, ACL_EVENT_SYNC));
		GOOD(aclrtCreateEventExWithFlag(&behind, ACL_EVENT_SYNC));
		GOOD(aclrtLaunchHostFunc(b.s, wait_to_go, &go));
		GOOD(aclrtRecordEvent(before, b.s));
		b.set(0, 1); /* fails */
		GOOD(aclrtRecordEvent(behind, b.s));
		GOOD(aclrtLaunchHostFunc(b.s, count_one, &functions));
		GOOD(aclrtStreamWaitEvent(other, behind));
		GOOD(aclrtLaunchHostFunc(other, count_one, &functions));
		GOOD(aclrtMemsetAsync(b.mem + size, size, 9, size, other));
	}
	~failing_pair()
	{
		GOOD(aclrtDestroyEvent(before));
		GOOD(aclrtDestroyEvent(behind));
		aclrtDestroyStream(other);
	}
	void make_pool()
	{
		aclrtMemPoolProps props = {};

		props.location = {failing, ACL_MEM_LOCATION_TYPE_DEVICE};
		GOOD(aclrtMemPoolCreate(&pool, &props));
		GOOD(aclrtMemPoolMallocAsync(&pooled, 512, pool, b.s));
	}
	failing_pair(const failing_pair &) = delete;
	failing_pair &operator=(const failing_pair &) = delete;
};

static void expect_refusals(const failing_pair &p, aclrtStream s)
{
	char host = 0;
	void *block = &host;

	assert_int_equal(aclrtMemsetAsync(p.b.mem, size, 3, size, s), 507013);
	assert_int_equal(aclrtMemcpyAsync(p.b.mem, 1, p.b.mem + size, 1, ACL_MEMCPY_DEFAULT, s), 507013);
	assert_int_equal(aclrtMemcpyAsync(p.b.mem, 1, &host, 1, ACL_MEMCPY_DEFAULT, s), 507013);
	assert_int_equal(aclrtRecordEvent(p.before, s), 507013);
	assert_int_equal(aclrtStreamWaitEvent(s, p.before), 507013);
	assert_int_equal(aclrtLaunchHostFunc(s, wait_to_go, nullptr), 507013);
	if (!s || !p.pool) /* pools have no default stream */
		return;
	assert_int_equal(aclrtMemPoolMallocAsync(&block, 512, p.pool, s), 507013);
	assert_int_equal(aclrtMemPoolFreeAsync(p.pooled, s), 507013);
	assert_ptr_equal(block, &host);
}

/* A stream of another context goes on waiting for an event that is behind a failure, as for one never recorded. */
static void test_events_behind_a_failure(void **)
{
	static constexpr uint32_t flags[] = {ACL_EVENT_SYNC, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE};
	std::atomic<bool> go{false};
	std::atomic<int> functions{0};
	std::vector<aclrtStream> waiting;
	aclrtContext own, other;

	{
		bench b{failing};
		aclrtEvent e[2];

		GOOD(aclrtGetCurrentContext(&own));
		GOOD(aclrtCreateContext(&other, failing));
		GOOD(aclrtSetCurrentContext(own));
		const auto wait = [&](aclrtEvent for_it) {
			aclrtStream s;

			GOOD(aclrtSetCurrentContext(other));
			GOOD(aclrtCreateStream(&s));
			GOOD(aclrtStreamWaitEvent(s, for_it));
			GOOD(aclrtLaunchHostFunc(s, count_one, &functions));
			waiting.push_back(s);
			GOOD(aclrtSetCurrentContext(own));
		};

		GOOD(aclrtSetStreamFailureMode(b.s, ACL_STOP_ON_FAILURE));
		GOOD(aclrtLaunchHostFunc(b.s, wait_to_go, &go));
		b.set(0, 1); /* fails */
		for (int i = 0; i < 2; i++) {
			GOOD(aclrtCreateEventExWithFlag(&e[i], flags[i]));
			GOOD(aclrtRecordEvent(e[i], b.s));
			wait(e[i]);
		}
		go = true;
		assert_int_equal(aclrtSynchronizeStream(b.s), 507013);
		for (aclrtEvent for_it : e)
			wait(for_it);
		aclrtDestroyStream(std::exchange(b.s, nullptr));
		GOOD(aclrtSetCurrentContext(other));
		for (aclrtStream s : waiting)
			assert_int_equal(aclrtSynchronizeStreamWithTimeout(s, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
		assert_int_equal(functions, 0);
		for (aclrtStream s : waiting)
			GOOD(aclrtDestroyStreamForce(s));
		GOOD(aclrtDestroyContext(other));
		GOOD(aclrtSetCurrentContext(own));
		for (aclrtEvent unused : e)
			GOOD(aclrtDestroyEvent(unused));
	}
}

/* Also one that no call of the program finds. */
static void test_failure_without_a_call(void **)
{
	bench b{failing};
	aclrtStream other;
	aclrtEvent e;

	GOOD(aclrtCreateStream(&other));
	GOOD(aclrtCreateEvent(&e));
	GOOD(aclrtSetStreamFailureMode(b.s, ACL_STOP_ON_FAILURE));
	const std::uint64_t before = usdma::test::failures_seen();
	b.set(0, 1); /* fails */
	usdma::test::until("the failure", [=] { return usdma::test::failures_seen() > before; });
	usdma::test::until("the stop", [&] { return aclrtRecordEvent(e, other) == 507013; });
	assert_int_equal(aclrtMemsetAsync(b.mem, size, 3, size, b.s), 507013);
	assert_int_equal(aclrtLaunchHostFunc(b.s, wait_to_go, nullptr), 507013);
	assert_int_equal(aclrtMemsetAsync(b.mem, size, 3, size, other), 507013);
	GOOD(aclrtDestroyEvent(e));
	aclrtDestroyStream(other);
}

/* A failure of any of its streams stops a context: later work does not run, and is not accepted. */
static void test_failure_stops_context(void **)
{
	failing_pair p;
	aclrtEventRecordedStatus status;
	aclrtEventStatus old;
	aclrtEventWaitStatus waits;
	aclrtEvent unused;
	aclrtStreamStatus work;
	aclrtContext first, second;
	aclrtStream fresh, foreign;

	exceptions = 0;
	GOOD(aclrtExceptionInfoCallbackRegister(on_exception));
	GOOD(aclrtGetCurrentContext(&first));
	p.make_pool();
	GOOD(aclrtCreateEvent(&unused));
	GOOD(aclrtSetStreamFailureMode(nullptr, ACL_STOP_ON_FAILURE)); /* that of all its streams */
	p.go = true;
	assert_int_equal(aclrtSynchronizeStream(p.b.s), 507013);
	for (const aclrtEvent e : {p.before, p.behind}) {
		assert_int_equal(aclrtQueryEventStatus(e, &status), 507013);
		assert_int_equal(aclrtSynchronizeEvent(e), 507013);
	}
	assert_int_equal(aclrtQueryEventStatus(unused, &status), 507013);
	assert_int_equal(aclrtQueryEvent(unused, &old), 507013);
	assert_int_equal(aclrtQueryEventWaitStatus(unused, &waits), 507013);
	assert_int_equal(aclrtSynchronizeEventWithTimeout(unused, 10), 507013);
	GOOD(aclrtDestroyEvent(unused));
	assert_int_equal(aclrtSynchronizeStream(p.other), 507013);
	assert_int_equal(aclrtStreamQuery(p.other, &work), 507013);
	assert_int_equal(aclrtSynchronizeStream(nullptr), 507013);
	GOOD(aclrtCreateStream(&fresh));
	for (aclrtStream s : {p.b.s, p.other, fresh, aclrtStream(nullptr)})
		expect_refusals(p, s);
	assert_int_not_equal(p.b.first_byte(1), 9);
	assert_int_equal(p.functions, 0);
	assert_int_equal(exceptions, 1);
	/* Others go on. */
	GOOD(aclrtCreateContext(&second, failing));
	GOOD(aclrtCreateStream(&foreign));
	GOOD(aclrtMemsetAsync(p.b.mem, size, 4, size, foreign));
	GOOD(aclrtMemPoolFreeAsync(p.pooled, foreign));
	GOOD(aclrtSynchronizeStream(foreign));
	GOOD(aclrtMemPoolDestroy(p.pool));
	assert_int_equal(p.b.first_byte(0), 4);
	GOOD(aclrtDestroyContext(second));
	GOOD(aclrtSetCurrentContext(first));
	aclrtDestroyStream(fresh);
	GOOD(aclrtExceptionInfoCallbackUnregister(on_exception));
}

/* The exception names the task that failed, whichever stream is synchronised first. */
static void test_exception_of_stopped_context(void **)
{
	bench b(failing);
	aclrtStreamStatus status;
	aclrtStream other;
	uint32_t task;
	int32_t id;

	GOOD(aclrtExceptionInfoCallbackRegister(first_callback));
	GOOD(aclrtCreateStream(&other));
	GOOD(aclrtSetStreamFailureMode(b.s, ACL_STOP_ON_FAILURE));
	GOOD(aclrtStreamGetId(b.s, &id));
	b.set(0, 1); /* fails */
	GOOD(aclrtGetThreadLastTaskId(&task));
	/* Before the other has work: the engine takes its channels in any order, and its first request fails. */
	while (!aclrtStreamQuery(b.s, &status))
		;
	while (aclrtMemsetAsync(b.mem, size, 1, size, other) != 507013)
		;
	reported.clear();
	assert_int_equal(aclrtSynchronizeStream(other), 507013);
	assert_true(reported == std::vector<uint32_t>({task, uint32_t(id), uint32_t(gettid()), failing, 507013}));
	reported.clear();
	assert_int_equal(aclrtSynchronizeStream(b.s), 507013);
	assert_int_equal(aclrtSynchronizeDevice(), 507013);
	assert_true(reported.empty());
	aclrtDestroyStream(other);
	GOOD(aclrtExceptionInfoCallbackUnregister(first_callback));
}

/* An abort of one of its streams, before or after, does not hide the failure of a context. */
static void test_failure_beside_an_abort(void **)
{
	for (const bool before : {true, false})
		for (const bool of_default : {true, false}) {
			bench b(failing);
			aclrtStreamStatus status;
			aclrtStream other, fresh;

			GOOD(aclrtCreateStream(&other));
			GOOD(aclrtSetStreamFailureMode(b.s, ACL_STOP_ON_FAILURE));
			if (before)
				GOOD(aclrtStreamAbort(of_default ? nullptr : other));
			b.set(0, 1); /* fails */
			assert_int_equal(aclrtSynchronizeStream(b.s), 507013);
			if (!before)
				GOOD(aclrtStreamAbort(of_default ? nullptr : other));
			assert_int_equal(aclrtStreamQuery(of_default ? other : nullptr, &status), 507013);
			GOOD(aclrtCreateStream(&fresh));
			assert_int_equal(aclrtMemsetAsync(b.mem, size, 3, size, fresh), 507013);
			aclrtDestroyStream(fresh);
			aclrtDestroyStream(other);
		}
}

/* Streams in places of the table before those of others, so that a stop meets them first. */
static std::vector<aclrtStream> make_streams(size_t n)
{
	std::vector<aclrtStream> all(n);

	for (aclrtStream &s : all)
		GOOD(aclrtCreateStream(&s));
	return all;
}

static void end_streams(const std::vector<aclrtStream> &all)
{
	for (aclrtStream s : all)
		aclrtDestroyStream(s);
}

/* A stream that is created while its context stops is stopped as well. */
static void test_streams_made_during_a_stop(void **)
{
	for (int round = 0; round < 5; round++) {
		GOOD(aclrtSetDevice(sound));
		const std::vector<aclrtStream> first = make_streams(200), second = make_streams(400);
		std::vector<aclrtStream> made;
		bench b(failing);
		std::atomic<bool> go{false};
		aclrtContext c;

		GOOD(aclrtGetCurrentContext(&c));
		GOOD(aclrtSetStreamFailureMode(b.s, ACL_STOP_ON_FAILURE));
		GOOD(aclrtSetDevice(sound));
		end_streams(second);
		GOOD(aclrtSetCurrentContext(c));
		const std::vector<aclrtStream> between = make_streams(400);
		GOOD(aclrtSetDevice(sound));
		end_streams(first);
		GOOD(aclrtSetCurrentContext(c));
		std::thread maker([&] {
			GOOD(aclrtSetCurrentContext(c));
			while (!go)
				std::this_thread::yield();
			made = make_streams(200);
		});
		go = true;
		b.set(0, 1); /* fails */
		assert_int_equal(aclrtSynchronizeStream(b.s), 507013);
		maker.join();
		for (aclrtStream s : made)
			assert_int_equal(aclrtMemsetAsync(b.mem, size, 3, size, s), 507013);
		end_streams(made);
		end_streams(between);
	}
	GOOD(aclrtResetDeviceForce(sound));
}

static std::atomic<bool> sleeps_for_ever;

/* Replaces that of the C library: while the flag is set, the library's thread only wakes up for events. */
extern "C" int ppoll(pollfd *fds, nfds_t n, const timespec *limit, const sigset_t *mask)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	if (sleeps_for_ever && !strcmp(name, "usdma-progress"))
		limit = nullptr;
	return int(syscall(SYS_ppoll, fds, n, limit, mask, _NSIG / 8));
}

/* Who stops a context wakes the library's thread, which drops what the other streams have queued. */
static void test_stop_drops_at_once(void **)
{
	const uint64_t me = uint64_t(pthread_self());
	bench b(failing);
	aclrtNotify notify;
	aclrtStream other;
	int called = 0;

	GOOD(aclrtCreateStream(&other));
	GOOD(aclrtSetStreamFailureMode(b.s, ACL_STOP_ON_FAILURE));
	GOOD(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
	GOOD(aclrtSubscribeReport(me, other));
	sleeps_for_ever = true;
	GOOD(aclrtWaitAndResetNotify(notify, other, 0));
	GOOD(aclrtLaunchCallback(count, &called, ACL_CALLBACK_NO_BLOCK, other));
	b.set(0, 1); /* fails */
	assert_int_equal(aclrtSynchronizeStream(b.s), 507013);
	GOOD(aclrtProcessReport(20000)); /* the callback, which is not run */
	sleeps_for_ever = false;
	assert_int_equal(called, 0);
	GOOD(aclrtUnSubscribeReport(me, other));
	aclrtDestroyStream(other);
	GOOD(aclrtDestroyNotify(notify));
}

/* first: the mode is set before the streams wait. */
static void stop_waiting_streams(int device, bool first)
{
	bench b(device);
	aclrtStream s[2];
	aclrtNotify notify;

	if (first)
		GOOD(aclrtSetStreamFailureMode(b.s, ACL_STOP_ON_FAILURE));
	GOOD(aclrtCreateNotify(&notify, ACL_NOTIFY_DEFAULT));
	for (aclrtStream &one : s)
		GOOD(aclrtCreateStream(&one));
	GOOD(aclrtWaitAndResetNotify(notify, s[0], 0));
	GOOD(aclrtValueWait(b.mem + size, 77, ACL_STREAM_WAIT_VALUE_EQ, s[1]));
	for (aclrtStream one : s)
		GOOD(aclrtMemsetAsync(b.mem + size, size, 9, size, one));
	if (!first) {
		/* Between two of one stream the only engine has come to each channel. */
		for (aclrtStream one : {b.s, aclrtStream(nullptr), b.s}) {
			GOOD(aclrtMemsetAsync(b.mem, size, 2, size, one));
			GOOD(aclrtSynchronizeStream(one));
		}
		GOOD(aclrtSetStreamFailureMode(b.s, ACL_STOP_ON_FAILURE));
	}
	b.set(0, 1); /* fails */
	assert_int_equal(aclrtSynchronizeStream(b.s), 507013);
	for (aclrtStream one : s) {
		assert_int_equal(aclrtSynchronizeStreamWithTimeout(one, 20000), 507013);
		aclrtDestroyStream(one);
	}
	assert_int_not_equal(b.first_byte(1), 9);
	GOOD(aclrtDestroyNotify(notify));
}

/* What its streams wait for will not come: they return all the same, also with a channel of their own. */
static void test_waits_of_a_stopped_context(void **)
{
	stop_waiting_streams(failing, true);
	stop_waiting_streams(failing_later, false);
}

/* The default: work behind the failure runs. */
static void test_failure_goes_on(void **)
{
	failing_pair p;
	aclrtEventRecordedStatus status;

	p.go = true;
	GOOD(aclrtSynchronizeStream(p.other));
	GOOD(aclrtQueryEventStatus(p.behind, &status));
	assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
	assert_int_equal(aclrtSynchronizeStream(p.b.s), 507013);
	GOOD(aclrtSynchronizeStream(p.b.s));
	assert_int_equal(p.functions, 2);
	assert_int_equal(p.b.first_byte(1), 9);
}

/* ---- abort ------------------------------------------------------------------------------------------ */

static void test_task_abort(void **)
{
	bench b(sound);
	aclrtEventRecordedStatus status;
	aclrtStream idle, fresh;
	aclrtEvent e;
	event_log l;

	assert_int_equal(aclrtDeviceTaskAbort(1, 1000), 507007);
	assert_int_equal(aclrtDeviceTaskAbort(9, 1000), 107001);
	assert_int_equal(aclrtSetDeviceTaskAbortCallback(nullptr, on_abort, &l), 100000);
	GOOD(aclrtSetDeviceTaskAbortCallback("l", on_abort, &l));
	GOOD(aclrtCreateStream(&idle));
	GOOD(aclrtMemset(b.mem, 2 * size, 0, 2 * size));
	GOOD(aclrtValueWait(b.mem, 1, ACL_STREAM_WAIT_VALUE_EQ, b.s));
	b.set(1, 7);
	GOOD(aclrtCreateEvent(&e));
	GOOD(aclrtRecordEvent(e, b.s));
	GOOD(aclrtDeviceTaskAbort(0, 60000));
	l.expect({"0 0 60000", "0 1 60000"});
	assert_int_equal(aclrtSynchronizeStream(b.s), 107023);
	/* The event counts as reached for those that wait. */
	GOOD(aclrtStreamWaitEvent(idle, e));
	GOOD(aclrtSynchronizeStream(idle));
	GOOD(aclrtQueryEventStatus(e, &status));
	assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
	assert_int_equal(aclrtSynchronizeEvent(e), 107023);
	GOOD(aclrtDestroyEvent(e));
	assert_int_equal(b.first_byte(1), 0);
	GOOD(aclrtCreateStream(&fresh));
	GOOD(aclrtMemsetAsync(b.mem, size, 5, size, fresh));
	GOOD(aclrtSynchronizeStream(fresh));
	assert_int_equal(b.first_byte(0), 5);
	/* A failing callback does not prevent the abort, and is reported. */
	GOOD(aclrtSetDeviceTaskAbortCallback("unhappy", fail_at_post, &l));
	GOOD(aclrtMemsetAsync(b.mem, size, 6, size, fresh));
	GOOD(aclrtSynchronizeStream(fresh));
	assert_int_equal(aclrtDeviceTaskAbort(0, 0), 507000);
	const std::string message = aclGetRecentErrMsg();
	assert_true(message.find("unhappy") != message.npos && message.find("-3") != message.npos);
	l.expect({"0 0 0", "0 1 0"});
	GOOD(aclrtSetDeviceTaskAbortCallback("unhappy", nullptr, nullptr));
	GOOD(aclrtSetDeviceTaskAbortCallback("l", nullptr, nullptr));
	GOOD(aclrtDeviceTaskAbort(0, 0));
	l.expect({});
	GOOD(aclrtDestroyStream(fresh));
	GOOD(aclrtDestroyStream(idle));
}

/* ---- reports ---------------------------------------------------------------------------------------- */

static void test_reports(void **)
{
	bench b(sound);
	const uint64_t me = uint64_t(pthread_self());
	aclrtStream other_stream;
	int called = 0;

	GOOD(aclrtSubscribeReport(me, b.s));
	GOOD(aclrtSubscribeReport(me, nullptr)); /* one thread, several streams */
	assert_int_equal(aclrtSubscribeReport(me + 1, b.s), 107011);
	GOOD(aclrtLaunchCallback(count, &called, ACL_CALLBACK_NO_BLOCK, b.s));
	GOOD(aclrtLaunchCallback(count, &called, ACL_CALLBACK_BLOCK, nullptr));
	while (called < 2)
		GOOD(aclrtProcessReport(60000));
	assert_int_equal(called, 2);
	GOOD(aclrtSynchronizeDevice());
	GOOD(aclrtSetDevice(failing)); /* a thread serves one device */
	GOOD(aclrtCreateStream(&other_stream));
	assert_int_equal(aclrtSubscribeReport(me, other_stream), 107012);
	GOOD(aclrtDestroyStream(other_stream));
	GOOD(aclrtResetDevice(failing));
	GOOD(aclrtSetDevice(sound));
	std::thread([] { assert_int_equal(aclrtProcessReport(1), 107012); }).join();
	GOOD(aclrtUnSubscribeReport(me, b.s));
	GOOD(aclrtUnSubscribeReport(me, nullptr));
	assert_int_equal(aclrtProcessReport(1), 107012);
}

/* Streams that are destroyed by a device reset leave no thread subscribed. */
static void test_reset_unsubscribes(void **)
{
	const uint64_t me = uint64_t(pthread_self());

	for (int device : {sound, failing, sound}) {
		aclrtStream s;

		GOOD(aclrtSetDevice(device));
		GOOD(aclrtCreateStream(&s));
		GOOD(aclrtSubscribeReport(me, s));
		GOOD(aclrtSubscribeReport(me, nullptr));
		assert_int_equal(aclrtProcessReport(1), 507012);
		GOOD(aclrtResetDevice(device));
		assert_int_equal(aclrtProcessReport(1), 107012);
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_device_states),
		cmocka_unit_test(test_stream_states),
		cmocka_unit_test(test_failed_task),
		cmocka_unit_test(test_reset_unsubscribes),
		cmocka_unit_test(test_stale_handles),
		cmocka_unit_test(test_stale_contexts),
		cmocka_unit_test(test_primary_context_made_anew),
		cmocka_unit_test(test_stale_memory_handles),
		cmocka_unit_test(test_failed_copy_returns_to_caller),
		cmocka_unit_test(test_failed_before_copy),
		cmocka_unit_test(test_stop_on_failure),
		cmocka_unit_test(test_failure_stops_context),
		cmocka_unit_test(test_failure_without_a_call),
		cmocka_unit_test(test_events_behind_a_failure),
		cmocka_unit_test(test_exception_of_stopped_context),
		cmocka_unit_test(test_failure_beside_an_abort),
		cmocka_unit_test(test_streams_made_during_a_stop),
		cmocka_unit_test(test_stop_drops_at_once),
		cmocka_unit_test(test_waits_of_a_stopped_context),
		cmocka_unit_test(test_failure_goes_on),
		cmocka_unit_test(test_task_abort),
		cmocka_unit_test(test_reports),
		cmocka_unit_test(test_registered_callbacks),
		cmocka_unit_test(test_callback_destroys_what_failed),
	};

	setenv("USDMA_DEVICES",
	       "sim:mem=64M:engines=1:channels=4,sim:mem=64M:engines=1:channels=4:faults=fail@1,"
	       "sim:mem=64M:engines=1:channels=8:faults=fail@6,sim:mem=64M:engines=1:channels=4:faults=fail%2",
	       1);
	unsetenv("ASCEND_RT_VISIBLE_DEVICES");
	setenv("USDMA_LOG", "none", 1);
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
