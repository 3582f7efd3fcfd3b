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
#include <string>

namespace usdma::test {

/* The seed of this run; printed once, to standard error. */
std::uint64_t seed();
/* A generator of its own for each stream number, all from the one seed. */
std::mt19937_64 rng(std::uint64_t stream = 0);
void fill_random(void *buf, size_t len, std::mt19937_64 &gen);
/* USDMA_TEST_SCALE (default 1): how much longer random and soak tests shall run. */
unsigned scale();
/*
 * USDMA_TEST_SMALL=1: the device is small and slow, as QEMU's edu in the virtual machine
 * hardware queue (4088 bytes of memory, 100 ms a transfer): suites that run on every device then
 * use fewer rounds, and less device memory at a time.
 */
bool small();
/* Descriptors that this process has open; a constant more, the same each time. */
unsigned open_fds();
/* Those of them that name the file that fd names; all eventfds are one file. */
unsigned fds_of(int fd);
/* This process's threads of that name. */
unsigned threads_named(const std::string &name);
/*
 * One step of a loop that polls: yields at first, then sleeps 100 us, so that a waiter leaves the CPU to what it
 * waits for.
 */
void poll_pause(unsigned step);
/*
 * How long a test may wait: on a small device, time is virtual and passes by itself while all sleep;
 * USDMA_TEST_PATIENCE (default 1) is what a sanitizer costs.
 */
std::uint64_t patience_ms(std::uint64_t usual);
/* A size or a count: the first, or the second on a small device. */
inline std::size_t sized(std::size_t usual, std::size_t on_small)
{
	return small() ? on_small : usual;
}

} // namespace usdma::test
