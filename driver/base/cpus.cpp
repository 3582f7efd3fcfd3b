/* SPDX-License-Identifier: BSD-3-Clause */
/* Formats: Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst of Linux. */
#include "driver/base/cpus.h"

#include "driver/base/cgroup.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sched.h>
#include <unistd.h>

namespace usdma {

/* The numbers at the start of DIR/NAME; returns how many there are. */
static int read_numbers(const char *dir, const char *name, long long *a, long long *b)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen(path, "re"), fclose);
	return file ? fscanf(file.get(), "%lld %lld", a, b) : 0;
}

/* quota: of each period, on all CPUs together; both in microseconds. */
static void limit_by(long long quota, long long period, void *cpus)
{
	unsigned &most = *static_cast<unsigned *>(cpus);

	if (quota > 0 && period > 0)
		most = unsigned(std::min<long long>(most, (quota - 1) / period + 1));
}

/* "max 100000": no quota, and no number at its start. */
static void visit_v2(const char *dir, const char *, void *cpus)
{
	long long quota, period;

	if (read_numbers(dir, "cpu.max", &quota, &period) == 2)
		limit_by(quota, period, cpus);
}

/* -1: no quota. */
static void visit_v1(const char *dir, const char *, void *cpus)
{
	long long quota, period, none;

	if (read_numbers(dir, "cpu.cfs_quota_us", &quota, &none) >= 1 &&
	    read_numbers(dir, "cpu.cfs_period_us", &period, &none) >= 1)
		limit_by(quota, period, cpus);
}

unsigned usable_cpus(const char *root)
{
	cpu_set_t set;
	/* More CPUs than a cpu_set_t holds: EINVAL. */
	unsigned cpus = sched_getaffinity(getpid(), sizeof(set), &set) ? CPU_SETSIZE : unsigned(CPU_COUNT(&set));

	cgroup_each(root, nullptr, visit_v2, &cpus);
	cgroup_each(root, "cpu", visit_v1, &cpus);
	return std::max(cpus, 1u);
}

/* False: the set has no other CPU, and nothing changes. A number beyond the set's end excludes none. */
static bool use_all_but(unsigned cpu, cpu_set_t set, pthread_t thread)
{
	CPU_CLR(cpu, &set);
	return CPU_COUNT(&set) && !pthread_setaffinity_np(thread, sizeof(set), &set);
}

void leave_the_only_cpu(pthread_t thread)
{
	cpu_set_t mine, others;

	if (pthread_getaffinity_np(thread, sizeof(mine), &mine) || CPU_COUNT(&mine) != 1 ||
	    sched_getaffinity(getpid(), sizeof(others), &others))
		return;
	unsigned cpu = 0;
	while (!CPU_ISSET(cpu, &mine))
		cpu++;
	use_all_but(cpu, others, thread);
}

cpu_avoided::cpu_avoided(unsigned cpu)
{
	changed_ = !pthread_getaffinity_np(pthread_self(), sizeof(before_), &before_) &&
		   use_all_but(cpu, before_, pthread_self());
}

cpu_avoided::~cpu_avoided()
{
	if (changed_)
		pthread_setaffinity_np(pthread_self(), sizeof(before_), &before_);
}

} // namespace usdma
