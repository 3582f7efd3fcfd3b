/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that has a heartbeat but completes nothing: a wait without a timeout fails after a hundred times
 * USDMA_HANG_MS.  A ring that waits for a word of the program does not count as a hang.
 */
#include "tests/integration/faults.h"

#include <chrono>

using namespace usdma::test;

static constexpr int hang_ms = 1000; /* a hundred of these: 100 s */
static constexpr size_t size = 4096;

namespace {

struct bench {
	device dev;
	stream s{dev};
	block mem{dev, kind::device, size}, host{dev, kind::pinned, size};
};

} // namespace

static int ms_since(std::chrono::steady_clock::time_point from)
{
	return int(
		std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - from).count());
}

/* Milliseconds until a copy that would take half an hour fails. */
static int ms_until_failure(bench &b)
{
	const auto start = std::chrono::steady_clock::now();

	set_faults(b.dev, 0, "slow@1/1800000000");
	WORKS(usdma_copy(b.s, b.mem.data(), b.host.data(), size));
	assert_int_equal(usdma_stream_sync(b.s, -1), -EIO);
	set_faults(b.dev, 0, "");
	return ms_since(start);
}

/* Other engines still work.  If a busy machine starves the engine, its heartbeat stops, too: try again. */
static void stuck_copy_fails(void **)
{
	bench b;
	stream other(b.dev);
	int ms = 0;

	for (int tries = 0; tries < 5 && ms < 50 * hang_ms; tries++)
		ms = ms_until_failure(b);
	assert_in_range(ms, 50 * hang_ms, 500 * hang_ms);
	WORKS(usdma_copy(b.s, b.mem.data(), b.host.data(), size));
	WORKS(usdma_stream_sync(b.s, long_ms));
	WORKS(usdma_stream_sync(other, long_ms));
}

static void wait_for_a_word_does_not_fail(void **)
{
	bench b;
	stream other(b.dev);

	WORKS(usdma_fill_sync(b.dev, b.mem.data(), 0, 8, size, long_ms));
	WORKS(usdma_wait_value(b.s, b.mem.data(), USDMA_EQ, 1));
	WORKS(usdma_copy(b.s, b.host.data(), b.mem.data(), size));
	assert_int_equal(usdma_stream_sync(b.s, 120 * hang_ms), -ETIMEDOUT);
	WORKS(usdma_write_value(other, b.mem.data(), 1));
	WORKS(usdma_stream_sync(b.s, long_ms));
	assert_int_equal(*b.host.data(), 1);
}

int main()
{
	const CMUnitTest tests[] = {
		cmocka_unit_test(stuck_copy_fails),
		cmocka_unit_test(wait_for_a_word_does_not_fail),
	};

	setenv("USDMA_HANG_MS", "1000", 1);
	setenv("USDMA_LOG", "none", 0);
	return cmocka_run_group_tests_name("beats", tests, nullptr, nullptr);
}
