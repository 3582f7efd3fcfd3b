/* SPDX-License-Identifier: BSD-3-Clause */
/* On which CPUs the engines of an embedded device run. */
#include "tests/support/test.h"

#include "driver/base/cpus.h"
#include "driver/base/error.h"
#include "driver/dma/registry.h"

#include <cstring>
#include <dirent.h>
#include <fstream>
#include <sched.h>
#include <string>
#include <thread>

using namespace usdma;

/* The CPU masks of the threads of this process with that name. */
static std::vector<cpu_set_t> masks_of(const std::string &name)
{
	const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir("/proc/self/task"), closedir);
	std::vector<cpu_set_t> out;

	assert_non_null(dir.get());
	while (const dirent *e = readdir(dir.get())) {
		std::string comm;
		cpu_set_t set;

		std::ifstream(std::string("/proc/self/task/") + e->d_name + "/comm") >> comm;
		if (comm == name && sched_getaffinity(atoi(e->d_name), sizeof(set), &set) == 0)
			out.push_back(set);
	}
	return out;
}

static int cpu_except(const cpu_set_t &set, int excluded)
{
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (cpu != excluded && CPU_ISSET(cpu, &set))
			return cpu;
	return -1;
}

static cpu_set_t only(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return set;
}

static void check_engine_mask(const char *spec, int pinned, bool (*right)(const cpu_set_t &set, int pinned))
{
	std::unique_ptr<dma::engine> eng;

	assert_int_equal(dma::open(spec, &eng), 0);
	const std::vector<cpu_set_t> masks = masks_of("sdma-engine0");
	assert_int_equal(masks.size(), 1);
	assert_true(right(masks[0], pinned));
}

static u32 engines_of(const char *spec)
{
	std::unique_ptr<dma::engine> eng;

	assert_int_equal(dma::open(spec, &eng), 0);
	return eng->limits().engines;
}

/* The default number of engines leaves a CPU to the program. */
static void test_engines_fit_the_cpus(void **)
{
	cpu_set_t before;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(engines_of("sim:mem=1M"), usable_cpus() > 2 ? 2 : 1);
	assert_int_equal(engines_of("sim:mem=1M:engines=3"), 3);
	const cpu_set_t one = only(cpu_except(before, -1));
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(engines_of("sim:mem=1M"), 1);
	assert_int_equal(engines_of("sim:mem=1M:engines=2"), 2);
	sched_setaffinity(0, sizeof(before), &before);
}

/* In a process restricted to one CPU, the engine runs on that CPU. */
static void test_process_of_one_cpu(void **)
{
	cpu_set_t before;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	const int mine = cpu_except(before, -1);
	const cpu_set_t one = only(mine);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	check_engine_mask("sim:mem=1M:engines=1:channels=1", mine,
			  [](const cpu_set_t &set, int cpu) { return CPU_ISSET(cpu, &set) && CPU_COUNT(&set) == 1; });
	sched_setaffinity(0, sizeof(before), &before);
}

static void open_pinned()
{
	cpu_set_t before;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	const int mine = cpu_except(before, -1), other = cpu_except(before, mine);
	const cpu_set_t one = only(mine);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	if (other >= 0) {
		check_engine_mask("sim:mem=1M:engines=1:channels=1", mine, [](const cpu_set_t &set, int cpu) {
			return !CPU_ISSET(cpu, &set) && CPU_COUNT(&set) > 0;
		});
		check_engine_mask(
			("sim:mem=1M:engines=1:channels=1:cpus=" + std::to_string(other)).c_str(), other,
			[](const cpu_set_t &set, int cpu) { return CPU_ISSET(cpu, &set) && CPU_COUNT(&set) == 1; });
	} else {
		fprintf(stderr, "only one CPU: cannot check that the engine avoids it\n");
	}
}

/* If the thread that opens the device is pinned, the engine avoids its CPU. */
static void test_opened_by_a_pinned_thread(void **)
{
	std::thread(open_pinned).join();
}

static void test_no_such_cpu(void **)
{
	std::unique_ptr<dma::engine> eng;

	assert_int_equal(dma::open("sim:mem=1M:cpus=1023", &eng), -EINVAL);
	assert_non_null(strstr(error_text(), "1023"));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(test_engines_fit_the_cpus),
		cmocka_unit_test(test_process_of_one_cpu),
		cmocka_unit_test(test_opened_by_a_pinned_thread),
		cmocka_unit_test(test_no_such_cpu),
	};

	return cmocka_run_group_tests_name("sim-placement", tests, nullptr, nullptr);
}
