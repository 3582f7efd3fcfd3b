/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A failure belongs to its stream: device synchronisation, queries and the
 * destruction of other streams do not clear it, and it is reported once.
 */
#include "acl/acl.h"
#include "tests/integration/faults.h"

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr size_t size = 256 << 10;      /* more than the CPU copies by itself */
static constexpr aclError task_error = 507013; /* ACL's code for -EIO of a task */

static void await_done(usdma_stream *s)
{
	while (WORKS(usdma_stream_query(s)) == 0)
		std::this_thread::yield();
}

/* A device whose every request fails between break_it() and fix(). */
struct bench {
	device dev;
	block host{dev, kind::pinned, size}, mem{dev, kind::device, size}, plain{dev, kind::pageable, size};

	void break_it() { set_faults(dev, 0, "fail%1"); }
	void fix() { set_faults(dev, 0, ""); }
	/* Each stream gets one failed copy. */
	void fail_on(const std::vector<usdma_stream *> &all)
	{
		break_it();
		for (usdma_stream *s : all)
			WORKS(usdma_copy(s, mem.data(), host.data(), size));
		for (usdma_stream *s : all)
			await_done(s);
		fix();
	}
};

static void device_sync_clears_no_failure(void **)
{
	bench b;
	stream a(b.dev), c(b.dev), fine(b.dev);
	usdma_error_info info = {};

	for (int i = 0; i < 3; i++) {
		b.fail_on({a, c});
		GOOD(usdma_device_sync(b.dev, long_ms));
		GOOD(usdma_device_sync(b.dev, 0));
		assert_int_equal(usdma_stream_query(a), 1);
		assert_int_equal(usdma_stream_sync(a, long_ms), -EIO);
		GOOD(usdma_stream_sync(a, long_ms));
		GOOD(usdma_stream_sync(fine, long_ms));
		GOOD(usdma_device_sync(b.dev, long_ms));
		/* A call that cannot return the error does not take it. */
		info.struct_size = 0;
		assert_int_equal(usdma_stream_take_error(c, &info), -EINVAL);
		info.struct_size = sizeof(info);
		GOOD(usdma_stream_take_error(c, &info));
		assert_int_equal(info.error, -EIO);
		assert_string_equal(info.reason_name, "injected fault");
		GOOD(usdma_stream_sync(c, long_ms));
	}
}

/* A synchronous copy reports its own failure only, and clears none of a stream. */
static void copy_sync_clears_no_failure(void **)
{
	bench b;
	stream a(b.dev);

	b.fail_on({a});
	WORKS(usdma_copy_sync(b.dev, b.mem.data(), b.plain.data(), size, long_ms));
	b.break_it();
	assert_int_equal(usdma_copy_sync(b.dev, b.mem.data(), b.host.data(), size, long_ms), -EIO);
	b.fix();
	GOOD(usdma_device_sync(b.dev, long_ms));
	assert_int_equal(usdma_stream_sync(a, long_ms), -EIO);
	GOOD(usdma_stream_sync(a, long_ms));
}

/* Copies that wait for the stream's earlier work are made, and leave its failure for the stream's next wait. */
static void copies_that_wait_take_no_failure(void **)
{
	bench b;
	stream a(b.dev);
	const usdma_copy_item item = {b.mem.data(), b.plain.data(), size};
	const usdma_copy_rect rect = {b.mem.data(), size / 4, b.plain.data(), size / 4, size / 8, 4};

	for (unsigned char i = 0; i < 4; i++) {
		b.fail_on({a});
		memset(b.plain.data(), i + 1, size);
		if (i == 0)
			WORKS(usdma_copy(a, b.mem.data(), b.plain.data(), size));
		else if (i == 1)
			WORKS(usdma_copy_batch(a, &item, 1, nullptr));
		else if (i == 2)
			WORKS(usdma_copy_2d(a, &rect));
		else
			WORKS(usdma_copy(a, b.plain.data(), b.mem.data(), size));
		WORKS(usdma_copy_sync(b.dev, b.plain.data(), b.mem.data(), size, long_ms));
		assert_int_equal(b.plain.data()[0], std::min(i + 1, 3));
		assert_int_equal(usdma_stream_sync(a, long_ms), -EIO);
		GOOD(usdma_stream_sync(a, long_ms));
	}
}

/* Nothing is copied in a stream that has stopped. */
static void copies_that_wait_in_a_stopped_stream(void **)
{
	bench b;
	usdma_stream *s;

	WORKS(usdma_stream_create(b.dev, nullptr, &s));
	WORKS(usdma_stream_set_fail_mode(s, USDMA_FAIL_STOP));
	WORKS(usdma_fill_sync(b.dev, b.mem.data(), 7, 1, size, long_ms));
	b.fail_on({s});
	memset(b.plain.data(), 1, size);
	assert_int_equal(usdma_copy(s, b.mem.data(), b.plain.data(), size), -EIO);
	WORKS(usdma_copy_sync(b.dev, b.plain.data(), b.mem.data(), size, long_ms));
	assert_true(all_are(b.plain.data(), size, 7));
	assert_int_equal(usdma_stream_destroy(s), -EIO);
}

static usdma_stream *failed_stream(bench &b)
{
	usdma_stream *s;

	WORKS(usdma_stream_create(b.dev, nullptr, &s));
	b.fail_on({s});
	return s;
}

static void destroy_returns_an_unreported_failure(void **)
{
	bench b;
	usdma_stream *s = failed_stream(b);

	GOOD(usdma_device_sync(b.dev, long_ms));
	assert_int_equal(usdma_stream_destroy(s), -EIO);
	assert_int_equal(usdma_stream_destroy(s), -EBADF);
	s = failed_stream(b);
	assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
	GOOD(usdma_stream_destroy(s));
	/* A stopped stream: each call reports the failure, but destroy only if no call has reported it. */
	for (const bool reported : {true, false}) {
		WORKS(usdma_stream_create(b.dev, nullptr, &s));
		WORKS(usdma_stream_set_fail_mode(s, USDMA_FAIL_STOP));
		b.fail_on({s});
		if (reported) {
			assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
			assert_int_equal(usdma_stream_sync(s, long_ms), -EIO);
		}
		assert_int_equal(usdma_stream_destroy(s), reported ? 0 : -EIO);
	}
}

/* The copy still runs while its stream is being destroyed. */
static void destroy_waits_for_the_failure(void **)
{
	bench b;
	usdma_stream *s;

	b.break_it();
	for (int i = 0; i < 50; i++) {
		WORKS(usdma_stream_create(b.dev, nullptr, &s));
		WORKS(usdma_copy(s, b.mem.data(), b.host.data(), size));
		assert_int_equal(usdma_stream_destroy(s), -EIO);
	}
	b.fix();
}

/* Each stream reports its own failure in each round, while other threads synchronise the device. */
static void each_stream_reports_its_own_failure(void **)
{
	constexpr int rounds = 200, owners = 3, syncers = 2;
	bench b;
	std::atomic<int> wrong{0};
	std::atomic<bool> stop{false};
	std::vector<std::thread> owner_threads, sync_threads;

	b.break_it();
	for (int i = 0; i < owners; i++)
		owner_threads.emplace_back([&] {
			stream s(b.dev);

			for (int r = 0; r < rounds; r++) {
				wrong += usdma_copy(s, b.mem.data(), b.host.data(), 64) != 0;
				if (r % 2)
					wrong += usdma_device_sync(b.dev, long_ms) != 0;
				wrong += usdma_stream_sync(s, long_ms) != -EIO;
			}
		});
	for (int i = 0; i < syncers; i++)
		sync_threads.emplace_back([&] {
			while (!stop)
				wrong += usdma_device_sync(b.dev, long_ms) != 0;
		});
	for (auto &t : owner_threads)
		t.join();
	stop = true;
	for (auto &t : sync_threads)
		t.join();
	b.fix();
	assert_int_equal(wrong, 0);
}

/* ---- ACL -------------------------------------------------------------------------------------------- */

struct acl_bench {
	bench b; /* the same device, for its faults */
	char *host, *mem;

	acl_bench()
	{
		GOOD(aclrtSetDevice(0));
		GOOD(aclrtMallocHost(reinterpret_cast<void **>(&host), size));
		GOOD(aclrtMalloc(reinterpret_cast<void **>(&mem), size, ACL_MEM_MALLOC_HUGE_FIRST));
	}
	~acl_bench()
	{
		GOOD(aclrtFreeHost(host));
		GOOD(aclrtFree(mem));
		GOOD(aclrtResetDevice(0));
	}
	acl_bench(const acl_bench &) = delete;
	acl_bench &operator=(const acl_bench &) = delete;
	void fail_on(const std::vector<aclrtStream> &all)
	{
		b.break_it();
		for (aclrtStream s : all)
			GOOD(aclrtMemcpyAsync(mem, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE, s));
		for (aclrtStream s : all)
			for (aclrtStreamStatus st = ACL_STREAM_STATUS_NOT_READY; st == ACL_STREAM_STATUS_NOT_READY;)
				GOOD(aclrtStreamQuery(s, &st));
		b.fix();
	}
};

static void acl_device_sync_reports_and_clears_none(void **)
{
	acl_bench b;
	aclrtStream s, t;

	GOOD(aclrtCreateStream(&s));
	GOOD(aclrtCreateStream(&t));
	b.fail_on({s, t});
	/* Each call reports one of the two failures; then there is no new one. */
	assert_int_equal(aclrtSynchronizeDevice(), task_error);
	assert_int_equal(aclrtSynchronizeDeviceWithTimeout(long_ms), task_error);
	GOOD(aclrtSynchronizeDevice());
	assert_int_equal(aclrtSynchronizeStream(s), task_error);
	GOOD(aclrtSynchronizeStream(s));
	assert_int_equal(aclrtSynchronizeStreamWithTimeout(t, long_ms), task_error);
	GOOD(aclrtSynchronizeStream(t));
	GOOD(aclrtSynchronizeDevice());
	b.fail_on({t});
	assert_int_equal(aclrtSynchronizeStream(t), task_error);
	GOOD(aclrtSynchronizeDevice());
	GOOD(aclrtDestroyStream(s));
	GOOD(aclrtDestroyStream(t));
}

/* Each wait for an event reports the failure of its stream, and does not clear it. */
static void acl_event_sync_clears_no_failure(void **)
{
	acl_bench b;
	aclrtStream s;
	aclrtEvent e;

	GOOD(aclrtCreateStream(&s));
	GOOD(aclrtCreateEvent(&e));
	b.fail_on({s});
	GOOD(aclrtRecordEvent(e, s));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(aclrtSynchronizeEvent(e), task_error);
		assert_int_equal(aclrtSynchronizeEventWithTimeout(e, long_ms), task_error);
	}
	assert_int_equal(aclrtSynchronizeStream(s), task_error);
	GOOD(aclrtSynchronizeEvent(e));
	GOOD(aclrtSynchronizeStream(s));
	GOOD(aclrtDestroyEvent(e));
	GOOD(aclrtDestroyStream(s));
}

/* The device refuses a mapping: the registration fails, and the memory can be registered later. */
static void acl_registration_is_refused(void **)
{
	acl_bench b;
	void *mem = aligned_alloc(4096, size), *p;

	assert_non_null(mem);
	set_faults(b.b.dev, 0, "refuse-map@1");
	assert_int_equal(aclrtHostRegister(mem, size, ACL_HOST_REGISTER_MAPPED, &p), 207001);
	set_faults(b.b.dev, 0, "refuse-map@1");
	assert_int_equal(aclrtHostRegisterV2(mem, size, ACL_HOST_REG_PINNED), 207001);
	set_faults(b.b.dev, 0, "");
	GOOD(aclrtHostRegisterV2(mem, size, ACL_HOST_REG_PINNED));
	GOOD(aclrtHostUnregister(mem));
	free(mem);
}

static void acl_destroy_returns_an_unreported_failure(void **)
{
	acl_bench b;
	aclrtStream s;

	for (const auto end : {aclrtDestroyStream, aclrtDestroyStreamForce}) {
		GOOD(aclrtCreateStream(&s));
		b.fail_on({s});
		assert_int_equal(aclrtSynchronizeDevice(), task_error);
		assert_int_equal(end(s), task_error);
		assert_int_equal(end(s), 107017);
		GOOD(aclrtCreateStream(&s));
		b.fail_on({s});
		assert_int_equal(aclrtSynchronizeStream(s), task_error);
		GOOD(end(s));
	}
}

/* ---- a context that stops at a failure ---------------------------------------------------------------- */

/* How a thread learns of the failure; 0: not yet. */
using learning = aclError (*)(aclrtStream s, char *mem);

static const learning kinds[] = {
	[](aclrtStream s, char *) {
		aclrtStreamStatus st;
		return aclrtStreamQuery(s, &st);
	},
	[](aclrtStream s, char *) { return aclrtSynchronizeStream(s); },
	[](aclrtStream s, char *mem) { return aclrtMemsetAsync(mem, 64, 1, 64, s); },
};

/* The newest stream is stopped first, and the oldest last: by then a thread may have returned the failure. */
static void stop_streams(acl_bench &b, learning learn, bool by_failed)
{
	std::vector<aclrtStream> all(500);
	std::atomic<bool> polls{false};
	aclError of_last = 0;
	aclrtContext before, c;

	GOOD(aclrtGetCurrentContext(&before));
	GOOD(aclrtCreateContext(&c, 0));
	for (aclrtStream &s : all)
		GOOD(aclrtCreateStream(&s));
	GOOD(aclrtSetStreamFailureMode(all[0], ACL_STOP_ON_FAILURE));
	const aclrtStream failing = all[all.size() / 2], seen = by_failed ? failing : all.back();
	std::thread other([&] {
		GOOD(aclrtSetCurrentContext(c));
		polls = true;
		while (!learn(seen, b.mem)) {
		}
		of_last = aclrtSynchronizeStream(all[0]);
	});
	while (!polls)
		std::this_thread::yield();
	set_faults(b.b.dev, 0, "fail@1");
	/* One of the other thread's may fail before it. */
	aclrtMemcpyAsync(b.mem, size, b.host, size, ACL_MEMCPY_HOST_TO_DEVICE, failing);
	aclrtSynchronizeStream(failing);
	other.join();
	set_faults(b.b.dev, 0, "");
	assert_int_equal(of_last, task_error);
	for (aclrtStream s : all)
		aclrtDestroyStream(s);
	GOOD(aclrtDestroyContext(c));
	GOOD(aclrtSetCurrentContext(before));
}

static void acl_who_returns_the_failure_finds_all_stopped(void **)
{
	acl_bench b;

	for (int i = 0; i < 5; i++)
		for (const learning learn : kinds)
			for (const bool by_failed : {true, false})
				stop_streams(b, learn, by_failed);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(device_sync_clears_no_failure),
		cmocka_unit_test(copy_sync_clears_no_failure),
		cmocka_unit_test(copies_that_wait_take_no_failure),
		cmocka_unit_test(copies_that_wait_in_a_stopped_stream),
		cmocka_unit_test(destroy_returns_an_unreported_failure),
		cmocka_unit_test(destroy_waits_for_the_failure),
		cmocka_unit_test(each_stream_reports_its_own_failure),
		cmocka_unit_test(acl_device_sync_reports_and_clears_none),
		cmocka_unit_test(acl_event_sync_clears_no_failure),
		cmocka_unit_test(acl_registration_is_refused),
		cmocka_unit_test(acl_destroy_returns_an_unreported_failure),
		cmocka_unit_test(acl_who_returns_the_failure_finds_all_stopped),
	};

	return cmocka_run_group_tests_name("errors", tests, nullptr, nullptr);
}
