/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small programs, each with a racy and a fixed version: race_cases NAME racy|fixed. race.py runs them with
 * USDMA_CHECK=race, which reports each racy version and no fixed one. NAME lost: the fixed version on a lost device.
 * With a third argument a thread reads standard input meanwhile.
 */
#pragma once

#include "acl/acl.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace race {

inline constexpr size_t size = 64 << 10, half = size / 2;

inline bool lost; /* the device is lost on purpose */

inline void works(aclError err, const char *call)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %d: %s\n", call, err, aclGetRecentErrMsg());
	if (!lost)
		exit(1);
}
#define WORKS(call) works((call), #call)

struct program {
	bool fixed;
	aclrtStream a, b;
	aclrtEvent event;
	char *host, *out, *cache, *other; /* two pinned, two of the device */

	explicit program(bool is_fixed) : fixed(is_fixed)
	{
		WORKS(aclInit(nullptr));
		WORKS(aclrtSetDevice(0));
		WORKS(aclrtCreateStream(&a));
		WORKS(aclrtCreateStream(&b));
		WORKS(aclrtCreateEvent(&event));
		for (char **p : {&host, &out})
			WORKS(aclrtMallocHost(reinterpret_cast<void **>(p), size));
		for (char **p : {&cache, &other})
			WORKS(aclrtMalloc(reinterpret_cast<void **>(p), size, ACL_MEM_MALLOC_HUGE_FIRST));
		memset(host, 1, size);
	}
	void load(aclrtStream s, char *to, const char *from, size_t n = size)
	{
		WORKS(aclrtMemcpyAsync(to, n, from, n, ACL_MEMCPY_HOST_TO_DEVICE, s));
	}
	void save(aclrtStream s, char *to, const char *from, size_t n = size)
	{
		WORKS(aclrtMemcpyAsync(to, n, from, n, ACL_MEMCPY_DEVICE_TO_HOST, s));
	}
	void move(aclrtStream s, char *to, const char *from, size_t n = size)
	{
		WORKS(aclrtMemcpyAsync(to, n, from, n, ACL_MEMCPY_DEVICE_TO_DEVICE, s));
	}
	void sync(aclrtStream s) { WORKS(aclrtSynchronizeStream(s)); }
	/* Orders later work of b after a. */
	void edge()
	{
		WORKS(aclrtRecordEvent(event, a));
		WORKS(aclrtStreamWaitEvent(b, event));
	}
};

struct one {
	const char *name;
	void (*run)(program &p);
};

extern const std::vector<one> report_cases, cusan_cases, guard_cases, file_cases, thread_cases;

} // namespace race
