/* SPDX-License-Identifier: BSD-3-Clause */
/* A test program's options for the sanitizers, whose hooks these are; without a sanitizer they are not called. */
#pragma once

/* Engines, and the library for pageable memory, copy at any time what the test submits, also to overlapping ranges. */
#define TEST_UNORDERED_COPIES                                                                                          \
	"race:usdma::sim::engine::copy_at_once\nrace:usdma::sim::engine::execute\n"                                    \
	"race:usdma::sim::engine::op_backend\nrace:usdma::dma::softop\n"                                               \
	"race:usdma::sim::engine::move\nrace:usdma::copy_bytes\nrace:usdma::by_rows\nrace:move_by_cpu\n"
/* A stale handle is checked while another object is made at its address: both read and write a 0 there. */
#define TEST_STALE_HANDLES "race:usdma::core::slab\n"
/*
 * liburing maps by system calls of its own, which TSan does not see: a thread's ring is taken for what was mapped at
 * that address before.
 */
#define TEST_RINGS_OF_THREADS "race:ring_sleep\n"

#define TEST_TSAN_SUPPRESSIONS(text)                                                                                   \
	extern "C" const char *__tsan_default_suppressions();                                                          \
	extern "C" const char *__tsan_default_suppressions()                                                           \
	{                                                                                                              \
		return text;                                                                                           \
	} // NOLINT(bugprone-reserved-identifier)

/* A lost device's thread runs until its server ends, possibly until the program's exit. */
#define TEST_TSAN_OPTIONS(text)                                                                                        \
	extern "C" const char *__tsan_default_options();                                                               \
	extern "C" const char *__tsan_default_options()                                                                \
	{                                                                                                              \
		return text;                                                                                           \
	} // NOLINT(bugprone-reserved-identifier)

/* The test makes every call, those that allocate as well, and frees nothing. */
#define TEST_LEAKS                                                                                                     \
	extern "C" int __lsan_is_turned_off();                                                                         \
	extern "C" int __lsan_is_turned_off()                                                                          \
	{                                                                                                              \
		return 1;                                                                                              \
	} // NOLINT(bugprone-reserved-identifier)
