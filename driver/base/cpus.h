/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <pthread.h>
#include <sched.h>

namespace usdma {

/*
 * How many CPUs this process can keep busy, at least 1: those of its first thread's affinity mask, limited by its
 * control groups' quota of CPU time, rounded up. root: "" or a test's directory.
 */
[[gnu::visibility("default")]] unsigned usable_cpus(const char *root = "");

/*
 * A thread that was started by one that is pinned to one CPU would share that CPU with it: lets the thread use the
 * other CPUs of the process's first thread, if that has any.
 */
[[gnu::visibility("default")]] void leave_the_only_cpu(pthread_t thread);

/* While it exists, the thread that made it runs on the other CPUs of its affinity mask, if there are any. */
class [[gnu::visibility("default")]] cpu_avoided
{
public:
	explicit cpu_avoided(unsigned cpu);
	~cpu_avoided();
	cpu_avoided(const cpu_avoided &) = delete;
	cpu_avoided &operator=(const cpu_avoided &) = delete;

private:
	cpu_set_t before_;
	bool changed_ = false;
};

} // namespace usdma
