/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One way through the library, gone once for each call of a kind that it makes, with that one failing: the caller
 * hears a clear error (or the library did without), nothing stays, and the same process then goes the whole way well.
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

/* From now on the n-th such call of any thread fails. */
void arm(call c, long n);
void disarm();

/*
 * Goes the whole way, armed from its beginning to its end, and takes down what it has made in any case.
 * 0, or the first error, of which it has checked that it is told well.
 */
using whole_way = int (*)(call c, long n);

/* For data that each way takes anew: made once. */
std::vector<u8> random_bytes(size_t len, u64 stream);

/* main() of a program with one way. */
int main_with(const char *name, whole_way way);

} // namespace usdma::test::failing
