/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which pages are resident. Not by mincore(2): it is not in systemd's @system-service, so that a service with this
 * filter would be killed. Formats: Documentation/admin-guide/mm/pagemap.rst of Linux, proc_pid_smaps(5), move_pages(2).
 */
#include "driver/base/fd.h"
#include "driver/base/madvise.h"
#include "driver/base/memory_limit.h"
#include "driver/base/page.h"
#include "driver/base/unique_fd.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <linux/magic.h>
#include <memory>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace usdma {

/* Part of a mapping. */
struct area {
	u64 begin = 0, end = 0, page = 0;
	bool shared = false;
};

/* Calls f(area) with each mapped part of [begin, end), but for hugetlbfs. False: /proc is not readable. */
template <class F> static bool each_area(u64 begin, u64 end, F &&f)
{
	const std::unique_ptr<FILE, int (*)(FILE *)> file(fopen("/proc/self/smaps", "re"), fclose);
	char line[1024], rights[8];
	ull from, to, kib;
	area a;

	while (file && fgets(line, sizeof(line), file.get())) {
		if (sscanf(line, "%llx-%llx %7s", &from, &to, rights) == 3) {
			if (from >= end)
				break;
			a = {std::max<u64>(from, begin), std::min<u64>(to, end), 0, rights[3] == 's'};
		} else if (a.begin < a.end && sscanf(line, "KernelPageSize: %llu", &kib) == 1 &&
			   kib * KiB <= os_page_size()) {
			a.page = kib * KiB;
			f(a);
		}
	}
	return bool(file);
}

static constexpr u64 piece = 8 * MiB;

/* Not in this process's page table. */
static bool absent_by_pagemap(int fd, u64 first, u64 pages, u64 *out)
{
	static constexpr u64 present = u64(1) << 63;
	u64 words[1024];

	*out = 0;
	for (u64 at = 0; at < pages; at += std::size(words)) {
		const u64 n = std::min<u64>(std::size(words), pages - at);

		if (pread(fd, words, n * 8, off_t((first + at) * 8)) != ssize_t(n * 8))
			return false;
		*out += u64(std::count_if(words, words + n, [](u64 w) { return !(w & present); }));
	}
	return true;
}

/* Without /proc. A status is a NUMA node, or -errno. */
static bool absent_by_status(u64 begin, u64 pages, u64 page, u64 *out)
{
	static constexpr u64 batch = 512;
	void *at[batch];
	int status[batch];

	*out = 0;
	for (u64 done = 0; done < pages; done += batch) {
		const u64 n = std::min(batch, pages - done);

		for (u64 i = 0; i < n; i++)
			at[i] = reinterpret_cast<void *>(begin + (done + i) * page);
		if (syscall(SYS_move_pages, 0, n, at, nullptr, status, 0))
			return false;
		*out += u64(std::count_if(status, status + n, [](int s) { return s < 0; }));
	}
	return true;
}

/* Bytes; all of them if the kernel does not report it. */
static u64 absent_in(u64 begin, u64 size, u64 page)
{
	const unique_fd pagemap(fd_above_stdio(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)));
	u64 n = size / page;

	if (pagemap.valid() && absent_by_pagemap(pagemap.get(), begin / page, size / page, &n))
		return n * page;
	return absent_by_status(begin, size / page, page, &n) ? n * page : size;
}

/*
 * Pages of shared memory may be in memory without being in this page table. A read fault maps those around it too, but
 * allocates only its own: of pages of 4 KiB one of sixteen.
 */
static void map_present(u64 begin, u64 size)
{
	static constexpr u64 around = 64 * KiB; /* fault_around_bytes */

	if (os_page_size() >= around)
		return;
	for (u64 at = 0; at < size; at += around)
		if (madvise(reinterpret_cast<void *>(begin + at), os_page_size(), MADV_POPULATE_READ))
			return;
}

u64 memory_absent(const void *addr, u64 size)
{
	const u64 begin = reinterpret_cast<u64>(addr);
	char text[2048];
	const u64 most = memory_left({}, text, sizeof(text));
	u64 absent = 0;
	const auto add = [&](const area &a) {
		for (u64 at = a.begin; at < a.end && absent <= most; at += piece) {
			const u64 n = std::min(piece, a.end - at);

			if (a.shared)
				map_present(at, n);
			absent += absent_in(at, n, a.page);
		}
	};

	return each_area(begin, begin + size, add) ? absent : absent_in(begin, size, os_page_size());
}

/*
 * As after mlockall(MCL_FUTURE), without MCL_ONFAULT: no call reports that. MADV_DONTNEED fails for locked pages.
 */
static bool maps_are_populated()
{
	const u64 page = os_page_size();
	void *const p = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return false;
	const bool there = madvise(p, page, MADV_DONTNEED) && !absent_in(reinterpret_cast<u64>(p), page, page);
	munmap(p, page);
	return there;
}

/* Bytes that mapping all of the file would allocate; 0: no memory, or huge pages, which are reserved. */
static u64 holes_in(int fd, u64 size)
{
	struct statfs fs;
	struct stat st;

	if (fcntl(fd, F_GET_SEALS) < 0 || fstat(fd, &st) || fstatfs(fd, &fs) || fs.f_type == HUGETLBFS_MAGIC)
		return 0;
	return size - std::min(size, u64(st.st_blocks) * 512);
}

int memory_before_map(int fd, u64 size, const char *what)
{
	if (!maps_are_populated())
		return 0;
	const u64 holes = holes_in(fd, size);
	return holes ? memory_available(holes, what) : 0;
}

} // namespace usdma
