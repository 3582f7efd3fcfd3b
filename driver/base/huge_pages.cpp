/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/huge_pages.h"

#include "driver/base/madvise.h"
#include "driver/base/memory_limit.h"

namespace usdma {

/* Reserves size bytes of addresses, aligned to 2 MiB. */
static void *reserve_aligned(u64 size)
{
	const u64 all = size + page_huge;
	void *p = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return p;
	const u64 base = reinterpret_cast<u64>(p), at = align_up(base, page_huge);
	if (at > base)
		munmap(p, at - base);
	if (at + size < base + all)
		munmap(reinterpret_cast<void *>(at + size), base + all - at - size);
	return reinterpret_cast<void *>(at);
}

int map_file_aligned(int fd, u64 size, const char *what, mapping *out)
{
	void *const at = reserve_aligned(size);

	if (at == MAP_FAILED)
		return fail_map(size, false, what);
	if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		const int err = fail_map(size, false, what);

		munmap(at, size);
		return err;
	}
	*out = mapping(at, size);
	return 0;
}

void collapse_pages(u8 *mem, u64 size)
{
	const u64 start = reinterpret_cast<u64>(mem), first = align_up(start, page_huge);
	const u64 end = align_down(start + size, page_huge);

	/* Only where the page table has an entry. */
	for (u64 at = first; at < end; at += page_huge)
		if (madvise(mem + (at - start), os_page_size(), MADV_POPULATE_WRITE))
			return;
	/* One call: each makes all CPUs give back the pages that they are about to list. */
	if (first < end)
		madvise(mem + (first - start), end - first, MADV_COLLAPSE);
}

} // namespace usdma
