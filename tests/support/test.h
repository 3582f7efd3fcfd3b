/* SPDX-License-Identifier: BSD-3-Clause */
/* Included by every test: cmocka, and random data with a printed seed (USDMA_TEST_SEED repeats a run). */
/* Guarded thus, as g++ 12 forgets "#pragma once" of a precompiled header when another one in it has the same size. */
#ifndef USDMA_TEST_H
#define USDMA_TEST_H

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
/* USDMA_TEST_SCALE (default 1): the factor for the rounds of random and soak tests. */
unsigned scale();
/*
 * USDMA_TEST_SMALL=1: the device is small and slow, as QEMU's edu device in the virtual
 * machine (4088 bytes of memory, 100 ms a transfer): suites that run on every device then
 * use fewer rounds, and less device memory at a time.
 */
bool small();
/* Descriptors that this process has open, plus a constant. */
unsigned open_fds();
/*
 * The same without io_urings: a thread opens one in its first wait that sleeps, if it has such a wait; and without the
 * eventfds of the library's threads, which are started when there is work for them.
 */
unsigned fds_without_rings();
/* How many of them refer to fd's file; all eventfds are one file. */
unsigned fds_of(int fd);
/* This process's threads of that name. */
unsigned threads_named(const std::string &name);
/*
 * One step of a loop that polls: yields at first, then sleeps 100 us, so that a waiter leaves the CPU to what it
 * waits for.
 */
void poll_pause(unsigned step);
/*
 * How long a test may wait: longer on a small device, whose time is virtual and advances while all sleep;
 * USDMA_TEST_PATIENCE (default 1) is the factor for sanitizers.
 */
std::uint64_t patience_ms(std::uint64_t usual);
/* A size or a count: the first, or the second on a small device. */
inline std::size_t sized(std::size_t usual, std::size_t on_small)
{
	return small() ? on_small : usual;
}

/* Whether RLIMIT_AS or RLIMIT_DATA limits mappings: an emulator may accept a limit and not enforce it. */
bool limit_applies(int resource);
/* False: reserved addresses take memory, in valgrind and in an emulator that records each page. */
bool addresses_are_free();
/* False: madvise(MADV_POPULATE_READ) accepts memory that cannot be read (qemu-user), and so does a registration. */
bool populate_is_checked();

} // namespace usdma::test

#endif
