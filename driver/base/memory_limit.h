/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that memory is available before its pages are populated.  When a control
 * group or the machine runs out while pages are faulted in, the kernel kills the
 * process; a check beforehand makes that an error, which names the limit.
 */
#pragma once

#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma {

/* What is looked at; tests put another directory before the paths. */
struct memory_source {
	const char *root = "";
	bool machine = true; /* MemAvailable, besides the control groups */
};

/*
 * How many bytes may still be populated, and what says so (text of that size); ~0: nothing is known to limit them.
 * File pages that the kernel can give up count as free, swap does not: devices reach these pages.
 */
u64 memory_left(const memory_source &from, char *text, size_t size);

/* 0; -ENOMEM: not as much is left.  Asks and reserves nothing. */
int memory_ask(u64 size, const char *what, const memory_source &from = {});

/* Bytes that this process is about to populate: no other claim gets them meanwhile. */
class memory_claim {
public:
	memory_claim() = default;
	memory_claim(const memory_claim &) = delete;
	memory_claim &operator=(const memory_claim &) = delete;
	~memory_claim() { populated(size_); }

	/* As memory_ask. */
	int take(u64 size, const char *what);
	/* So many of them are there now. */
	void populated(u64 size);

private:
	u64 size_ = 0;
};

/* Faults the pages of a claimed range in, for reading or for writing; 0 or -errno without a text. */
int memory_populate(void *addr, u64 size, bool write, memory_claim *claim);

/*
 * Of [addr, addr + size) the bytes that are in no memory yet: what populating it takes.  Both are page multiples.
 * Pages of hugetlbfs count as there: they are reserved.
 */
u64 memory_absent(const void *addr, u64 size);

/*
 * After mmap, mremap or mprotect of size bytes failed (errno says how): names RLIMIT_AS, RLIMIT_DATA (where it is
 * private and writable), RLIMIT_MEMLOCK or vm.max_map_count if that is the reason.  -ENOMEM or -errno.
 */
int fail_map(u64 size, bool is_data, const char *what);

/* Before a file is made so long: the kernel reports RLIMIT_FSIZE by a signal (SIGXFSZ).  0; -ENOMEM where it is longer.
 */
int file_size_ask(u64 size);

} // namespace usdma
#pragma GCC visibility pop
