/* SPDX-License-Identifier: BSD-3-Clause */
/* What a test program tells the sanitizers.  The names are theirs; without one nobody calls these. */
#pragma once

/* Engines, and the library for pageable memory, move what the test lets them move at any time, over each other too. */
#define TEST_MOVES_IN_ANY_ORDER                                                                                        \
	"race:usdma::sim::engine::copy_at_once\nrace:usdma::sim::engine::execute\n"                                    \
	"race:usdma::sim::engine::op_backend\nrace:usdma::dma::softop\n"                                               \
	"race:usdma::sim::engine::move\nrace:usdma::copy_bytes\nrace:usdma::by_rows\nrace:move_by_cpu\n"
/* A handle that is gone is looked at while another object is made in its place: both find and leave a 0 there. */
#define TEST_STALE_HANDLES "race:usdma::core::slab\n"
/*
 * liburing maps by system calls of its own: a thread's ring looks like the same words as what was mapped there
 * before.
 */
#define TEST_RINGS_OF_THREADS "race:ring_sleep\n"

#define TEST_TSAN_SUPPRESSIONS(text)                                                                                   \
	extern "C" const char *__tsan_default_suppressions();                                                          \
	extern "C" const char *__tsan_default_suppressions()                                                           \
	{                                                                                                              \
		return text;                                                                                           \
	} // NOLINT(bugprone-reserved-identifier)

/* A device that was lost keeps its thread for as long as its server has not ended, if that is the program's end too. */
#define TEST_TSAN_OPTIONS(text)                                                                                        \
	extern "C" const char *__tsan_default_options();                                                               \
	extern "C" const char *__tsan_default_options()                                                                \
	{                                                                                                              \
		return text;                                                                                           \
	} // NOLINT(bugprone-reserved-identifier)

/* The test makes every call, those that make something as well, and gives nothing back. */
#define TEST_LEAKS                                                                                                     \
	extern "C" int __lsan_is_turned_off();                                                                         \
	extern "C" int __lsan_is_turned_off()                                                                          \
	{                                                                                                              \
		return 1;                                                                                              \
	} // NOLINT(bugprone-reserved-identifier)
