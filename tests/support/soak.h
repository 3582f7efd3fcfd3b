/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What this process holds, and loads that run by the clock: with
 * USDMA_TEST_SECONDS=N a load goes on for N seconds and must not hold more at
 * its end than after its first quarter (./tools/check soak).
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::test {

struct holdings {
	u64 rss_kib = 0, fds = 0, maps = 0, threads = 0;
};

holdings holdings_now();

class soak {
public:
	/* Whether loads are to run by the clock. */
	static bool wanted();

	explicit soak(const char *load);
	/* To be called while nothing is in flight. True: time is up. */
	bool over(u64 operations);
	/* Tells what was done and held in a line that the hardware queue soak reads; fails the test where that grew. */
	void finish(u64 operations);

private:
	u64 elapsed_ns() const;

	const char *name;
	u64 began, length;
	bool warm = false;
	holdings first;
};

} // namespace usdma::test
