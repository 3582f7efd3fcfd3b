/* SPDX-License-Identifier: BSD-3-Clause */
/* What every test file includes: cmocka, and random data with a printed seed (USDMA_TEST_SEED repeats a run). */
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

extern "C" {
#include <cmocka.h>
}
#undef fail /* driver/base/error.h has a function of this name */

#include <random>

namespace usdma::test {

/* The seed of this run; printed once, to standard error. */
std::uint64_t seed();
/* A generator of its own for each stream number, all from the one seed. */
std::mt19937_64 rng(std::uint64_t stream = 0);
void fill_random(void *buf, size_t len, std::mt19937_64 &gen);
/* USDMA_TEST_SCALE (default 1): how much longer random and soak tests shall run. */
unsigned scale();

} // namespace usdma::test
