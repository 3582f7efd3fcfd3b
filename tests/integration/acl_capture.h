/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of stream capture: three streams, two events, and memory. */
#pragma once

#include "acl/acl.h"
#include "tests/support/test.h"

#include <atomic>
#include <cstring>

#pragma GCC diagnostic ignored "-Wpedantic"                /* a ?: b is: b where a gave 0 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* deprecated calls are tested, too */

#define IS(want, call)                                                                                                 \
	do {                                                                                                           \
		const aclError got_ = (call);                                                                          \
		if (got_ != (want)) {                                                                                  \
			const char *text_ = aclGetRecentErrMsg();                                                      \
			print_error("%s:%d: %s: %d %s\n", __FILE__, __LINE__, #call, got_, text_ ? text_ : "");        \
		}                                                                                                      \
		assert_int_equal(got_, want);                                                                          \
	} while (0)
#define GOOD(call) IS(0, call)

namespace usdma::test {

inline constexpr size_t size = 4096;
inline constexpr auto global = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL, local = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL,
		      relaxed = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

struct rig {
	std::mt19937_64 gen;
	aclrtContext ctx = nullptr;
	aclrtStream s = nullptr, t = nullptr, u = nullptr;
	aclrtEvent fork = nullptr, join = nullptr;
	unsigned char *dev = nullptr, *pin = nullptr, *back = nullptr;
	unsigned char heap[size] = {};

	explicit rig(std::uint64_t n) : gen(rng(n))
	{
		GOOD(aclrtSetDevice(0));
		GOOD(aclrtGetCurrentContext(&ctx));
		for (aclrtStream *to : {&s, &t, &u})
			GOOD(aclrtCreateStream(to));
		GOOD(aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC));
		GOOD(aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
		dev = memory(true);
		pin = memory(false);
		back = memory(false);
		fill_random(pin, size, gen);
	}
	~rig()
	{
		for (aclrtStream x : {s, t, u})
			GOOD(aclrtDestroyStream(x));
		for (aclrtEvent e : {fork, join})
			GOOD(aclrtDestroyEvent(e));
		GOOD(aclrtFree(dev));
		GOOD(aclrtFreeHost(pin));
		GOOD(aclrtFreeHost(back));
		GOOD(aclrtResetDevice(0));
	}
	rig(const rig &) = delete;
	rig &operator=(const rig &) = delete;

	static unsigned char *memory(bool device)
	{
		void *p = nullptr;

		GOOD(device ? aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST) : aclrtMallocHost(&p, size));
		return static_cast<unsigned char *>(p);
	}
	static aclError copy(void *to, const void *from, aclrtStream in, size_t n = size)
	{
		return aclrtMemcpyAsync(to, n, from, n, ACL_MEMCPY_DEFAULT, in);
	}
	aclmdlRI end(aclrtStream in, aclError want = 0) const
	{
		aclmdlRI m = &m;

		IS(want, aclmdlRICaptureEnd(in, &m));
		assert_true(want ? m == nullptr : m != nullptr);
		return m;
	}
	/* Stream t joins the capture of s, runs work(), and is joined again by s. */
	void around(aclError (*work)(rig &r))
	{
		GOOD(aclrtRecordEvent(fork, s));
		GOOD(aclrtStreamWaitEvent(t, fork));
		GOOD(work(*this));
		GOOD(aclrtRecordEvent(join, t));
		GOOD(aclrtStreamWaitEvent(s, join));
	}
};

inline aclmdlRICaptureStatus status_of(aclrtStream s)
{
	aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
	aclmdlRI m = nullptr;

	GOOD(aclmdlRICaptureGetInfo(s, &status, &m));
	assert_true((status == ACL_MODEL_RI_CAPTURE_STATUS_NONE) == (m == nullptr));
	return status;
}

inline void count_call(void *arg)
{
	static_cast<std::atomic<int> *>(arg)->fetch_add(1);
}

} // namespace usdma::test
