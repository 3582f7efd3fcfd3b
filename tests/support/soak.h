/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * This process's resources, and loads that run for a given time: with
 * USDMA_TEST_SECONDS=N a load runs for N seconds and must not use more resources
 * at its end than after its first quarter (./tools/check soak).
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::test {

struct resources {
	u64 rss_kib = 0, fds = 0, maps = 0, threads = 0;
};

resources resources_now();

class soak {
public:
	/* Whether loads run for a given time. */
	static bool wanted();

	explicit soak(const char *load);
	/* Call it while nothing is in flight. True: the time is over. */
	bool over(u64 operations);
	/* Prints a line of results, which ./tools/check soak reads; fails the test if a resource grew. */
	void finish(u64 operations);

private:
	u64 elapsed_ns() const;

	const char *name;
	u64 began, length;
	bool warm = false;
	resources first;
};

} // namespace usdma::test
