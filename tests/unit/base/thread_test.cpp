/* SPDX-License-Identifier: BSD-3-Clause */
/* Time slices of the library's threads: thread_short_slice(), and which threads have one. */
#include "tests/support/test.h"

#include "driver/base/clock.h"
#include "driver/base/thread.h"
#include "driver/dma/registry.h"
#include "driver/vfio/device.h"

#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace usdma;

/* Version 0 of struct sched_attr. */
struct attributes {
	u32 size, policy;
	u64 flags;
	s32 nice;
	u32 priority;
	u64 runtime, deadline, period;
};

static attributes of_thread(pid_t tid)
{
	attributes a = {};

	assert_int_equal(syscall(SYS_sched_getattr, tid, &a, sizeof(a), 0), 0);
	return a;
}

static void kernel_has_slices()
{
	if (!of_thread(0).runtime)
		skip(); /* before Linux 6.12 */
}

static void *with_policy(void *policy)
{
	const sched_param none = {};

	assert_int_equal(sched_setscheduler(0, int(intptr_t(policy)), &none), 0);
	const attributes before = of_thread(0);
	thread_short_slice();
	const attributes after = of_thread(0);

	assert_int_equal(after.policy, before.policy);
	assert_int_equal(after.nice, before.nice);
	assert_int_equal(after.runtime, intptr_t(policy) == SCHED_OTHER ? 100 * ns_per_us : before.runtime);
	return nullptr;
}

static void short_slice(void **)
{
	kernel_has_slices();
	for (int policy : {SCHED_OTHER, SCHED_BATCH, SCHED_IDLE}) {
		pthread_t thread;

		assert_int_equal(
			pthread_create(&thread, nullptr, with_policy, reinterpret_cast<void *>(intptr_t(policy))), 0);
		assert_int_equal(pthread_join(thread, nullptr), 0);
	}
}

/* 0: there is no thread of that name. A thread has its slice before its name. */
static u64 slice_of(const std::string &name)
{
	for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
		std::string comm;

		std::getline(std::ifstream(task.path() / "comm"), comm);
		if (comm == name)
			return of_thread(pid_t(std::stoi(task.path().filename()))).runtime;
	}
	return 0;
}

static void engines(void **)
{
	kernel_has_slices();
	const attributes own = of_thread(0);
	std::unique_ptr<vfio::device> dev;

	assert_int_equal(dma::open_device("sim:mem=2M", &dev), 0);
	u64 slice = 0;
	for (const u64 end = now_ns() + 60 * ns_per_s; !slice && now_ns() < end; sched_yield())
		slice = slice_of("sdma-engine0");
	assert_int_equal(slice, 100 * ns_per_us);
	assert_int_equal(of_thread(0).runtime, own.runtime);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_slice),
		cmocka_unit_test(engines),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
