/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two threads at once destroy streams, events and contexts and reset a device, with
 * force or without, while other threads wait and submit.  Each call returns a code of
 * its header, and a handle of a destroyed object never refers to the next object.
 * Run under sanitizers.
 */
#include "acl/acl.h"
#include "tests/integration/holds.h"
#include "tests/support/sanitizer.h"

TEST_TSAN_SUPPRESSIONS(TEST_UNORDERED_COPIES TEST_STALE_HANDLES TEST_RINGS_OF_THREADS)

using namespace usdma::test;

#define GOOD(call) assert_int_equal(call, 0)

static constexpr int n_slots = 6, n_events = 4, n_contexts = 2, device_id = 1;
static constexpr size_t area = 8 << 10;

namespace {

struct round_state : rules {
	aclrtContext context[n_contexts]; /* the first is the primary one */
	std::atomic<aclrtStream> stream[n_slots];
	std::atomic<aclrtEvent> event[n_events];
	dead_handles<aclrtStream> dead_streams;
	dead_handles<aclrtEvent> dead_events;
	char *host, *mem;
	bool gates; /* some streams wait until they are destroyed or aborted */
	std::atomic<bool> aborting{false};
	std::atomic<uint64_t> called{0};

	/*
	 * 107000, 107002: the context is destroyed; 107003: the thread has another one; 107017: the object is
	 * destroyed; 107023: aborted; 507046, 507047: timed out; 107000 also: memory of a device that was reset.
	 */
	round_state()
		: rules{{0, 107000, 107002, 107003, 107017, 107023, 507010, 507046, 507047},
			aclGetRecentErrMsg,
			[](long ret) { return ret != 0; }}
	{
	}
	static bool is_dead(long ret) { return ret == 107017 || ret == 107002; }
	void set_context(size_t slot)
	{
		if (const aclError err = aclrtSetCurrentContext(context[slot % n_contexts]))
			bad("aclrtSetCurrentContext", err, "the context is live");
	}
	void kill_stream(std::mt19937_64 &gen)
	{
		const size_t slot = gen() % n_slots;

		set_context(slot);
		replace("aclrtDestroyStream", stream[slot], &dead_streams,
			gates || gen() % 2 ? aclrtDestroyStreamForce : aclrtDestroyStream, aclrtCreateStream);
	}
	void kill_event(std::mt19937_64 &gen)
	{
		set_context(0);
		replace("aclrtDestroyEvent", event[gen() % n_events], &dead_events, aclrtDestroyEvent,
			aclrtCreateEvent);
	}
};

void count_call(void *arg)
{
	++static_cast<round_state *>(arg)->called;
}

struct user {
	round_state &r;
	std::mt19937_64 gen;
	std::vector<char> plain;
	const size_t private_offset;
	aclrtStream s;
	aclrtEvent e;
	char *mem, *host;

	user(round_state &round, uint64_t number)
		: r(round), gen(rng(number)), plain(area), private_offset((n_slots + 1 + number % n_users) * area)
	{
	}
	void step();
	int ms() { return r.gates && !r.aborting ? 1 + int(gen() % 3) : -1; }
	/* No stream and no other user writes this memory, so that copies by the CPU overlap with nothing. */
	char *private_mem() { return r.mem + private_offset; }
};

constexpr auto in = ACL_MEMCPY_HOST_TO_DEVICE;

long maybe_wait(user &u)
{
	if (!u.r.gates || u.gen() % 4)
		return 0;
	return aclrtValueWait(u.r.mem + n_slots * area, 1, ACL_STREAM_WAIT_VALUE_EQ, u.s);
}

long query(user &u)
{
	aclrtStreamStatus status;

	return aclrtStreamQuery(u.s, &status);
}

long query_event(user &u)
{
	aclrtEventRecordedStatus recorded;

	return aclrtQueryEventStatus(u.e, &recorded);
}

const user_call<user> submissions[] = {
	{"MemcpyAsync", [](user &u) -> long { return aclrtMemcpyAsync(u.mem, area, u.host, 64, in, u.s); }},
	{"MemcpyAsync, pageable",
	 [](user &u) -> long {
		 return aclrtMemcpyAsync(u.private_mem(), area, u.plain.data(), area, in, u.r.gates ? nullptr : u.s);
	 }},
	{"MemsetAsync", [](user &u) -> long { return aclrtMemsetAsync(u.mem, area, 1, area, u.s); }},
	{"RecordEvent", [](user &u) -> long { return aclrtRecordEvent(u.e, u.s); }},
	{"StreamWaitEvent", [](user &u) -> long { return aclrtStreamWaitEvent(u.s, u.e); }},
	{"LaunchHostFunc", [](user &u) -> long { return aclrtLaunchHostFunc(u.s, count_call, &u.r); }},
	{"ValueWrite", [](user &u) -> long { return aclrtValueWrite(u.mem, 1, 0, u.s); }},
	{"ValueWait", maybe_wait},
};

const user_call<user> waits[] = {
	{"SynchronizeStream", [](user &u) -> long { return aclrtSynchronizeStreamWithTimeout(u.s, u.ms()); }},
	{"SynchronizeStream, limited", [](user &u) -> long { return aclrtSynchronizeStreamWithTimeout(u.s, 1); }},
	{"SynchronizeEvent", [](user &u) -> long { return aclrtSynchronizeEventWithTimeout(u.e, u.ms()); }},
	{"SynchronizeDevice", [](user &u) -> long { return aclrtSynchronizeDeviceWithTimeout(u.ms()); }},
	{"StreamQuery", query},
	{"QueryEventStatus", query_event},
	{"Memcpy", [](user &u) -> long { return aclrtMemcpy(u.private_mem(), area, u.plain.data(), area, in); }},
};

const user_call<user> with_dead_stream[] = {
	{"SynchronizeStream", [](user &u) -> long { return aclrtSynchronizeStream(u.s); }},
	{"StreamQuery", query},
	{"DestroyStreamForce", [](user &u) -> long { return aclrtDestroyStreamForce(u.s); }},
	{"LaunchHostFunc", [](user &u) -> long { return aclrtLaunchHostFunc(u.s, count_call, &u.r); }},
};

void user::step()
{
	const size_t slot = gen() % n_slots;

	s = r.stream[slot];
	e = r.event[gen() % n_events];
	mem = r.mem + slot * area;
	host = r.host + slot * area;
	if (gen() % 2)
		r.expect("SetCurrentContext", aclrtSetCurrentContext(r.context[slot % n_contexts]));
	if (gen() % 3)
		make_any(*this, submissions);
	else
		make_any(*this, waits);
	s = r.dead_streams.any(gen);
	if (gen() % 4 == 0 && s)
		refuses_any(*this, with_dead_stream);
}

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

/* Destroys the contexts with their streams. */
static void destroy_all(round_state *r)
{
	r->aborting = true;
	for (size_t i = 0; r->gates && i < n_slots; i++) {
		r->set_context(i);
		r->expect("aclrtStreamAbort", aclrtStreamAbort(r->stream[i]));
	}
	r->twice("aclrtDestroyContext", 107002, [=] { return aclrtDestroyContext(r->context[1]); });
	r->twice("aclrtResetDevice", 507007,
		 [=] { return r->gates ? aclrtResetDeviceForce(device_id) : aclrtResetDevice(device_id); });
	for (auto &s : r->stream)
		r->dead_streams.add(s);
}

static void run_round(uint64_t number)
{
	auto r = std::make_unique<round_state>();

	r->gates = number % 2;
	set_up(r.get());
	race<user>(*r, number, 30, [&](std::mt19937_64 &) { destroy_all(r.get()); });
	for (auto &e : r->event)
		r->expect("aclrtDestroyEvent", aclrtDestroyEvent(e));
	GOOD(aclrtFreeHost(r->host));
	assert_int_equal(r->wrong, 0);
}

static void under_every_kind_of_wait(void **)
{
	GOOD(aclrtSetDevice(0));
	for (uint64_t i = 0; i < 6 * scale(); i++)
		run_round(i + 1);
	GOOD(aclrtResetDevice(0));
}

/* Repeatedly makes the shared context current: a copy finds it valid or destroyed, never in between. */
static void use_shared_context(const std::atomic<aclrtContext> &shared, const std::atomic<bool> &stop,
			       std::atomic<int> *wrong)
{
	static const std::set<aclError> good = {0, 107000, 107002};
	char from[64] = "", to[64];

	while (!stop) {
		aclrtSetCurrentContext(shared);
		*wrong += !good.contains(aclrtMemcpy(to, sizeof(to), from, sizeof(from), ACL_MEMCPY_HOST_TO_HOST));
	}
}

static void set_current_during_destroy(void **)
{
	std::atomic<aclrtContext> shared{nullptr};
	std::atomic<bool> stop{false};
	std::atomic<int> wrong{0};
	std::vector<std::thread> all;
	auto gen = rng(1000);

	for (int i = 0; i < 4; i++)
		all.emplace_back([&] { use_shared_context(shared, stop, &wrong); });
	for (unsigned round = 0; round < 20 * scale(); round++) {
		aclrtContext c;

		GOOD(aclrtCreateContext(&c, device_id));
		shared = c;
		for (uint64_t i = gen() % 20; i; i--)
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
		cmocka_unit_test(set_current_during_destroy),
	};

	return cmocka_run_group_tests_name("ACL holds", tests, nullptr, nullptr);
}
