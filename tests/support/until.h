/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "tests/support/test.h"

#include <chrono>

namespace usdma::test {

/* Waits until done() is true; fails the test after 30 s, and prints what it waited for. */
template <typename D> void until(const char *what, D done)
{
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);

	while (!done()) {
		if (std::chrono::steady_clock::now() > end)
			print_error("%s: not in 30 s\n", what);
		assert_true(std::chrono::steady_clock::now() <= end);
	}
}

} // namespace usdma::test
