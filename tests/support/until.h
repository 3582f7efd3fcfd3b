/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "tests/support/test.h"

#include <chrono>

namespace usdma::test {

/* Until done() is true; the test's end, with what was waited for, after 30 s. */
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
