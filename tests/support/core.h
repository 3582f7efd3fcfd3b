/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests that call lib/core directly: calls that must succeed, and a deadline for waits. */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "tests/support/test.h"

/* Fails the test with the call, its errno and its text. */
#define ok(call)                                                                                                       \
	do {                                                                                                           \
		const int err_ = (call);                                                                               \
		if (err_)                                                                                              \
			print_error("%s: %d (%s)\n", #call, err_, usdma::error_text());                                \
		assert_int_equal(err_, 0);                                                                             \
	} while (0)

namespace usdma::test {

inline deadline soon()
{
	return deadline::in_ms(test::patience_ms(20000));
}

/* A device address as the pointer that calls take. */
inline void *ptr(u64 address)
{
	return reinterpret_cast<void *>(address);
}

} // namespace usdma::test
