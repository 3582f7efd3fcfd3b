/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that memory is available before its pages are populated. When a control group or the machine runs out
 * while pages are faulted in, the kernel kills the process; a check beforehand turns that into an error that
 * names the limit.
 */
#pragma once

#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma {

/* Where limits are read; tests set another root directory. */
struct memory_source {
	const char *root = "";
	bool machine = true; /* what the machine has left, besides the control groups */
};

/*
 * How many bytes may still be populated, and which limit says so (text[size]); ~0: no limit found. Reclaimable
 * page cache counts as free, swap does not: devices pin these pages.
 */
u64 memory_left(const memory_source &from, char *text, size_t size);

/* 0; -ENOMEM: less is left. Reserves nothing. */
int memory_available(u64 size, const char *what, const memory_source &from = {});

/* Bytes that this process is about to populate; reserved against other claims. */
class memory_claim {
public:
	memory_claim() = default;
	memory_claim(const memory_claim &) = delete;
	memory_claim &operator=(const memory_claim &) = delete;
	~memory_claim() { populated(size_); }

	/* As memory_available. */
	int take(u64 size, const char *what);
	/* Of the claim, `size` bytes are populated now. */
	void populated(u64 size);

private:
	u64 size_ = 0;
};

/* Faults in the pages of a claimed range, for reading or writing; 0 or -errno without a text. */
int memory_populate(void *addr, u64 size, bool write, memory_claim *claim);

/*
 * Bytes of [addr, addr + size), page multiples, that are not resident, so populating allocates them; or somewhat more
 * than there is left. Pages of hugetlbfs count as resident: they are reserved. Pages of shared memory that are in
 * memory become mapped.
 */
u64 memory_absent(const void *addr, u64 size);

/*
 * Call before size bytes of a file are mapped: after mlockall(MCL_FUTURE) that allocates all its pages. 0; -ENOMEM: it
 * would, and less is left.
 */
int memory_before_map(int fd, u64 size, const char *what);

/*
 * Reports why mmap, mremap or mprotect of size bytes failed with errno: RLIMIT_AS, RLIMIT_DATA (is_data:
 * private and writable), RLIMIT_MEMLOCK or vm.max_map_count if one is the reason. -ENOMEM or -errno.
 */
int fail_map(u64 size, bool is_data, const char *what);

/*
 * Call before a file is extended: the kernel reports RLIMIT_FSIZE by a signal (SIGXFSZ). 0; -ENOMEM: above the
 * limit.
 */
int file_size_check(u64 size);

} // namespace usdma
#pragma GCC visibility pop
