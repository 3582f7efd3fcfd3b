/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays of captures: random graphs of several streams, compared with a model of memory, and replays with host
 * functions, live events, waits and freed memory.
 */
#include "acl_capture.h"
#include "tests/support/until.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

using namespace usdma::test;

namespace {

/* Random work of three streams, with events between accesses to shared memory, compared with a model. */
struct graph {
	static constexpr int streams = 3, buffers = 8; /* the first half device memory, the rest pinned */
	rig &r;
	std::vector<unsigned char *> mem;
	std::vector<std::vector<unsigned char>> model;
	int last[buffers]; /* the stream that used it last */
	aclrtStream stream[streams];
	std::vector<aclrtEvent> events;

	explicit graph(rig &of) : r(of), stream{of.s, of.t, of.u}
	{
		for (int b = 0; b < buffers; b++)
			mem.push_back(rig::memory(b < buffers / 2));
	}
	~graph()
	{
		for (int b = 0; b < buffers; b++)
			GOOD(b < buffers / 2 ? aclrtFree(mem[b]) : aclrtFreeHost(mem[b]));
	}
	graph(const graph &) = delete;
	graph &operator=(const graph &) = delete;

	size_t pick(size_t n) { return r.gen() % n; }
	void order(int before, int after)
	{
		aclrtEvent e;

		GOOD(aclrtCreateEventExWithFlag(&e, ACL_EVENT_SYNC));
		GOOD(aclrtRecordEvent(e, stream[before]));
		GOOD(aclrtStreamWaitEvent(stream[after], e));
		events.push_back(e);
	}
	void use(int s, int b)
	{
		if (last[b] != s)
			order(last[b], s);
		last[b] = s;
	}
	void step(std::vector<std::function<void()>> *program);
	void record(std::vector<std::function<void()>> *program);
	void start();
	void compare();
};

/* Captures one operation, and appends its effect on the model to the program. */
void graph::step(std::vector<std::function<void()>> *program)
{
	const int s = int(pick(streams));
	int dst = int(pick(buffers)), src = int(pick(buffers / 2)) + (dst < buffers / 2 ? buffers / 2 : 0);
	const size_t at = pick(size / 64) * 64, n = 64 * (1 + pick((size - at) / 64));

	if (pick(3) == 0) {
		dst %= buffers / 2;
		use(s, dst);
		const auto value = static_cast<unsigned char>(pick(256));
		GOOD(aclrtMemsetAsync(mem[dst] + at, n, value, n, stream[s]));
		program->push_back([=, this] { memset(model[dst].data() + at, value, n); });
		return;
	}
	use(s, dst);
	use(s, src);
	if (pick(4) == 0) {
		const size_t rows = n / 64;

		GOOD(aclrtMemcpy2dAsync(mem[dst] + at, 64, mem[src] + at, 64, 32, rows, ACL_MEMCPY_DEFAULT, stream[s]));
		program->push_back([=, this] {
			for (size_t row = 0; row < rows; row++)
				memcpy(&model[dst][at + row * 64], &model[src][at + row * 64], 32);
		});
		return;
	}
	GOOD(rig::copy(mem[dst] + at, mem[src] + at, stream[s], n));
	program->push_back([=, this] { memcpy(&model[dst][at], &model[src][at], n); });
}

void graph::record(std::vector<std::function<void()>> *program)
{
	std::fill(std::begin(last), std::end(last), 0);
	GOOD(aclmdlRICaptureBegin(stream[0], global));
	for (int s = 1; s < streams; s++)
		order(0, s);
	for (size_t n = 5 + pick(40); n; n--)
		step(program);
	for (int s = 1; s < streams; s++)
		order(s, 0);
}

void graph::start()
{
	model.clear();
	for (unsigned char *m : mem) {
		model.emplace_back(size);
		fill_random(model.back().data(), size, r.gen);
		GOOD(aclrtMemcpy(m, size, model.back().data(), size, ACL_MEMCPY_DEFAULT));
	}
}

void graph::compare()
{
	std::vector<unsigned char> got(size);

	for (int b = 0; b < buffers; b++) {
		GOOD(aclrtMemcpy(got.data(), size, mem[b], size, ACL_MEMCPY_DEFAULT));
		assert_memory_equal(got.data(), model[b].data(), size);
	}
}

void test_random_graphs(void **)
{
	rig r(10);
	graph g(r);

	for (size_t round = sized(30, 2) * scale(); round; round--) {
		std::vector<std::function<void()>> program;

		g.record(&program);
		const aclmdlRI m = r.end(r.s);
		for (aclrtEvent e : g.events)
			GOOD(aclrtDestroyEvent(e));
		g.events.clear();
		g.start();
		for (size_t times = 1 + g.pick(4); times; times--) {
			GOOD(aclmdlRIExecuteAsync(m, g.pick(3) ? g.stream[0] : nullptr));
			/* An access in another stream would not be ordered. */
			if (g.pick(2))
				GOOD(aclrtSynchronizeDevice());
			else
				GOOD(aclrtSynchronizeStream(nullptr) ?: aclrtSynchronizeStream(r.s));
			for (const auto &step : program)
				step();
		}
		g.compare();
		GOOD(aclmdlRIDestroy(m));
	}
}

void test_many_in_one_stream(void **)
{
	/* The last two rounds run when the model is destroyed, which waits for 10 s. */
	const int n = int(sized(1000, 8));
	rig r(11);
	std::vector<void *> dst(n), src(n);
	std::vector<size_t> len(n, 4);
	aclrtMemcpyBatchAttr attr = {{0, ACL_MEM_LOCATION_TYPE_DEVICE}, {0, ACL_MEM_LOCATION_TYPE_HOST}, {}};
	size_t index = 0, bad;
	std::atomic<int> calls{0};

	for (int i = 0; i < n; i++) {
		dst[size_t(i)] = r.dev + i * 4;
		src[size_t(i)] = r.pin + (n - 1 - i) * 4;
	}
	GOOD(aclmdlRICaptureBegin(r.s, global));
	GOOD(aclrtMemcpyBatchAsync(dst.data(), len.data(), src.data(), len.data(), n, &attr, &index, 1, &bad, r.s));
	src[n / 2] = r.heap;
	IS(107000,
	   aclrtMemcpyBatchAsync(dst.data(), len.data(), src.data(), len.data(), n, &attr, &index, 1, &bad, r.s));
	assert_int_equal(bad, n / 2);
	GOOD(rig::copy(r.back, r.dev, r.s, n * 4));
	GOOD(aclrtLaunchHostFunc(r.s, count_call, &calls));
	const aclmdlRI m = r.end(r.s);
	assert_int_equal(calls.load(), 0);
	for (int round = 1; round <= 20; round++) {
		GOOD(aclmdlRIExecuteAsync(m, r.s));
		if (round % 3 == 0) {
			GOOD(aclrtSynchronizeStream(r.s));
			assert_int_equal(calls.load(), round);
			for (int i = 0; i < n; i++)
				assert_memory_equal(r.back + i * 4, r.pin + (n - 1 - i) * 4, 4);
			fill_random(r.pin, size, r.gen);
		}
	}
	GOOD(aclmdlRIDestroy(m)); /* waits for the executions */
	assert_int_equal(calls.load(), 20);
}

void test_callbacks(void **)
{
	rig r(12);
	std::atomic<bool> stop{false};
	std::atomic<int> calls{0};
	aclmdlRI m;

	GOOD(aclmdlRICaptureBegin(r.s, global));
	IS(107015, aclrtLaunchCallback(count_call, &calls, ACL_CALLBACK_BLOCK, r.s));
	std::thread server([&] {
		GOOD(aclrtSetCurrentContext(r.ctx));
		while (!stop)
			aclrtProcessReport(20);
	});
	std::uint64_t id = std::uint64_t(server.native_handle());
	GOOD(aclrtSubscribeReport(id, r.s));
	GOOD(aclrtLaunchCallback(count_call, &calls, ACL_CALLBACK_BLOCK, r.s));
	GOOD(aclrtLaunchCallback(count_call, &calls, ACL_CALLBACK_NO_BLOCK, r.s));
	m = r.end(r.s);
	for (int i = 0; i < 3; i++)
		GOOD(aclmdlRIExecuteAsync(m, r.t));
	until("callbacks", [&] { return calls.load() == 6; });
	GOOD(aclrtSynchronizeStream(r.t));
	GOOD(aclmdlRIDestroy(m));
	GOOD(aclrtUnSubscribeReport(id, r.s));
	stop = true;
	server.join();
}

/* A replay waits for words, notifies and live events; a joined stream lets another stream continue. */
void test_waits(void **)
{
	rig r(13);
	aclrtEvent live, seen;
	aclrtNotify n;
	aclrtEventRecordedStatus done;
	aclmdlRI m;

	GOOD(aclrtCreateEventWithFlag(&live, ACL_EVENT_EXTERNAL));
	GOOD(aclrtCreateEventExWithFlag(&seen, ACL_EVENT_SYNC));
	GOOD(aclrtCreateNotify(&n, 0));
	GOOD(aclrtMemset(r.dev, size, 0, size));
	GOOD(aclmdlRICaptureBegin(r.s, global));
	GOOD(aclrtRecordEvent(r.fork, r.s));
	GOOD(aclrtStreamWaitEvent(r.t, r.fork));
	GOOD(aclrtValueWait(r.dev, 7, ACL_STREAM_WAIT_VALUE_EQ, r.s));
	GOOD(aclrtStreamWaitEvent(r.t, live));
	GOOD(aclrtResetEvent(live, r.t));
	GOOD(aclrtValueWrite(r.dev, 7, 0, r.t));
	GOOD(aclrtWaitAndResetNotify(n, r.s, 0));
	GOOD(aclrtRecordEvent(r.join, r.t));
	GOOD(aclrtStreamWaitEvent(r.s, r.join));
	GOOD(rig::copy(r.back, r.dev, r.s, 8));
	GOOD(aclrtValueWrite(r.dev, 0, 0, r.s));
	GOOD(aclrtRecordEventWithFlag(seen, r.s, ACL_EVENT_RECORD_EXTERNAL));
	m = r.end(r.s);
	for (int round = 0; round < 3; round++) {
		r.back[0] = 0;
		GOOD(aclmdlRIExecuteAsync(m, r.s));
		GOOD(aclrtQueryEventStatus(seen, &done));
		assert_int_equal(done, ACL_EVENT_RECORDED_STATUS_NOT_READY);
		IS(507046, aclrtSynchronizeStreamWithTimeout(r.s, 20));
		GOOD(aclrtRecordEvent(live, r.u));
		IS(507046, aclrtSynchronizeStreamWithTimeout(r.s, 20));
		assert_int_equal(r.back[0], 0);
		GOOD(aclrtRecordNotify(n, r.u));
		GOOD(aclrtSynchronizeEvent(seen));
		assert_int_equal(r.back[0], 7);
		GOOD(aclrtSynchronizeStream(r.s));
	}
	GOOD(aclmdlRIDestroy(m));
	GOOD(aclrtDestroyNotify(n));
	GOOD(aclrtDestroyEvent(live));
	GOOD(aclrtDestroyEvent(seen));
}

/* Memory freed since the capture: the launch fails as a whole. */
void test_freed(void **)
{
	rig r(14);

	for (bool device : {true, false}) {
		unsigned char *freed = rig::memory(device);

		memset(r.back, 0, size);
		GOOD(aclrtMemset(r.dev, size, 9, size));
		GOOD(aclmdlRICaptureBegin(r.s, global));
		GOOD(rig::copy(r.back, r.dev, r.s));
		GOOD(device ? rig::copy(freed, r.pin, r.s) : rig::copy(r.dev, freed, r.s));
		const aclmdlRI m = r.end(r.s);
		GOOD(aclmdlRIExecuteAsync(m, r.s));
		GOOD(aclrtSynchronizeStream(r.s));
		assert_int_equal(r.back[0], 9);
		memset(r.back, 0, size);
		GOOD(device ? aclrtFree(freed) : aclrtFreeHost(freed));
		IS(507899, aclmdlRIExecuteAsync(m, r.s));
		GOOD(aclrtSynchronizeStream(r.s));
		assert_int_equal(r.back[0], 0);
		GOOD(aclmdlRIDestroy(m));
	}
}

/* A failure in a joined stream is reported once, by the stream in which the instance runs. */
void test_errors(void **)
{
	rig r(17);
	unsigned char *desc = rig::memory(true);
	const auto describe = [&] {
		GOOD(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, r.dev, r.dev + 1024, 64, nullptr));
	};

	describe();
	GOOD(aclmdlRICaptureBegin(r.s, global));
	GOOD(aclrtRecordEvent(r.fork, r.s));
	GOOD(aclrtStreamWaitEvent(r.t, r.fork));
	GOOD(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, r.t));
	GOOD(aclrtRecordEvent(r.join, r.t));
	GOOD(aclrtStreamWaitEvent(r.s, r.join));
	const aclmdlRI m = r.end(r.s);
	for (int round = 0; round < 6; round++) {
		if (round % 2)
			GOOD(aclrtMemset(desc, 64, 0xff, 64));
		else
			describe();
		GOOD(aclmdlRIExecuteAsync(m, r.u));
		const aclError got = aclrtSynchronizeStream(r.u);
		assert_int_equal(got != 0, round % 2);
		GOOD(aclrtSynchronizeStream(r.t));
	}
	GOOD(aclmdlRIDestroy(m));
	GOOD(aclrtFree(desc));
}

/* Threads capture and replay at the same time, each its own graph, all in one target stream as well. */
void test_threads(void **)
{
	rig r(15);
	std::vector<std::thread> threads;

	for (int i = 0; i < 3; i++)
		threads.emplace_back([&r, i] {
			aclrtStream own;
			aclmdlRI m;
			std::atomic<int> calls{0};
			const size_t at = size_t(i) * 1024;

			GOOD(aclrtSetCurrentContext(r.ctx));
			GOOD(aclrtCreateStream(&own));
			for (int round = 0; round < 20; round++) {
				GOOD(aclmdlRICaptureBegin(own, local));
				GOOD(rig::copy(r.dev + at, r.pin + at, own, 1024));
				GOOD(rig::copy(r.back + at, r.dev + at, own, 1024));
				GOOD(aclrtLaunchHostFunc(own, count_call, &calls));
				m = r.end(own);
				GOOD(aclmdlRIExecuteAsync(m, round % 2 ? own : r.u));
				GOOD(aclmdlRIDestroy(m));
				assert_int_equal(calls.load(), round + 1);
				assert_memory_equal(r.back + at, r.pin + at, 1024);
			}
			GOOD(aclrtDestroyStream(own));
		});
	for (std::thread &t : threads)
		t.join();
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_random_graphs), cmocka_unit_test(test_many_in_one_stream),
		cmocka_unit_test(test_callbacks),     cmocka_unit_test(test_waits),
		cmocka_unit_test(test_freed),         cmocka_unit_test(test_errors),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
