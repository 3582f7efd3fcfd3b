/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host function or callback that waits for work that waits for the function: each such call fails at once instead of
 * a deadlock, and the stream still works.  Waits for other work succeed.
 */
#include "acl/acl.h"
#include "tests/integration/native.h"

#include <atomic>
#include <functional>
#include <pthread.h>
#include <thread>
#include <vector>

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr size_t size = 256 << 10; /* more than the CPU copies by itself */

/* A function that waits for its body until the streams that depend on it are set up. */
struct function {
	std::function<int()> body;
	std::atomic<bool> begun{false}, ready{false}, over{false};
	int got = 0;

	static void await(const std::atomic<bool> &flag)
	{
		while (!flag)
			std::this_thread::yield();
	}
	static void run(void *arg)
	{
		auto *f = static_cast<function *>(arg);

		f->begun = true;
		await(f->ready);
		f->got = f->body();
		f->over = true;
	}
	/* The stream does not wait for a function that does not block it. */
	int result()
	{
		await(over);
		begun = ready = over = false;
		return got;
	}
};

/*
 * own: is blocked by the function; behind: waits for own by an event; same: has a function for the same thread;
 * free: does not wait.
 */
struct bench {
	device dev;
	stream own{dev}, behind{dev}, same{dev}, free{dev};
	event before{dev}, after{dev}, later{dev};
	block mem{dev, kind::device, size}, host{dev, kind::pinned, size}, plain{dev, kind::pageable, size};
	function f;
	std::atomic<int> others{0};

	static void count(void *arg) { ++*static_cast<std::atomic<int> *>(arg); }

	/* Returns the result of the body. */
	int within(std::function<int()> body, int hold = 1)
	{
		f.body = std::move(body);
		WORKS(usdma_event_record(before, own));
		WORKS(usdma_stream_call(own, function::run, &f, hold));
		function::await(f.begun);
		WORKS(usdma_event_record(after, own));
		WORKS(usdma_stream_wait_event(behind, after));
		WORKS(usdma_event_record(later, behind));
		WORKS(usdma_copy(behind, mem.data(), host.data(), size));
		WORKS(usdma_stream_call(same, count, &others, 1));
		WORKS(usdma_copy(free, mem.data(), host.data(), size));
		f.ready = true;
		GOOD(usdma_device_sync(dev, long_ms));
		return f.result();
	}
};

static void deadlocking_waits_fail(void **)
{
	bench b;
	const std::pair<const char *, std::function<int()>> calls[] = {
		{"its stream", [&] { return usdma_stream_sync(b.own, -1); }},
		{"its stream, with a limit", [&] { return usdma_stream_sync(b.own, long_ms); }},
		{"an event behind it", [&] { return usdma_event_sync(b.after, -1); }},
		{"a stream behind it", [&] { return usdma_stream_sync(b.behind, -1); }},
		{"an event of that", [&] { return usdma_event_sync(b.later, -1); }},
		{"a function of the same thread", [&] { return usdma_stream_sync(b.same, -1); }},
		{"its device", [&] { return usdma_device_sync(b.dev, -1); }},
		{"its stream's end", [&] { return usdma_stream_destroy(b.own); }},
		{"the end of one behind it", [&] { return usdma_stream_destroy(b.behind); }},
		{"a pageable copy", [&] { return usdma_copy(b.own, b.mem.data(), b.plain.data(), size); }},
	};
	int others = 0;

	for (const auto &[name, call] : calls) {
		const int got = b.within([&wait = call] {
			const int err = wait();

			return strstr(usdma_error_text(), "may not wait") ? err : 1;
		});
		if (got != -EDEADLK) {
			print_error("%s: %d\n", name, got);
			_fail(__FILE__, __LINE__);
		}
		assert_int_equal(b.others, ++others);
	}
}

static void other_waits_succeed(void **)
{
	bench b;
	const std::pair<const char *, std::function<int()>> calls[] = {
		{"another stream", [&] { return usdma_stream_sync(b.free, long_ms); }},
		{"an event before it", [&] { return usdma_event_sync(b.before, long_ms); }},
		{"a copy", [&] { return usdma_copy_sync(b.dev, b.mem.data(), b.host.data(), size, long_ms); }},
		{"work for its stream", [&] { return usdma_copy(b.own, b.mem.data(), b.host.data(), size); }},
		{"a pageable copy elsewhere", [&] { return usdma_copy(b.free, b.mem.data(), b.plain.data(), size); }},
		{"a question", [&] { return usdma_stream_query(b.own); }},
	};

	for (const auto &[name, call] : calls) {
		const int got = b.within(call);
		if (got) {
			print_error("%s: %d\n", name, got);
			_fail(__FILE__, __LINE__);
		}
	}
	/* No stream waits for this function; the function of `same` would wait for its thread. */
	GOOD(b.within([&] { return usdma_stream_sync(b.own, long_ms); }, 0));
	GOOD(b.within([&] { return usdma_stream_sync(b.behind, long_ms); }, 0));
	assert_int_equal(b.within([&] { return usdma_device_sync(b.dev, -1); }, 0), -EDEADLK);
}

/* ---- ACL ---------------------------------------------------------------------------------------------- */

struct acl_bench {
	aclrtContext context = nullptr;
	aclrtStream own = nullptr;
	aclrtEvent after = nullptr;
	void *mem = nullptr;
	std::vector<char> plain = std::vector<char>(size);
	function f;

	acl_bench()
	{
		GOOD(aclrtSetDevice(0));
		GOOD(aclrtCreateContext(&context, 0));
		GOOD(aclrtCreateStream(&own));
		GOOD(aclrtCreateEvent(&after));
		GOOD(aclrtMalloc(&mem, size, ACL_MEM_MALLOC_HUGE_FIRST));
	}
	acl_bench(const acl_bench &) = delete;
	~acl_bench()
	{
		GOOD(aclrtFree(mem));
		GOOD(aclrtDestroyEvent(after));
		GOOD(aclrtDestroyStream(own));
		GOOD(aclrtDestroyContext(context));
		GOOD(aclrtResetDevice(0));
	}
	int within(std::function<int()> body, const std::function<aclError(aclrtCallback, void *)> &launch)
	{
		f.body = [this, &body] {
			GOOD(aclrtSetCurrentContext(context));
			return body();
		};
		GOOD(launch(function::run, &f));
		GOOD(aclrtRecordEvent(after, own));
		f.ready = true;
		GOOD(aclrtSynchronizeStream(own));
		return f.result();
	}
	std::vector<std::pair<const char *, std::function<int()>>> calls()
	{
		return {
			{"SynchronizeStream", [this] { return aclrtSynchronizeStream(own); }},
			{"SynchronizeStreamWithTimeout",
			 [this] { return aclrtSynchronizeStreamWithTimeout(own, 60000); }},
			{"SynchronizeEvent", [this] { return aclrtSynchronizeEvent(after); }},
			{"SynchronizeDevice", [] { return aclrtSynchronizeDevice(); }},
			{"DestroyStream", [this] { return aclrtDestroyStream(own); }},
			{"DestroyContext", [this] { return aclrtDestroyContext(context); }},
			{"MemcpyAsync",
			 [this] {
				 return aclrtMemcpyAsync(mem, size, plain.data(), size, ACL_MEMCPY_HOST_TO_DEVICE, own);
			 }},
		};
	}
	void refuses_all(const std::function<aclError(aclrtCallback, void *)> &launch)
	{
		for (const auto &[name, call] : calls()) {
			const int got = within(call, launch);

			if (got != ACL_ERROR_RT_FEATURE_NOT_SUPPORT) {
				print_error("%s: %d\n", name, got);
				_fail(__FILE__, __LINE__);
			}
		}
	}
};

static void acl_host_function(void **)
{
	acl_bench b;

	b.refuses_all([&](aclrtCallback fn, void *arg) { return aclrtLaunchHostFunc(b.own, fn, arg); });
	/* The primary context's default stream. */
	GOOD(aclrtSetDevice(0));
	GOOD(aclrtResetDevice(0));
	b.f.ready = true;
	b.f.body = [] { return aclrtResetDevice(0); };
	GOOD(aclrtLaunchHostFunc(nullptr, function::run, &b.f));
	GOOD(aclrtSynchronizeStream(nullptr));
	assert_int_equal(b.f.result(), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
	GOOD(aclrtSetCurrentContext(b.context));
}

static void acl_callback(void **)
{
	acl_bench b;
	std::atomic<bool> over{false};
	std::thread reports([&] {
		while (!over)
			aclrtProcessReport(100);
	});

	GOOD(aclrtSubscribeReport(uint64_t(reports.native_handle()), b.own));
	b.refuses_all(
		[&](aclrtCallback fn, void *arg) { return aclrtLaunchCallback(fn, arg, ACL_CALLBACK_BLOCK, b.own); });
	/* No stream waits for the callback. */
	GOOD(b.within([&] { return aclrtSynchronizeStream(b.own); },
		      [&](aclrtCallback fn, void *arg) {
			      return aclrtLaunchCallback(fn, arg, ACL_CALLBACK_NO_BLOCK, b.own);
		      }));
	GOOD(aclrtUnSubscribeReport(uint64_t(reports.native_handle()), b.own));
	over = true;
	reports.join();
}

int main(void)
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(deadlocking_waits_fail),
		cmocka_unit_test(other_waits_succeed),
		cmocka_unit_test(acl_host_function),
		cmocka_unit_test(acl_callback),
	};

	return cmocka_run_group_tests_name("own-wait", tests, nullptr, nullptr);
}
