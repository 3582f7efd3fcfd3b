/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace usdma::test {

inline std::string line_of(const std::filesystem::path &file, const std::string &start)
{
	std::ifstream in(file);

	for (std::string line; std::getline(in, line);)
		if (line.starts_with(start))
			return line.substr(start.size());
	return "";
}

/* How often threads of this name went to sleep by themselves. */
inline long sleeps_of(const std::string &name)
{
	long n = 0;

	for (const auto &task : std::filesystem::directory_iterator("/proc/self/task"))
		if (line_of(task.path() / "comm", "").starts_with(name))
			n += std::strtol(line_of(task.path() / "status", "voluntary_ctxt_switches:").c_str(), nullptr,
					 10);
	return n;
}

/* In a time in which a thread that polls each 200 us would sleep 750 times. */
inline long sleeps_while_waiting()
{
	const long before = sleeps_of("usdma-progress") + sleeps_of("sdma-engine");

	std::this_thread::sleep_for(std::chrono::milliseconds(150));
	return sleeps_of("usdma-progress") + sleeps_of("sdma-engine") - before;
}

} // namespace usdma::test
