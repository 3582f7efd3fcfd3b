/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams that wait for notifies: what they cost while they wait, and that each record lets exactly one of them go on,
 * whichever of them the engine waits for and which the library.
 */
#include "acl/acl.h"
#include "tests/support/test.h"

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

/* In a time in which a thread that polls each 200 us would sleep 1500 times. */
long sleeps_while_waiting(const std::string &name)
{
	const long before = sleeps_of(name);

	std::this_thread::sleep_for(std::chrono::milliseconds(300));
	return sleeps_of(name) - before;
}

/* The library is told of a record, and does not poll for it. */
void waiting_costs_nothing(void **)
{
	bench b(64);

	for (std::size_t i = 0; i < b.s.size(); i++)
		GOOD(aclrtWaitAndResetNotify(b.n[i], b.s[i], limit_s));
	const long sleeps = sleeps_while_waiting("usdma-progress");
	for (std::size_t i = 0; i < b.s.size(); i++) {
		assert_true(b.waits(i));
		GOOD(aclrtRecordNotify(b.n[i], b.recorder));
	}
	for (auto &one : b.s)
		GOOD(aclrtSynchronizeStream(one));
	assert_in_range(sleeps, 0, 100);
}

} // namespace

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(waiting_costs_nothing),
	};

	return cmocka_run_group_tests_name("gates", tests, nullptr, nullptr);
}
