/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, events and contexts are destroyed, each by two threads at once, and a
 * device is reset, with force or without, while other threads are in every kind of
 * wait and submission.  A call ends with a code of its header, a handle that is
 * gone never means the next object.  For sanitizers.
 */
#include "acl/acl.h"
#include "tests/support/sanitizer.h"
#include "tests/support/test.h"

#include <array>
#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

TEST_TSAN_SUPPRESSIONS(TEST_MOVES_IN_ANY_ORDER TEST_STALE_HANDLES TEST_RINGS_OF_THREADS)

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr int n_slots = 6, n_events = 4, n_users = 4, n_killers = 2, n_contexts = 2, device_id = 1;
static constexpr size_t area = 8 << 10, dead_kept = 64;

namespace {

struct round_state {
	aclrtContext context[n_contexts]; /* the first is the primary one */
	std::atomic<aclrtStream> stream[n_slots];
	std::atomic<aclrtEvent> event[n_events];
	std::array<std::atomic<aclrtStream>, dead_kept> dead{};
	std::atomic<unsigned> buried{0};
	char *host, *mem;
	bool gates; /* some streams wait for what only their end ends */
	std::atomic<bool> stop{false}, ending{false}, ended{false};
	std::atomic<int> wrong{0};
	std::atomic<uint64_t> called{0};

	void bad(const char *call, aclError ret, const char *why)
	{
		if (!wrong++)
			print_error("%s: %d (%s): %s\n", call, ret, aclGetRecentErrMsg(), why);
	}
	void bury(aclrtStream s) { dead[buried++ % dead_kept] = s; }
};

/*
 * 107000, 107002: the context is gone; 107003: the thread has another one; 107017: the object is gone; 107023: aborted;
 * 507046, 507047: not in time; 107000 also: memory of a device that was reset.
 */
void expect(round_state &r, const char *call, aclError ret)
{
	static const std::set<aclError> good = {0, 107000, 107002, 107003, 107017, 107023, 507010, 507046, 507047};

	if (!good.contains(ret))
		r.bad(call, ret, "no code of this");
}

void count_call(void *arg)
{
	++static_cast<round_state *>(arg)->called;
}

class user {
public:
	user(round_state &r, uint64_t number) : r_(r), gen_(rng(number)), plain_(area) {}
	void run()
	{
		while (!r_.stop) {
			const int slot = int(gen_() % n_slots);

			if (gen_() % 2)
				expect(r_, "aclrtSetCurrentContext",
				       aclrtSetCurrentContext(r_.context[slot % n_contexts]));
			gen_() % 3 ? submit(r_.stream[slot], slot) : wait(r_.stream[slot], r_.event[gen_() % n_events]);
			if (gen_() % 4 == 0)
				on_the_dead();
			if (gen_() % 8 == 0)
				std::this_thread::yield();
		}
	}

private:
	void submit(aclrtStream s, int slot)
	{
		char *const mem = r_.mem + size_t(slot) * area, *const host = r_.host + size_t(slot) * area;
		const aclrtEvent e = r_.event[gen_() % n_events];

		switch (gen_() % 8) {
		case 0:
			return expect(r_, "aclrtMemcpyAsync",
				      aclrtMemcpyAsync(mem, area, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, s));
		case 1:
			return expect(r_, "aclrtMemcpyAsync, pageable",
				      aclrtMemcpyAsync(mem, area, plain_.data(), area, ACL_MEMCPY_HOST_TO_DEVICE,
						       r_.gates ? nullptr : s));
		case 2:
			return expect(r_, "aclrtMemsetAsync", aclrtMemsetAsync(mem, area, 1, area, s));
		case 3:
			return expect(r_, "aclrtRecordEvent", aclrtRecordEvent(e, s));
		case 4:
			return expect(r_, "aclrtStreamWaitEvent", aclrtStreamWaitEvent(s, e));
		case 5:
			return expect(r_, "aclrtLaunchHostFunc", aclrtLaunchHostFunc(s, count_call, &r_));
		case 6:
			return expect(r_, "aclrtValueWrite", aclrtValueWrite(mem, 1, 0, s));
		default:
			if (r_.gates && gen_() % 4 == 0)
				expect(r_, "aclrtValueWait",
				       aclrtValueWait(r_.mem + n_slots * area, 1, ACL_STREAM_WAIT_VALUE_EQ, s));
		}
	}
	void wait(aclrtStream s, aclrtEvent e)
	{
		const int limit = r_.gates && !r_.ending ? 1 + int(gen_() % 3) : -1;
		char *const mem = r_.mem + (n_slots + 1 + gen_() % 4) * area;
		aclrtEventRecordedStatus recorded;
		aclrtStreamStatus status;

		switch (gen_() % 7) {
		case 0:
			return expect(r_, "aclrtSynchronizeStream", aclrtSynchronizeStreamWithTimeout(s, limit));
		case 1:
			return expect(r_, "aclrtSynchronizeStream, limited", aclrtSynchronizeStreamWithTimeout(s, 1));
		case 2:
			return expect(r_, "aclrtSynchronizeEvent", aclrtSynchronizeEventWithTimeout(e, limit));
		case 3:
			return expect(r_, "aclrtSynchronizeDevice", aclrtSynchronizeDeviceWithTimeout(limit));
		case 4:
			return expect(r_, "aclrtStreamQuery", aclrtStreamQuery(s, &status));
		case 5:
			return expect(r_, "aclrtQueryEventStatus", aclrtQueryEventStatus(e, &recorded));
		default:
			return expect(r_, "aclrtMemcpy",
				      aclrtMemcpy(mem, area, plain_.data(), area, ACL_MEMCPY_HOST_TO_DEVICE));
		}
	}
	void on_the_dead()
	{
		const aclrtStream s = r_.dead[gen_() % dead_kept];
		aclrtStreamStatus status;
		aclError ret = 107017;

		if (!s)
			return;
		switch (gen_() % 4) {
		case 0:
			ret = aclrtSynchronizeStream(s);
			break;
		case 1:
			ret = aclrtStreamQuery(s, &status);
			break;
		case 2:
			ret = aclrtDestroyStreamForce(s);
			break;
		default:
			ret = aclrtLaunchHostFunc(s, count_call, &r_);
			break;
		}
		if (ret != 107017 && ret != 107002)
			r_.bad("a call", ret, "its stream was destroyed before");
	}

	round_state &r_;
	std::mt19937_64 gen_;
	std::vector<char> plain_;
};

class killer {
public:
	killer(round_state &r, uint64_t number) : r_(r), gen_(rng(1000 + number)) {}
	void run(int times)
	{
		for (int i = 0; i < times; i++)
			gen_() % 2 ? stream() : event();
	}

private:
	void stream()
	{
		const int slot = int(gen_() % n_slots);
		const bool force = r_.gates || gen_() % 2;
		aclrtStream was = r_.stream[slot], next;

		if (const aclError err = aclrtSetCurrentContext(r_.context[slot % n_contexts]))
			return r_.bad("aclrtSetCurrentContext", err, "the context is live");
		const aclError ret = force ? aclrtDestroyStreamForce(was) : aclrtDestroyStream(was);
		expect(r_, "aclrtDestroyStream", ret);
		if (ret)
			return;
		r_.bury(was);
		if (const aclError err = aclrtCreateStream(&next))
			return r_.bad("aclrtCreateStream", err, "the device is set");
		if (r_.stream[slot].exchange(next) != was)
			r_.bad("aclrtDestroyStream", ret, "two threads destroyed one stream");
	}
	void event()
	{
		const int at = int(gen_() % n_events);
		aclrtEvent was = r_.event[at], next;

		if (const aclError err = aclrtSetCurrentContext(r_.context[0]))
			return r_.bad("aclrtSetCurrentContext", err, "the context is live");
		const aclError ret = aclrtDestroyEvent(was);
		expect(r_, "aclrtDestroyEvent", ret);
		if (ret)
			return;
		if (const aclError err = aclrtCreateEvent(&next))
			return r_.bad("aclrtCreateEvent", err, "the device is set");
		if (r_.event[at].exchange(next) != was)
			r_.bad("aclrtDestroyEvent", ret, "two threads destroyed one event");
	}

	round_state &r_;
	std::mt19937_64 gen_;
};

} // namespace

static void set_up(round_state *r)
{
	GOOD(aclrtCreateContext(&r->context[1], device_id));
	GOOD(aclrtSetDevice(device_id));
	GOOD(aclrtGetCurrentContext(&r->context[0]));
	GOOD(aclrtMallocHost(reinterpret_cast<void **>(&r->host), (n_slots + 1) * area));
	GOOD(aclrtMalloc(reinterpret_cast<void **>(&r->mem), (n_slots + 5) * area, ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(aclrtMemset(r->mem, (n_slots + 5) * area, 0, (n_slots + 5) * area));
	for (int i = 0; i < n_slots; i++) {
		aclrtStream s;

		GOOD(aclrtSetCurrentContext(r->context[i % n_contexts]));
		GOOD(aclrtCreateStream(&s));
		r->stream[i] = s;
	}
	GOOD(aclrtSetCurrentContext(r->context[0]));
	for (auto &e : r->event) {
		aclrtEvent made;

		GOOD(aclrtCreateEvent(&made));
		e = made;
	}
}

/* By two threads at once: for one of them it works, the other is told that there is none. */
template <class F> static void twice(round_state *r, const char *call, aclError refused, F end)
{
	std::atomic<int> done{0}, told{0};
	std::vector<std::thread> all;

	for (int i = 0; i < 2; i++)
		all.emplace_back([&] {
			const aclError ret = end();

			done += ret == 0;
			told += ret == refused;
		});
	for (auto &t : all)
		t.join();
	if (done != 1 || told != 1)
		r->bad(call, done, "of two threads not exactly one did it");
}

/* Contexts take their streams with them. */
static void end_all(round_state *r)
{
	r->ending = true;
	if (r->gates)
		for (auto &s : r->stream)
			expect(*r, "aclrtStreamAbort",
			       (aclrtSetCurrentContext(r->context[(&s - r->stream) % n_contexts]),
				aclrtStreamAbort(s)));
	twice(r, "aclrtDestroyContext", 107002, [&] { return aclrtDestroyContext(r->context[1]); });
	if (r->gates)
		twice(r, "aclrtResetDeviceForce", 507007, [] { return aclrtResetDeviceForce(device_id); });
	else
		twice(r, "aclrtResetDevice", 507007, [] { return aclrtResetDevice(device_id); });
	for (auto &s : r->stream)
		r->bury(s);
}

static void play(uint64_t number)
{
	auto r = std::make_unique<round_state>();
	auto gen = rng(number);
	std::vector<std::thread> using_it, killing;

	r->gates = gen() % 2;
	set_up(r.get());
	for (uint64_t i = 0; i < n_users; i++)
		using_it.emplace_back([&, i] { user(*r, number * 100 + i).run(); });
	for (uint64_t i = 0; i < n_killers; i++)
		killing.emplace_back([&, i, times = int(gen() % 30)] { killer(*r, number * 100 + i).run(times); });
	for (auto &t : killing)
		t.join();
	end_all(r.get());
	for (uint64_t i = gen() % 200; i; i--)
		std::this_thread::yield();
	r->stop = true;
	for (auto &t : using_it)
		t.join();
	for (auto &e : r->event)
		expect(*r, "aclrtDestroyEvent", aclrtDestroyEvent(e));
	GOOD(aclrtFreeHost(r->host));
	assert_int_equal(r->wrong, 0);
}

static void under_every_kind_of_wait(void **)
{
	GOOD(aclrtSetDevice(0));
	for (uint64_t i = 0; i < 12 * scale(); i++)
		play(i + 1);
	GOOD(aclrtResetDevice(0));
}

/* Makes what is shown current, again and again: it has that, or none, and never what is left of one. */
static void follow(const std::atomic<aclrtContext> &shown, const std::atomic<bool> &stop, std::atomic<int> *wrong)
{
	static const std::set<aclError> good = {0, 107000, 107002};
	char from[64] = "", to[64];

	while (!stop) {
		aclrtSetCurrentContext(shown);
		*wrong += !good.contains(aclrtMemcpy(to, sizeof(to), from, sizeof(from), ACL_MEMCPY_HOST_TO_HOST));
	}
}

static void made_current_beside_its_end(void **)
{
	std::atomic<aclrtContext> shown{nullptr};
	std::atomic<bool> stop{false};
	std::atomic<int> wrong{0};
	std::vector<std::thread> all;
	auto gen = rng(1000);

	for (int i = 0; i < 4; i++)
		all.emplace_back([&] { follow(shown, stop, &wrong); });
	for (unsigned round = 0; round < 20 * scale(); round++) {
		aclrtContext c;

		GOOD(aclrtCreateContext(&c, device_id));
		shown = c;
		for (uint64_t i = gen() % 200; i; i--)
			std::this_thread::yield();
		GOOD(aclrtDestroyContext(c));
	}
	stop = true;
	for (auto &t : all)
		t.join();
	assert_int_equal(wrong, 0);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(under_every_kind_of_wait),
		cmocka_unit_test(made_current_beside_its_end),
	};

	return cmocka_run_group_tests_name("ACL holds", tests, nullptr, nullptr);
}
