/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Order of work: chains over 64 streams by events, notifies and count notifies, all
 * submitted before any of it may run; waits that block one stream only; callbacks;
 * objects destroyed while in use; abort.  The tests do not sleep: each waits for
 * the state that it asserts.
 */
#include "acl/acl.h"
#include "tests/support/dropping.h"
#include "tests/support/test.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <future>
#include <iterator>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

#define GOOD(call) assert_int_equal(call, 0)

static constexpr int chain = 64;

/* A device, and a word in its memory that gates a stream until open() is called. */
struct bench {
	std::vector<aclrtStream> s;
	char *mem = nullptr;
	std::uint64_t *gate = nullptr;
	aclrtStream opener = nullptr;

	explicit bench(int n)
	{
		void *p;

		GOOD(aclrtSetDevice(0));
		GOOD(aclrtMalloc(&p, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
		mem = static_cast<char *>(p);
		GOOD(aclrtMemset(mem, 1 << 20, 0, 1 << 20));
		gate = reinterpret_cast<std::uint64_t *>(mem + (1 << 19));
		GOOD(aclrtCreateStream(&opener));
		s.resize(size_t(n));
		for (auto &one : s)
			GOOD(aclrtCreateStream(&one));
	}
	~bench()
	{
		for (auto &one : s)
			GOOD(aclrtDestroyStream(one));
		GOOD(aclrtDestroyStream(opener));
		GOOD(aclrtFree(mem));
		GOOD(aclrtResetDevice(0));
		assert_int_equal(usdma::test::open_devices(), 0);
	}
	bench(const bench &) = delete;
	bench &operator=(const bench &) = delete;
	void close(aclrtStream stream) { GOOD(aclrtValueWait(gate, 1, ACL_STREAM_WAIT_VALUE_EQ, stream)); }
	void open()
	{
		GOOD(aclrtValueWrite(gate, 1, 0, opener));
		GOOD(aclrtSynchronizeStream(opener));
	}
	std::uint64_t word(int i)
	{
		std::uint64_t v;

		GOOD(aclrtMemcpy(&v, 8, mem + i * 8, 8, ACL_MEMCPY_DEVICE_TO_HOST));
		return v;
	}
	bool busy(aclrtStream stream)
	{
		aclrtStreamStatus st;

		GOOD(aclrtStreamQuery(stream, &st));
		return st == ACL_STREAM_STATUS_NOT_READY;
	}
	/* Stream i copies word i to word i + 1. */
	void copy_word(int i)
	{
		GOOD(aclrtMemcpyAsync(mem + (i + 1) * 8, 8, mem + i * 8, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, s[size_t(i)]));
	}
};

/* The events or notifies between stream i and stream i + 1. */
static std::vector<void *> links;

static void run_chain(bench &b, void (*done)(bench &, int), void (*wait)(bench &, int))
{
	b.close(b.s[0]);
	GOOD(aclrtValueWrite(b.mem, 42, 0, b.s[0]));
	for (int i = 0; i < chain; i++) {
		if (i)
			wait(b, i);
		b.copy_word(i);
		done(b, i);
	}
	for (int i = 1; i < chain; i++)
		assert_true(b.busy(b.s[size_t(i)]));
	assert_int_equal(b.word(chain), 0);
	b.open();
	GOOD(aclrtSynchronizeStreamWithTimeout(b.s[chain - 1], 60000));
	assert_int_equal(b.word(chain), 42);
}

static void test_event_chain(void **)
{
	bench b(chain);

	for (int kind = 0; kind < 3; kind++) {
		links.assign(chain, nullptr);
		GOOD(aclrtMemset(b.mem, 1 << 20, 0, 1 << 20));
		for (auto &e : links)
			GOOD(kind == 0 ? aclrtCreateEvent(&e) :
			     kind == 1 ? aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC) :
					 aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
		run_chain(
			b, [](bench &x, int i) { GOOD(aclrtRecordEvent(links[size_t(i)], x.s[size_t(i)])); },
			[](bench &x, int i) { GOOD(aclrtStreamWaitEvent(x.s[size_t(i)], links[size_t(i) - 1])); });
		for (auto &e : links)
			GOOD(aclrtDestroyEvent(e));
	}
}

/* The waits are submitted before the records, from the last stream to the first. */
static void test_future_events(void **)
{
	bench b(chain);

	links.assign(chain, nullptr);
	for (auto &e : links)
		GOOD(aclrtCreateEventWithFlag(&e, ACL_EVENT_SYNC));
	b.close(b.s[0]);
	GOOD(aclrtValueWrite(b.mem, 7, 0, b.s[0]));
	for (int i = chain - 1; i >= 0; i--) {
		if (i)
			GOOD(aclrtStreamWaitEvent(b.s[size_t(i)], links[size_t(i) - 1]));
		b.copy_word(i);
		GOOD(aclrtRecordEvent(links[size_t(i)], b.s[size_t(i)]));
	}
	assert_true(b.busy(b.s[chain - 1]));
	b.open();
	GOOD(aclrtSynchronizeStreamWithTimeout(b.s[chain - 1], 60000));
	assert_int_equal(b.word(chain), 7);
	for (auto &e : links)
		GOOD(aclrtDestroyEvent(e));
}

static void test_notify_chain(void **)
{
	bench b(chain);

	links.assign(chain, nullptr);
	for (auto &n : links)
		GOOD(aclrtCreateNotify(&n, 0));
	run_chain(
		b, [](bench &x, int i) { GOOD(aclrtRecordNotify(links[size_t(i)], x.s[size_t(i)])); },
		[](bench &x, int i) { GOOD(aclrtWaitAndResetNotify(links[size_t(i) - 1], x.s[size_t(i)], 0)); });
	for (auto &n : links)
		GOOD(aclrtDestroyNotify(n));
}

static void test_count_notify_chain(void **)
{
	static aclrtCntNotify n;
	bench b(chain);

	GOOD(aclrtCntNotifyCreate(&n, 0));
	run_chain(
		b,
		[](bench &x, int i) {
			aclrtCntNotifyRecordInfo add = {ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1};

			GOOD(aclrtCntNotifyRecord(n, x.s[size_t(i)], &add));
		},
		[](bench &x, int i) {
			aclrtCntNotifyWaitInfo wait = {
				ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, std::uint32_t(i), 0, 0, {}};

			GOOD(aclrtCntNotifyWaitWithTimeout(n, x.s[size_t(i)], &wait));
		});
	GOOD(aclrtCntNotifyDestroy(n));
}

/* Each mode of a record and of a wait, at, below and above the value. */
static void test_count_notify_modes(void **)
{
	static constexpr std::uint32_t value = 6;
	static const struct {
		std::uint32_t mode;
		bool (*holds)(std::uint32_t now);
	} waits[] = {
		{ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE, [](std::uint32_t now) { return now < value; }},
		{ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE, [](std::uint32_t now) { return now == value; }},
		{ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE, [](std::uint32_t now) { return now > value; }},
		{ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE, [](std::uint32_t now) { return now >= value; }},
		{ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE,
		 [](std::uint32_t now) { return (now & value) == value; }},
	};
	/* From 5: 6, 7, 5, 4, 14, and 4 by an addition modulo 2^32. */
	static const aclrtCntNotifyRecordInfo records[] = {
		{ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 1},        {ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE, 2},
		{ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, 0},        {ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE, 6},
		{ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 14}, {ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE, ~0u},
	};
	static constexpr std::uint32_t results[] = {6, 7, 5, 4, 14, 4};
	aclrtCntNotify n;
	bench b(2);

	GOOD(aclrtCntNotifyCreate(&n, 0));
	for (const auto &w : waits)
		for (size_t i = 0; i < std::size(records); i++) {
			aclrtCntNotifyRecordInfo five = {ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 5}, then = records[i];
			aclrtCntNotifyWaitInfo wait = {aclrtCntNotifyWaitMode(w.mode), value, 0, 0, {}}, same = wait;

			same.mode = ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE;
			same.value = results[i];
			GOOD(aclrtCntNotifyRecord(n, b.s[1], &five));
			GOOD(aclrtCntNotifyRecord(n, b.s[1], &then));
			GOOD(aclrtCntNotifyWaitWithTimeout(n, b.s[1], &same));
			GOOD(aclrtSynchronizeStreamWithTimeout(b.s[1], 60000));
			GOOD(aclrtCntNotifyWaitWithTimeout(n, b.s[0], &wait));
			if (!w.holds(results[i])) {
				/* The pass that finishes this wait has seen the one before it. */
				GOOD(aclrtCntNotifyWaitWithTimeout(n, b.s[1], &same));
				GOOD(aclrtSynchronizeStreamWithTimeout(b.s[1], 60000));
				assert_true(b.busy(b.s[0]));
				then.mode = ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE;
				then.value = w.mode == ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE ? value + 1 :
					     w.mode == ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE   ? value - 1 :
											    value;
				GOOD(aclrtCntNotifyRecord(n, b.s[1], &then));
			}
			GOOD(aclrtSynchronizeStreamWithTimeout(b.s[0], 60000));
		}
	GOOD(aclrtCntNotifyDestroy(n));
}

/* Each comparison of a wait for a value, at, below and above it, and where it differs from the others. */
static void test_value_modes(void **)
{
	static constexpr std::uint64_t value = 6, top = std::uint64_t(1) << 63;
	static constexpr std::uint64_t words[] = {
		0, 5, 6, 7, 8, value | 1 << 8, top, top + 5, top + 6, ~value, ~std::uint64_t(0)};
	static bool (*const holds[])(std::uint64_t now) = {
		[](std::uint64_t now) { return std::int64_t(now - value) >= 0; },
		[](std::uint64_t now) { return now == value; },
		[](std::uint64_t now) { return (now & value) != 0; },
		[](std::uint64_t now) { return ~(now | value) != 0; },
	};
	/* Each comparison holds for one of these. */
	static constexpr std::uint64_t opens[] = {value, value, value, 0};
	bench b(2);

	for (std::uint32_t flag = ACL_STREAM_WAIT_VALUE_GEQ; flag <= ACL_STREAM_WAIT_VALUE_NOR; flag++)
		for (const std::uint64_t now : words) {
			GOOD(aclrtValueWrite(b.mem, now, 0, b.opener));
			GOOD(aclrtSynchronizeStream(b.opener));
			GOOD(aclrtValueWait(b.mem, value, flag, b.s[0]));
			if (!holds[flag](now)) {
				GOOD(aclrtValueWait(b.mem, now, ACL_STREAM_WAIT_VALUE_EQ, b.s[1]));
				GOOD(aclrtSynchronizeStreamWithTimeout(b.s[1], 60000));
				assert_true(b.busy(b.s[0]));
				GOOD(aclrtValueWrite(b.mem, opens[flag], 0, b.opener));
			}
			GOOD(aclrtSynchronizeStreamWithTimeout(b.s[0], 60000));
		}
}

/* A waiting stream blocks no other stream, and synchronisation with a timeout returns in time. */
static void test_value_wait_blocks_one(void **)
{
	bench b(8);
	aclrtEvent e;

	b.close(b.s[0]);
	GOOD(aclrtValueWrite(b.mem, 1, 0, b.s[0]));
	GOOD(aclrtCreateEvent(&e));
	GOOD(aclrtRecordEvent(e, b.s[0]));
	for (int round = 0; round < 20; round++)
		for (int i = 1; i < 8; i++) {
			GOOD(aclrtMemsetAsync(b.mem + 4096, 4096, round, 4096, b.s[size_t(i)]));
			GOOD(aclrtSynchronizeStream(b.s[size_t(i)]));
		}
	assert_true(b.busy(b.s[0]));
	assert_int_equal(b.word(0), 0);
	assert_int_equal(aclrtSynchronizeStreamWithTimeout(b.s[0], 1), 507046);
	assert_int_equal(aclrtSynchronizeEventWithTimeout(e, 1), 507047);
	assert_int_equal(aclrtSynchronizeDeviceWithTimeout(1), 507046);
	b.open();
	GOOD(aclrtSynchronizeEvent(e));
	assert_int_equal(b.word(0), 1);
	GOOD(aclrtDestroyEvent(e));
}

/* A timeout while the event is being reached is reported as the caller's timeout, never as a task's error. */
static void test_event_deadline(void **)
{
	bench b(1);
	aclrtEvent e;

	GOOD(aclrtCreateEvent(&e));
	for (int round = 0; round < 60; round++) {
		GOOD(aclrtValueWrite(b.gate, 0, 0, b.opener));
		GOOD(aclrtSynchronizeStream(b.opener));
		b.close(b.s[0]);
		GOOD(aclrtRecordEvent(e, b.s[0]));
		std::thread late([&] {
			GOOD(aclrtSetDevice(0));
			const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(970 + round);

			while (std::chrono::steady_clock::now() < end)
				;
			b.open();
			GOOD(aclrtResetDevice(0));
		});
		const aclError err = aclrtSynchronizeEventWithTimeout(e, 1);

		assert_true(err == 0 || err == 507047);
		late.join();
		GOOD(aclrtSynchronizeEvent(e));
	}
	GOOD(aclrtDestroyEvent(e));
}

/* A callback that runs until the test releases it. */
struct blocking_function {
	std::promise<void> entered, leave;
};

static void run_until_released(void *arg)
{
	auto *h = static_cast<blocking_function *>(arg);

	h->entered.set_value();
	h->leave.get_future().wait();
}

static void serve(std::atomic<bool> *stop, std::promise<std::uint64_t> *id)
{
	id->set_value(std::uint64_t(pthread_self()));
	while (!*stop)
		aclrtProcessReport(100);
}

static void test_callback_blocks_its_stream(void **)
{
	bench b(3);
	std::atomic<bool> stop{false};
	std::promise<std::uint64_t> id;
	std::thread server(serve, &stop, &id);
	const std::uint64_t thread = id.get_future().get();
	blocking_function blocking, passing;

	for (int i = 0; i < 2; i++)
		GOOD(aclrtSubscribeReport(thread, b.s[size_t(i)]));
	GOOD(aclrtValueWrite(b.mem, 1, 0, b.s[0]));
	GOOD(aclrtLaunchCallback(run_until_released, &blocking, ACL_CALLBACK_BLOCK, b.s[0]));
	GOOD(aclrtValueWrite(b.mem, 2, 0, b.s[0]));
	blocking.entered.get_future().wait();
	assert_int_equal(b.word(0), 1); /* work before the callback is done, work after it is not */
	assert_true(b.busy(b.s[0]));
	for (int i = 1; i < 3; i++) {
		GOOD(aclrtMemsetAsync(b.mem + 4096, 64, i, 64, b.s[size_t(i)]));
		GOOD(aclrtSynchronizeStream(b.s[size_t(i)]));
	}
	assert_int_equal(b.word(0), 1);
	blocking.leave.set_value();
	GOOD(aclrtSynchronizeStream(b.s[0]));
	assert_int_equal(b.word(0), 2);
	/* A callback that does not block its stream. */
	GOOD(aclrtLaunchCallback(run_until_released, &passing, ACL_CALLBACK_NO_BLOCK, b.s[1]));
	GOOD(aclrtValueWrite(b.mem, 3, 0, b.s[1]));
	passing.entered.get_future().wait();
	GOOD(aclrtSynchronizeStream(b.s[1]));
	assert_int_equal(b.word(0), 3);
	passing.leave.set_value();
	for (int i = 0; i < 2; i++)
		GOOD(aclrtUnSubscribeReport(thread, b.s[size_t(i)]));
	stop = true;
	server.join();
}

/* A function that does not return blocks its own context, but no other context of the device. */
static void test_host_function_of_another_context(void **)
{
	bench b(1);
	aclrtContext mine, other;
	aclrtStream there;
	blocking_function stuck, passing;

	GOOD(aclrtGetCurrentContext(&mine));
	GOOD(aclrtLaunchHostFunc(b.s[0], run_until_released, &stuck));
	stuck.entered.get_future().wait();
	GOOD(aclrtCreateContext(&other, 0));
	GOOD(aclrtCreateStream(&there));
	passing.leave.set_value();
	GOOD(aclrtLaunchHostFunc(there, run_until_released, &passing));
	assert_int_equal(aclrtSynchronizeStreamWithTimeout(there, 20000), 0);
	GOOD(aclrtDestroyStream(there));
	GOOD(aclrtDestroyContext(other));
	GOOD(aclrtSetCurrentContext(mine));
	assert_true(b.busy(b.s[0]));
	stuck.leave.set_value();
	GOOD(aclrtSynchronizeStream(b.s[0]));
}

static void await_no_threads()
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);

	while (usdma::test::threads_named("usdma-calls") && std::chrono::steady_clock::now() < end)
		std::this_thread::yield();
	assert_int_equal(usdma::test::threads_named("usdma-calls"), 0);
}

/* The threads for host functions exit when they are idle, and are created again. */
static void test_host_function_threads_end(void **)
{
	await_no_threads();
	for (int round = 0; round < 2; round++) {
		bench b(1);
		blocking_function h;

		h.leave.set_value();
		GOOD(aclrtLaunchHostFunc(b.s[0], run_until_released, &h));
		/* A thread sets its name before it runs a function. */
		h.entered.get_future().wait();
		assert_int_equal(usdma::test::threads_named("usdma-calls"), 1);
		GOOD(aclrtSynchronizeStream(b.s[0]));
		await_no_threads();
	}
}

static void test_host_function(void **)
{
	bench b(2);
	blocking_function h;

	GOOD(aclrtLaunchHostFunc(b.s[0], run_until_released, &h));
	GOOD(aclrtValueWrite(b.mem, 5, 0, b.s[0]));
	h.entered.get_future().wait();
	GOOD(aclrtMemsetAsync(b.mem + 4096, 64, 1, 64, b.s[1]));
	GOOD(aclrtSynchronizeStream(b.s[1]));
	assert_int_equal(b.word(0), 0);
	h.leave.set_value();
	GOOD(aclrtSynchronizeStream(b.s[0]));
	assert_int_equal(b.word(0), 5);
}

/* Only the aborted stream reports the abort. */
static void test_abort(void **)
{
	bench b(3);

	b.close(b.s[0]);
	GOOD(aclrtValueWrite(b.mem, 1, 0, b.s[0]));
	GOOD(aclrtMemsetAsync(b.mem + 64, 64, 3, 64, b.s[1]));
	GOOD(aclrtStreamAbort(b.s[0]));
	assert_int_equal(aclrtSynchronizeStream(b.s[0]), 107023);
	GOOD(aclrtSynchronizeStream(b.s[1]));
	assert_int_equal(b.word(0), 0);
	b.open();
	GOOD(aclrtSynchronizeStream(b.s[2]));
	assert_int_equal(b.word(0), 0);
}

/* Handles of destroyed events and notifies are invalid at once; submitted waits still work. */
static void test_destroyed_in_use(void **)
{
	bench b(3);
	aclrtEvent e;
	aclrtNotify n;

	GOOD(aclrtCreateEvent(&e));
	GOOD(aclrtCreateNotify(&n, 0));
	b.close(b.s[0]);
	GOOD(aclrtValueWrite(b.mem, 9, 0, b.s[0]));
	GOOD(aclrtRecordEvent(e, b.s[0]));
	GOOD(aclrtStreamWaitEvent(b.s[1], e));
	GOOD(aclrtMemcpyAsync(b.mem + 8, 8, b.mem, 8, ACL_MEMCPY_DEVICE_TO_DEVICE, b.s[1]));
	GOOD(aclrtRecordNotify(n, b.s[1]));
	GOOD(aclrtWaitAndResetNotify(n, b.s[2], 0));
	GOOD(aclrtDestroyEvent(e));
	GOOD(aclrtDestroyNotify(n));
	assert_int_equal(aclrtRecordEvent(e, b.s[0]), 107017);
	assert_int_equal(aclrtRecordNotify(n, b.s[0]), 107017);
	b.open();
	GOOD(aclrtSynchronizeStreamWithTimeout(b.s[2], 60000));
	GOOD(aclrtSynchronizeStream(b.s[0]));
	assert_int_equal(b.word(1), 9);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_event_chain),
		cmocka_unit_test(test_future_events),
		cmocka_unit_test(test_notify_chain),
		cmocka_unit_test(test_count_notify_chain),
		cmocka_unit_test(test_count_notify_modes),
		cmocka_unit_test(test_value_modes),
		cmocka_unit_test(test_value_wait_blocks_one),
		cmocka_unit_test(test_event_deadline),
		cmocka_unit_test(test_callback_blocks_its_stream),
		cmocka_unit_test(test_host_function),
		cmocka_unit_test(test_host_function_of_another_context),
		cmocka_unit_test(test_host_function_threads_end),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_destroyed_in_use),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
