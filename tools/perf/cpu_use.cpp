/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/perf/cpu_use.h"

#include "driver/base/clock.h"

#include <filesystem>
#include <fstream>

namespace usdma::perf {

static u64 clock_ns(clockid_t clock)
{
	timespec t;

	return clock_gettime(clock, &t) ? 0 : u64(t.tv_sec) * ns_per_s + u64(t.tv_nsec);
}

u64 thread_cpu_ns()
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

u64 process_cpu_ns()
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

u64 engine_cpu_ns()
{
	std::error_code err;
	u64 sum = 0;

	for (const auto &task : std::filesystem::directory_iterator("/proc/self/task", err)) {
		std::string name;
		u64 ns = 0;

		std::ifstream(task.path() / "comm") >> name;
		if (name.starts_with("sdma-engine"))
			std::ifstream(task.path() / "schedstat") >> ns; /* the first number: ns on a CPU */
		sum += ns;
	}
	return sum;
}

} // namespace usdma::perf
