/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams that wait for notifies: what they cost while they wait, and that each record lets exactly one of them go on,
 * whichever of them the engine waits for and which the library.
 */
#include "acl/acl.h"
#include "tests/support/sleeps.h"
#include "tests/support/test.h"
#include "tests/support/until.h"

#include <algorithm>
#include <thread>
#include <vector>

using usdma::test::sleeps_of;
using usdma::test::sleeps_while_waiting;

#define GOOD(call) assert_int_equal(call, 0)

namespace {

constexpr std::uint32_t limit_s = 100; /* of a wait: more than the test takes */

struct bench {
	std::vector<aclrtStream> s;
	std::vector<aclrtNotify> n;
	aclrtStream recorder = nullptr;

	explicit bench(std::size_t waiting) : s(waiting), n(waiting)
	{
		GOOD(aclrtSetDevice(0));
		GOOD(aclrtCreateStream(&recorder));
		for (auto &one : s)
			GOOD(aclrtCreateStream(&one));
		for (auto &one : n)
			GOOD(aclrtCreateNotify(&one, 0));
	}
	~bench()
	{
		for (auto &one : s)
			GOOD(aclrtDestroyStream(one));
		for (auto &one : n)
			GOOD(aclrtDestroyNotify(one));
		GOOD(aclrtDestroyStream(recorder));
		GOOD(aclrtResetDevice(0));
	}
	bench(const bench &) = delete;
	bench &operator=(const bench &) = delete;
	bool waits(std::size_t i) const
	{
		aclrtStreamStatus st;

		GOOD(aclrtStreamQuery(s[i], &st));
		return st == ACL_STREAM_STATUS_NOT_READY;
	}
};

/* A second device, on which notifies of the first are recorded. */
struct other_device {
	const int id;
	aclrtStream s = nullptr;

	explicit other_device(int device = 1) : id(device)
	{
		GOOD(aclrtSetDevice(id));
		GOOD(aclrtCreateStream(&s));
		GOOD(aclrtSetDevice(0));
	}
	~other_device()
	{
		GOOD(aclrtSetDevice(id));
		GOOD(aclrtDestroyStream(s));
		GOOD(aclrtResetDevice(id));
		GOOD(aclrtSetDevice(0));
	}
	other_device(const other_device &) = delete;
	other_device &operator=(const other_device &) = delete;
	void record(aclrtNotify n) const
	{
		GOOD(aclrtSetDevice(id));
		GOOD(aclrtRecordNotify(n, s));
		GOOD(aclrtSynchronizeStream(s));
		GOOD(aclrtSetDevice(0));
	}
};

/* Neither the library nor an engine polls for a record. Most of many streams share their channels. */
void waiting_costs_nothing(std::size_t streams, std::uint32_t limit)
{
	bench b(streams);

	for (std::size_t i = 0; i < streams; i++)
		GOOD(aclrtWaitAndResetNotify(b.n[i], b.s[i], limit));
	const long sleeps = sleeps_while_waiting();

	for (std::size_t i = 0; i < streams; i++) {
		assert_true(b.waits(i));
		GOOD(aclrtRecordNotify(b.n[i], b.recorder));
	}
	for (auto &one : b.s)
		GOOD(aclrtSynchronizeStream(one));
	assert_in_range(sleeps, 0, 100);
}

void one_waiting_stream(void **)
{
	waiting_costs_nothing(1, 0);
}

void many_waiting_streams(void **)
{
	waiting_costs_nothing(64, 0);
	waiting_costs_nothing(64, limit_s);
}

std::size_t still_waiting(const bench &b)
{
	std::size_t n = 0;

	for (std::size_t i = 0; i < b.s.size(); i++)
		n += b.waits(i);
	return n;
}

void records_are_taken_once(std::size_t streams, std::uint32_t limit)
{
	bench b(streams);
	aclrtNotify n = b.n[0];

	for (std::size_t i = 0; i < b.s.size(); i++)
		GOOD(aclrtWaitAndResetNotify(n, b.s[i], i % 2 ? limit : 0));
	for (std::size_t left = b.s.size(); left--;) {
		GOOD(aclrtRecordNotify(n, b.recorder));
		usdma::test::until("a stream that goes on", [&] { return still_waiting(b) <= left; });
		for (int i = 0; i < 20; i++)
			assert_int_equal(still_waiting(b), left);
	}
}

/* Of streams that wait in their rings, and together with those that wait in the library. */
void each_record_is_taken_once(void **)
{
	for (int i = 0; i < 5; i++) {
		records_are_taken_once(3, 0);
		records_are_taken_once(16, limit_s);
	}
}

/* Each of two devices may record it. */
void waiting_for_two_devices(void **)
{
	const other_device other;

	waiting_costs_nothing(1, 0);
	waiting_costs_nothing(64, 0);
	waiting_costs_nothing(64, limit_s);
}

/* Each thread that polls for words does so at most each 200 us, however many there are. */
void values_are_polled_seldom(void **)
{
	static constexpr long threads = 3, polls = 750, while_they_grow = 100;
	bench b(64);
	void *words;

	GOOD(aclrtMalloc(&words, 8 * b.s.size(), ACL_MEM_MALLOC_HUGE_FIRST));
	GOOD(aclrtMemset(words, 8 * b.s.size(), 0, 8 * b.s.size()));
	const auto word = [&](std::size_t i) { return static_cast<char *>(words) + 8 * i; };
	for (std::size_t i = 0; i < b.s.size(); i++)
		GOOD(aclrtValueWait(word(i), 1, 0, b.s[i]));
	const long sleeps = sleeps_while_waiting();

	for (std::size_t i = 0; i < b.s.size(); i++) {
		assert_true(b.waits(i));
		GOOD(aclrtValueWrite(word(i), 1, 0, b.recorder));
		GOOD(aclrtSynchronizeStream(b.s[i]));
	}
	GOOD(aclrtFree(words));
	assert_in_range(sleeps, 0, threads * (polls + while_they_grow));
}

/* The word that an export moves is the one that records and waits use. */
void exported(void **)
{
	bench b(2);
	char key[65];

	/* Used before, and not. */
	GOOD(aclrtRecordNotify(b.n[0], b.recorder));
	GOOD(aclrtSynchronizeStream(b.recorder));
	for (std::size_t i = 0; i < 2; i++) {
		GOOD(aclrtNotifyGetExportKey(b.n[i], key, sizeof(key), 0));
		GOOD(aclrtWaitAndResetNotify(b.n[i], b.s[i], 0));
	}
	GOOD(aclrtSynchronizeStream(b.s[0]));
	assert_true(b.waits(1));
	GOOD(aclrtRecordNotify(b.n[1], b.recorder));
	GOOD(aclrtSynchronizeStream(b.s[1]));
}

/* The same process may import it, whose records are like those of another. */
struct imported {
	aclrtNotify n = nullptr;

	explicit imported(aclrtNotify of)
	{
		char key[65];

		GOOD(aclrtNotifyGetExportKey(of, key, sizeof(key), ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
		GOOD(aclrtNotifyImportByKey(&n, key, 0));
	}
	~imported() { GOOD(aclrtDestroyNotify(n)); }
	imported(const imported &) = delete;
	imported &operator=(const imported &) = delete;
};

/* Streams wait in their rings when the first export makes a second word. */
void exported_during_waits(void **)
{
	bench b(3);
	std::size_t left = b.s.size();

	for (aclrtStream s : b.s)
		GOOD(aclrtWaitAndResetNotify(b.n[0], s, 0));
	assert_int_equal(still_waiting(b), left);
	const imported theirs(b.n[0]);
	while (left--) {
		GOOD(aclrtRecordNotify(left % 2 ? b.n[0] : theirs.n, b.recorder));
		usdma::test::until("a stream that goes on", [&] { return still_waiting(b) <= left; });
		assert_int_equal(still_waiting(b), left);
	}
	/* And when no ring waits for the first word. */
	GOOD(aclrtWaitAndResetNotify(b.n[0], b.s[0], 0));
	assert_true(b.waits(0));
	GOOD(aclrtRecordNotify(theirs.n, b.recorder));
	GOOD(aclrtSynchronizeStream(b.s[0]));
}

/* What an engine waits for stays, and the call does not wait for that. */
void destroyed_while_exported(void **)
{
	bench b(1);
	aclrtNotify n, theirs;
	char key[65];

	GOOD(aclrtCreateNotify(&n, 0));
	GOOD(aclrtNotifyGetExportKey(n, key, sizeof(key), ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION));
	GOOD(aclrtNotifyImportByKey(&theirs, key, 0));
	GOOD(aclrtWaitAndResetNotify(n, b.s[0], 0));
	GOOD(aclrtDestroyNotify(n));
	assert_true(b.waits(0));
	GOOD(aclrtRecordNotify(theirs, b.recorder));
	GOOD(aclrtDestroyNotify(theirs));
	GOOD(aclrtSynchronizeStream(b.s[0]));
}

/* A wait in the ring can be aborted, and what it waited for is left to the next stream. */
void aborted(void **)
{
	bench b(2);

	GOOD(aclrtWaitAndResetNotify(b.n[0], b.s[0], 0));
	assert_true(b.waits(0));
	GOOD(aclrtStreamAbort(b.s[0]));
	assert_int_equal(aclrtSynchronizeStream(b.s[0]), 107023);
	GOOD(aclrtRecordNotify(b.n[0], b.recorder));
	GOOD(aclrtWaitAndResetNotify(b.n[0], b.s[1], 0));
	GOOD(aclrtSynchronizeStream(b.s[1]));
}

/* The second device was not there when the first began to wait. */
void recorded_by_a_later_device(void **)
{
	bench b(1);

	GOOD(aclrtWaitAndResetNotify(b.n[0], b.s[0], 0));
	assert_true(b.waits(0));
	const other_device other;
	other.record(b.n[0]);
	GOOD(aclrtSynchronizeStream(b.s[0]));
}

/*
 * An engine does not see what other devices write: a thread that hears them wakes it, also a queue that was opened when
 * the thread listened already.
 */
void a_later_queue_is_heard(void **)
{
	bench b(1);
	const other_device other(2);
	aclrtStream later;

	GOOD(aclrtWaitAndResetNotify(b.n[0], b.s[0], 0));
	assert_true(b.waits(0));
	/* The thread sleeps then. */
	std::this_thread::sleep_for(std::chrono::milliseconds(20));
	GOOD(aclrtSetDevice(2));
	GOOD(aclrtCreateStream(&later));
	std::this_thread::sleep_for(std::chrono::milliseconds(20));
	const long before = sleeps_of("usdma-progress");
	GOOD(aclrtRecordNotify(b.n[0], later));
	GOOD(aclrtSynchronizeStream(later));
	usdma::test::until("the thread hears a record", [&] { return sleeps_of("usdma-progress") > before; });
	GOOD(aclrtDestroyStream(later));
	GOOD(aclrtSetDevice(0));
	GOOD(aclrtSynchronizeStream(b.s[0]));
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(one_waiting_stream),         cmocka_unit_test(many_waiting_streams),
		cmocka_unit_test(each_record_is_taken_once),  cmocka_unit_test(exported),
		cmocka_unit_test(destroyed_while_exported),   cmocka_unit_test(aborted),
		cmocka_unit_test(recorded_by_a_later_device), cmocka_unit_test(waiting_for_two_devices),
		cmocka_unit_test(values_are_polled_seldom),   cmocka_unit_test(exported_during_waits),
		cmocka_unit_test(a_later_queue_is_heard),
	};

	return cmocka_run_group_tests_name("gates", tests, nullptr, nullptr);
}
