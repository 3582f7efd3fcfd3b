/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a scenario once for each call of a kind that it makes, with that call failing: the caller gets an error with a
 * text (or the library works without the call), nothing is leaked, and afterwards the scenario works in this process.
 */
#pragma once

#include "driver/base/types.h"
#include "tests/support/test.h"

#include <vector>

namespace usdma::test::failing {

/* memory: the n-th new; all_memory: that one and each later one. */
enum class call {
	none,
	mmap,
	ftruncate,
	memfd,
	eventfd,
	socketpair,
	recvmsg,
	sendmsg,
	fcntl,
	thread,
	uring,
	memory,
	all_memory,
	count
};

/* The n-th such call from now on fails, in any thread. */
void arm(call c, long n);
void disarm();

/*
 * Runs the whole scenario with the n-th call c failing and always destroys what it has created.  Returns 0 or the
 * first error, after a check that it has a text.
 */
using scenario_fn = int (*)(call c, long n);

/* Data that the scenarios copy; created once. */
std::vector<u8> random_bytes(size_t len, u64 stream);

/* main() of a program with one scenario. */
int main_with(const char *name, scenario_fn run);

} // namespace usdma::test::failing
