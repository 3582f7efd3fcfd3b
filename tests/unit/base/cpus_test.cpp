/* SPDX-License-Identifier: BSD-3-Clause */
/* The number of CPUs that a process can use: its affinity mask, and the quotas of its control groups. */
#include "tests/support/test.h"

#include "driver/base/cpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <unistd.h>

using namespace usdma;
namespace fs = std::filesystem;

/* A directory with files of /proc and /sys of a fake machine. */
struct machine {
	char root[64] = "/tmp/usdma-cpus-XXXXXX";

	machine() { assert_non_null(mkdtemp(root)); }
	~machine() { fs::remove_all(root); }
	void file(const std::string &path, const std::string &text)
	{
		fs::create_directories(fs::path(root + path).parent_path());
		std::ofstream(root + path) << text;
	}
};

static unsigned in_mask()
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(getpid(), sizeof(set), &set), 0);
	return unsigned(CPU_COUNT(&set));
}

static void mask_without_a_quota(void **)
{
	machine m;
	cpu_set_t before, one;

	assert_int_equal(usable_cpus(m.root), in_mask());
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	for (int cpu = 0; !CPU_COUNT(&one); cpu++)
		if (CPU_ISSET(cpu, &before))
			CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(usable_cpus(m.root), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

static void quota_of_version_2(void **)
{
	const unsigned all = in_mask();
	machine m;

	m.file("/proc/self/cgroup", "0::/pod/box\n");
	m.file("/proc/self/mountinfo", "31 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
	m.file("/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
	assert_int_equal(usable_cpus(m.root), all);
	m.file("/sys/fs/cgroup/pod/box/cpu.max", "150000 100000\n");
	assert_int_equal(usable_cpus(m.root), std::min(all, 2u));
	m.file("/sys/fs/cgroup/pod/box/cpu.max", "100000 100000\n");
	assert_int_equal(usable_cpus(m.root), 1);
	m.file("/sys/fs/cgroup/pod/box/cpu.max", "1000 100000\n");
	assert_int_equal(usable_cpus(m.root), 1);
	/* The quota of a parent group applies, too. */
	m.file("/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
	m.file("/sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
	assert_int_equal(usable_cpus(m.root), 1);
	for (const char *wrong : {"", "\n", "nonsense", "100000", "100000 0\n", "-1 100000\n"}) {
		m.file("/sys/fs/cgroup/pod/cpu.max", wrong);
		assert_int_equal(usable_cpus(m.root), all);
	}
}

static void quota_of_version_1(void **)
{
	const unsigned all = in_mask();
	machine m;

	m.file("/proc/self/cgroup", "4:memory:/other\n3:cpu,cpuacct:/docker/abc\n");
	m.file("/proc/self/mountinfo", "31 20 0:26 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
	m.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
	m.file("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	assert_int_equal(usable_cpus(m.root), all);
	m.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100001\n");
	assert_int_equal(usable_cpus(m.root), std::min(all, 2u));
	m.file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "99999\n");
	assert_int_equal(usable_cpus(m.root), 1);
}

static cpu_set_t mask_of_thread()
{
	cpu_set_t set;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	return set;
}

static unsigned first_of(const cpu_set_t &set)
{
	unsigned cpu = 0;

	while (!CPU_ISSET(cpu, &set))
		cpu++;
	return cpu;
}

/* Avoids one CPU after the other; the last one is not avoided. */
static void avoid_all_but_one(cpu_set_t mask)
{
	const unsigned first = first_of(mask);
	const cpu_avoided scope(first);
	const bool is_last = CPU_COUNT(&mask) == 1;

	if (!is_last)
		CPU_CLR(first, &mask);
	const cpu_set_t seen = mask_of_thread();
	assert_true(CPU_EQUAL(&seen, &mask));
	if (!is_last)
		avoid_all_but_one(mask);
}

static void a_thread_avoids_cpus(void **)
{
	const cpu_set_t before = mask_of_thread();

	avoid_all_but_one(before);
	const cpu_set_t after = mask_of_thread();
	assert_true(CPU_EQUAL(&before, &after));
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(mask_without_a_quota),
		cmocka_unit_test(quota_of_version_2),
		cmocka_unit_test(quota_of_version_1),
		cmocka_unit_test(a_thread_avoids_cpus),
	};

	return cmocka_run_group_tests_name("cpus", tests, nullptr, nullptr);
}
