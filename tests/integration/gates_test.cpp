/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams that wait for notifies: what they cost while they wait, and that each record lets exactly one of them go on,
 * whichever of them the engine waits for and which the library.
 */
#include "acl/acl.h"
#include "tests/support/test.h"
#include "tests/support/until.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

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

std::string line_of(const std::filesystem::path &file, const std::string &start)
{
	std::ifstream in(file);

	for (std::string line; std::getline(in, line);)
		if (line.starts_with(start))
			return line.substr(start.size());
	return "";
}

/* How often threads of this name went to sleep by themselves. */
long sleeps_of(const std::string &name)
{
	long n = 0;

	for (const auto &task : std::filesystem::directory_iterator("/proc/self/task"))
		if (line_of(task.path() / "comm", "").starts_with(name))
			n += std::strtol(line_of(task.path() / "status", "voluntary_ctxt_switches:").c_str(), nullptr,
					 10);
	return n;
}

/* In a time in which a thread that polls each 200 us would sleep 750 times. */
long sleeps_while_waiting()
{
	const long before = sleeps_of("usdma-progress") + sleeps_of("sdma-engine");

	std::this_thread::sleep_for(std::chrono::milliseconds(150));
	return sleeps_of("usdma-progress") + sleeps_of("sdma-engine") - before;
}

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
	aclrtStream other;

	GOOD(aclrtWaitAndResetNotify(b.n[0], b.s[0], 0));
	assert_true(b.waits(0));
	GOOD(aclrtSetDevice(1));
	GOOD(aclrtCreateStream(&other));
	GOOD(aclrtRecordNotify(b.n[0], other));
	GOOD(aclrtSynchronizeStream(other));
	GOOD(aclrtDestroyStream(other));
	GOOD(aclrtResetDevice(1));
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
		cmocka_unit_test(recorded_by_a_later_device),
	};

	return cmocka_run_group_tests_name("gates", tests, nullptr, nullptr);
}
