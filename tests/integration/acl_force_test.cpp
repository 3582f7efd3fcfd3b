/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host functions and callbacks of streams that are destroyed by force, or aborted: each runs at most
 * once, after its copy, and none runs after the destroy or abort call has returned.
 */
#include "acl/acl.h"
#include "tests/support/test.h"
#include "tests/support/until.h"

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static const size_t size = sized(64 << 10, 1 << 10);
static const int rounds = int(sized(300, 8));
static constexpr int functions = 3;

namespace {

/* A host function, and the copy before it. */
struct task {
	const std::atomic<bool> *over;  /* the destroy or abort call has returned */
	const unsigned char *last_byte; /* the last byte of its copy */
	unsigned char want;
	std::atomic<int> runs{0}, late{0}, early{0};
};

void run(void *arg)
{
	auto *t = static_cast<task *>(arg);

	t->late += *t->over;
	t->runs++;
	t->early += t->last_byte && *static_cast<const volatile unsigned char *>(t->last_byte) != t->want;
	std::this_thread::yield();
	t->late += *t->over;
}

/* Memory, and a thread that serves callbacks. */
struct bench {
	char *mem, *host;
	std::atomic<bool> stop{false};
	std::promise<uint64_t> id;
	std::thread server;
	uint64_t server_id;

	bench()
	{
		GOOD(aclrtSetDevice(0));
		GOOD(aclrtMalloc(reinterpret_cast<void **>(&mem), size, ACL_MEM_MALLOC_HUGE_FIRST));
		GOOD(aclrtMallocHost(reinterpret_cast<void **>(&host), size));
		server = std::thread([this] {
			if (aclrtSetDevice(0))
				print_error("the server cannot set its device\n");
			id.set_value(uint64_t(pthread_self()));
			while (!stop)
				if (aclrtProcessReport(20))
					std::this_thread::yield();
			aclrtResetDevice(0);
		});
		server_id = id.get_future().get();
	}
	~bench()
	{
		stop = true;
		server.join();
		GOOD(aclrtFree(mem));
		GOOD(aclrtFreeHost(host));
		GOOD(aclrtResetDevice(0));
	}
	bench(const bench &) = delete;
	bench &operator=(const bench &) = delete;
};

/* State of one round. */
struct round_state {
	std::atomic<bool> over{false};
	task tasks[functions];
};

} // namespace

/* Submits several pairs of a copy and a function. */
static void submit(bench &b, aclrtStream s, round_state *r, unsigned char value, bool reports)
{
	if (reports)
		GOOD(aclrtSubscribeReport(b.server_id, s));
	GOOD(aclrtMemsetAsync(b.mem, size, value, size, s));
	for (task &t : r->tasks) {
		t.over = &r->over;
		t.last_byte = reinterpret_cast<unsigned char *>(b.host) + size - 1;
		t.want = value;
		GOOD(aclrtMemcpyAsync(b.host, size, b.mem, size, ACL_MEMCPY_DEVICE_TO_HOST, s));
		GOOD(reports ? aclrtLaunchCallback(run, &t, value % 2 ? ACL_CALLBACK_BLOCK : ACL_CALLBACK_NO_BLOCK, s) :
			       aclrtLaunchHostFunc(s, run, &t));
	}
}

/* Waits until the library's thread and the server have no more work of earlier streams. */
static void flush(bench &b)
{
	round_state last[2];
	aclrtStream s;

	for (const bool reports : {false, true}) {
		GOOD(aclrtCreateStream(&s));
		submit(b, s, &last[reports], 1, reports);
		GOOD(aclrtSynchronizeStream(s));
		while (last[reports].tasks[functions - 1].runs != 1)
			std::this_thread::yield();
		GOOD(aclrtDestroyStream(s));
	}
}

template <class F> static void stop_at_random_times(bool reports, F stop_stream)
{
	bench b;
	auto gen = rng(unsigned(reports));
	std::vector<std::unique_ptr<round_state>> all;
	int ran = 0, late = 0, early = 0, twice = 0;

	for (int i = 0; i < rounds; i++) {
		round_state *r = all.emplace_back(std::make_unique<round_state>()).get();
		aclrtStream s;

		memset(b.host, 0, size);
		GOOD(aclrtCreateStream(&s));
		submit(b, s, r, static_cast<unsigned char>(1 + i % 250), reports);
		/* Wait until a random function has begun. */
		for (const uint64_t behind = gen() % (functions + 1); behind && !r->tasks[behind - 1].runs;)
			std::this_thread::yield();
		for (uint64_t n = gen() % 2000; n--;)
			std::atomic_signal_fence(std::memory_order_seq_cst);
		stop_stream(s, &r->over);
	}
	flush(b);
	for (const auto &r : all)
		for (const task &t : r->tasks) {
			ran += t.runs;
			late += t.late;
			early += t.early;
			twice += t.runs > 1;
		}
	print_message("# %d of %d functions ran\n", ran, rounds * functions);
	assert_int_equal(late, 0);
	assert_int_equal(early, 0);
	assert_int_equal(twice, 0);
}

static void destroy_by_force(aclrtStream s, std::atomic<bool> *over)
{
	GOOD(aclrtDestroyStreamForce(s));
	*over = true;
}

static void abort_then_destroy(aclrtStream s, std::atomic<bool> *over)
{
	GOOD(aclrtStreamAbort(s));
	*over = true;
	aclrtDestroyStream(s);
}

static void functions_of_destroyed_streams(void **)
{
	stop_at_random_times(false, destroy_by_force);
}

static void callbacks_of_destroyed_streams(void **)
{
	stop_at_random_times(true, destroy_by_force);
}

static void functions_of_aborted_streams(void **)
{
	stop_at_random_times(false, abort_then_destroy);
}

static void callbacks_of_aborted_streams(void **)
{
	stop_at_random_times(true, abort_then_destroy);
}

namespace {

/* A function that runs while its stream is destroyed or aborted. */
struct running_function {
	std::promise<void> entered;
	std::promise<void> leave;
	std::atomic<bool> over{false}, left{false}, next_ran{false};
	int late = 0;
};

} // namespace

static void wait_inside(void *arg)
{
	auto *l = static_cast<running_function *>(arg);

	l->entered.set_value();
	l->leave.get_future().wait();
	l->late = l->over;
	l->left = true;
}

static void next_function(void *arg)
{
	static_cast<running_function *>(arg)->next_ran = true;
}

/* True when the stream's work was dropped: an event after its functions does not wait for them any more. */
static bool is_dropped(aclrtEvent behind)
{
	aclrtEventRecordedStatus status;

	return aclrtQueryEventStatus(behind, &status) || status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

/* The call waits for the running function; the next function never runs. */
static void call_waits_for_a_running_function(void **)
{
	bench b;

	for (const bool force : {true, false}) {
		running_function l;
		aclrtStream s;
		aclrtEvent behind;

		GOOD(aclrtCreateStream(&s));
		GOOD(aclrtCreateEvent(&behind));
		GOOD(aclrtLaunchHostFunc(s, wait_inside, &l));
		GOOD(aclrtLaunchHostFunc(s, next_function, &l));
		GOOD(aclrtRecordEvent(behind, s));
		l.entered.get_future().wait();
		assert_false(is_dropped(behind));
		std::thread other([&] {
			aclrtSetDevice(0);
			const aclError ret = force ? aclrtDestroyStreamForce(s) : aclrtStreamAbort(s);
			l.over = true;
			if (ret || !l.left)
				print_error("%d, the function has %s\n", ret, l.left ? "ended" : "not ended");
			aclrtResetDevice(0);
		});
		until("the stream's work is dropped", [&] { return is_dropped(behind); });
		assert_false(l.over);
		l.leave.set_value();
		other.join();
		assert_true(l.over);
		assert_true(l.left);
		assert_int_equal(l.late, 0);
		aclrtDestroyEvent(behind);
		if (!force)
			aclrtDestroyStream(s);
		flush(b);
		assert_false(l.next_ran);
	}
}

namespace {

struct self_destroying {
	aclrtStream s;
	bool force;
	std::promise<aclError> done;
};

} // namespace

static void stop_own_stream(void *arg)
{
	auto *d = static_cast<self_destroying *>(arg);

	aclrtSetDevice(0);
	d->done.set_value(d->force ? aclrtDestroyStreamForce(d->s) : aclrtStreamAbort(d->s));
	aclrtResetDevice(0);
}

static void destroy_or_abort_by_own_function(void **)
{
	bench b;

	for (const bool force : {true, false}) {
		self_destroying d;

		d.force = force;
		GOOD(aclrtCreateStream(&d.s));
		GOOD(aclrtLaunchHostFunc(d.s, stop_own_stream, &d));
		GOOD(d.done.get_future().get());
		if (!force)
			aclrtDestroyStream(d.s);
		flush(b);
	}
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(functions_of_destroyed_streams),    cmocka_unit_test(callbacks_of_destroyed_streams),
		cmocka_unit_test(functions_of_aborted_streams),      cmocka_unit_test(callbacks_of_aborted_streams),
		cmocka_unit_test(call_waits_for_a_running_function), cmocka_unit_test(destroy_or_abort_by_own_function),
	};

	return cmocka_run_group_tests_name("by force", tests, nullptr, nullptr);
}
