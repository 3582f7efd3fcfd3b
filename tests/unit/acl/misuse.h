/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tables of misuse: a device with one object of each kind, and the loop over a table's rows. */
#pragma once

#include "acl/acl.h"
#include "tests/support/dropping.h"
#include "tests/support/test.h"

#include <cstdlib>
#include <cstring>
#include <thread>

namespace usdma::test {

inline constexpr size_t block = 64 * 1024;

/* Valid arguments, and invalid handles. */
struct fixture {
	void *dev = nullptr, *dev2 = nullptr;   /* device memory of block bytes each */
	void *lost = nullptr;                   /* a reserved device address without memory */
	void *pin = nullptr, *pin2 = nullptr;   /* pinned */
	char *heap = nullptr, *heap2 = nullptr; /* malloc, 64-byte aligned */
	aclrtStream stream = nullptr, dead_stream = nullptr, foreign = nullptr;
	aclrtEvent event = nullptr, ex = nullptr, dead_event = nullptr;
	aclrtNotify notify = nullptr, dead_notify = nullptr;
	aclrtContext context = nullptr, other = nullptr;
	const unsigned open_before = open_devices();

	fixture()
	{
		assert_int_equal(aclrtSetDevice(0), 0);
		assert_int_equal(aclrtGetCurrentContext(&context), 0);
		assert_int_equal(aclrtCreateContext(&other, 0), 0);
		assert_int_equal(aclrtCreateStream(&foreign), 0);
		assert_int_equal(aclrtSetCurrentContext(context), 0);
		assert_int_equal(aclrtMalloc(&dev, block, ACL_MEM_MALLOC_HUGE_FIRST), 0);
		assert_int_equal(aclrtMalloc(&dev2, block, ACL_MEM_MALLOC_NORMAL_ONLY), 0);
		assert_int_equal(aclrtReserveMemAddress(&lost, 1, 0, nullptr, 0), 0);
		assert_int_equal(aclrtMallocHost(&pin, block), 0);
		assert_int_equal(aclrtMallocHost(&pin2, block), 0);
		heap = static_cast<char *>(aligned_alloc(4096, block));
		heap2 = static_cast<char *>(aligned_alloc(4096, block));
		memset(heap, 0, block);
		memset(heap2, 0, block);
		make_handles();
	}
	~fixture()
	{
		aclrtSetCurrentContext(context);
		aclrtDestroyEvent(event);
		aclrtDestroyEvent(ex);
		aclrtDestroyNotify(notify);
		aclrtDestroyStream(stream);
		aclrtFree(dev);
		aclrtFree(dev2);
		aclrtReleaseMemAddress(lost);
		aclrtFreeHost(pin);
		aclrtFreeHost(pin2);
		free(heap);
		free(heap2);
		aclrtDestroyContext(other);
		aclrtResetDevice(0);
		assert_int_equal(open_devices(), open_before);
	}
	fixture(const fixture &) = delete;
	fixture &operator=(const fixture &) = delete;

private:
	void make_handles()
	{
		assert_int_equal(aclrtCreateStream(&stream), 0);
		assert_int_equal(aclrtCreateStream(&dead_stream), 0);
		assert_int_equal(aclrtDestroyStream(dead_stream), 0);
		assert_int_equal(aclrtCreateEvent(&event), 0);
		assert_int_equal(aclrtCreateEventExWithFlag(&ex, ACL_EVENT_SYNC), 0);
		assert_int_equal(aclrtCreateEvent(&dead_event), 0);
		assert_int_equal(aclrtDestroyEvent(dead_event), 0);
		assert_int_equal(aclrtCreateNotify(&notify, 0), 0);
		assert_int_equal(aclrtCreateNotify(&dead_notify, 0), 0);
		assert_int_equal(aclrtDestroyNotify(dead_notify), 0);
	}
};

/* Whether message and last error fit the code: only failures of the runtime's layer set it; 207000 need not. */
inline bool is_well_reported(aclError got, const char *text, aclError last)
{
	const bool runtime = got / 1000 == 107 || got / 1000 == 207 || got / 1000 == 507;

	if (got < ACL_ERROR_INVALID_PARAM) /* success, or a row's own number */
		return last == 0;
	if (got == ACL_ERROR_RT_REPORT_TIMEOUT)
		return true; /* the result of polling */
	return text && (last == (runtime ? got : 0) || (got == ACL_ERROR_RT_FEATURE_NOT_SUPPORT && !last));
}

struct row {
	const char *what;
	aclError want;
	bool alone; /* elsewhere() has checked the report, in another thread */
	aclError (*call)(fixture &f);
};

/* Runs the rows on one fixture, and prints each mismatch; synchronize: wait for a row's work before the next row. */
template <size_t n> void run_rows(const row (&rows)[n], bool synchronize = false)
{
	fixture f;
	size_t bad = 0;

	for (const row &r : rows) {
		aclrtGetLastError(ACL_RT_THREAD_LEVEL);
		aclGetRecentErrMsg();
		const aclError got = r.call(f);
		const char *text = aclGetRecentErrMsg();

		const aclError last = aclrtGetLastError(ACL_RT_THREAD_LEVEL);

		if (synchronize)
			aclrtSynchronizeDevice();
		if (got == r.want && (r.alone || is_well_reported(got, text, last)))
			continue;
		bad++;
		if (got == r.want)
			print_error("last error %d: ", last);
		print_error("%s: %d instead of %d (%s)\n", r.what, got, r.want, text ? text : "no message");
	}
	assert_int_equal(bad, 0);
}

/* The code of a call made in a thread without a context. */
inline aclError elsewhere(fixture &f, aclError (*call)(fixture &f))
{
	aclError got = -1;
	bool well_reported = false;

	std::thread([&] {
		got = call(f);
		const char *text = aclGetRecentErrMsg();
		well_reported = is_well_reported(got, text, aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
	}).join();
	return well_reported ? got : -1;
}

} // namespace usdma::test

#define ROW(want, ...)                                                                                                 \
	{                                                                                                              \
#__VA_ARGS__, want, false, [](fixture &f) -> aclError {                                                \
			(void)f;                                                                                       \
			return __VA_ARGS__;                                                                            \
		}               \
	}
/* The same in a thread without a context. */
#define ALONE(want, ...)                                                                                               \
	{                                                                                                              \
		"without a context: " #__VA_ARGS__, want, true, [](fixture &all) -> aclError {                         \
			return elsewhere(all, [](fixture &f) -> aclError {                                             \
				(void)f;                                                                               \
				return __VA_ARGS__;                                                                    \
			});                                                                                            \
		}                                                                                                      \
	}
