/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory of the library: a memfd on the requested node, in huge pages where available, faulted in. */
#include "driver/base/error.h"
#include "driver/base/huge_pages.h"
#include "driver/base/memfd.h"
#include "driver/base/memory_limit.h"
#include "lib/core/memory/internal.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <numa.h>
#include <numaif.h>
#include <sys/mman.h>
#include <new>

namespace usdma::core {

static bool have_numa()
{
	static const bool have = numa_available() >= 0;

	return have;
}

int node_check(int node)
{
	/* libnuma reads it from /sys when it is loaded: valid also where numa_available() fails. */
	const int last = std::max(numa_max_node(), 0);

	if (node < -1 || node > last)
		return fail(EINVAL, "NUMA node %d does not exist: there are 0 to %d", node, last);
	return 0;
}

int setting_node_check()
{
	const int err = node_check(config_get().numa_node);

	return err ? fail_in(err, "numa_node (USDMA_NUMA_NODE)") : 0;
}

static u64 free_huge_pages()
{
	const std::unique_ptr<FILE, int (*)(FILE *)> file(
		fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re"), fclose);
	unsigned long long n = 0;

	return file && fscanf(file.get(), "%llu", &n) == 1 ? n : 0;
}

/* MPOL_PREFERRED, not MPOL_BIND: a full node must not get the process killed. */
static void prefer_node(const mapping &mem, int node)
{
	if (node < 0 || !have_numa())
		return;
	bitmask *mask = numa_allocate_nodemask();
	if (!mask)
		return;
	numa_bitmask_setbit(mask, unsigned(node));
	if (mbind(mem.data(), mem.size(), MPOL_PREFERRED, mask->maskp, mask->size + 1, 0))
		log_warn("host memory may not be on NUMA node %d: mbind failed (errno %d)", node, errno);
	numa_bitmask_free(mask);
}

int file_on_node(int fd, u64 size, int node)
{
	const int err = node_check(node);

	if (err || node < 0)
		return err;
	void *const p = mmap(nullptr, size, PROT_NONE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return fail_map(size, false, "memory of a NUMA node");
	/* The policy is the file's: it holds for mappings made later. */
	prefer_node(mapping(p, size), node);
	return 0;
}

static int fail_pages(int err, u64 size)
{
	/* -EFAULT: an access would raise SIGBUS: the control group's limit on huge pages. */
	return fail(err == -EFAULT || err == -ENOSPC ? ENOMEM : -err, "%llu bytes of pinned memory: no pages",
		    static_cast<unsigned long long>(size));
}

static int populate(const backing &b, u64 size, memory_claim *claim)
{
	static constexpr u64 part = 64 * MiB;
	const bool huge = !b.is_huge() && config_get().huge_pages != huge_mode::off;
	int err = 0;

	for (u64 at = 0; at < size && !err; at += part) {
		const u64 n = std::min(part, size - at);

		if (huge) /* so that a disk that writes to it takes one address for 2 MiB, not 512 */
			collapse_pages(b.mem.data() + at, n);
		err = memory_populate(b.mem.data() + at, n, true, claim);
	}
	return err;
}

static int fault_in(const backing &b, u64 size)
{
	memory_claim claim;
	/* Huge pages are reserved: the mapping would have failed. */
	int err = b.is_huge() ? 0 : claim.take(size, "pinned memory");

	if (err)
		return err;
	err = populate(b, size, &claim);
	if (err != -EINVAL)
		return err ? fail_pages(err, size) : 0;
	/* Before Linux 5.14. Allocate pages first: touching a hole without free pages raises SIGBUS. */
	if (fallocate(b.fd.get(), 0, 0, off_t(size)))
		return fail_pages(-errno, size);
	for (u64 at = 0; at < size; at += b.page)
		*static_cast<volatile u8 *>(b.mem.data() + at) = 0;
	return 0;
}

static int make(u64 size, int node, bool huge, std::unique_ptr<backing> *out)
{
	std::unique_ptr<backing> b(new (std::nothrow) backing);
	int err;

	if (!b)
		return fail(ENOMEM, "no memory for tracking %llu bytes", static_cast<unsigned long long>(size));
	b->page = huge ? page_huge : os_page_size();
	err = memfd_make("usdma", size, huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0, &b->fd);
	if (err)
		return err;
	err = map_file_aligned(b->fd.get(), size, "pinned memory", &b->mem);
	if (err)
		return err;
	prefer_node(b->mem, node);
	/* A hint: falls back to small pages. */
	if (!huge)
		madvise(b->mem.data(), size,
			config_get().huge_pages == huge_mode::off ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
	err = fault_in(*b, size);
	if (err)
		return err;
	/* A forked child would share pages that a device writes. */
	if (madvise(b->mem.data(), size, MADV_DONTFORK))
		return fail_errno("excluding pinned memory from forked children");
	*out = std::move(b);
	return 0;
}

/* A lack of reserved pages is the most common failure: report the numbers. */
static int make_reserved(u64 size, int node, std::unique_ptr<backing> *out)
{
	const u64 pages = align_up(size, page_huge) / page_huge;
	const int err = make(pages * page_huge, node, true, out);

	return !err ? 0 :
		      fail_in(err,
			      "huge_pages = require (USDMA_HUGE_PAGES) needs %llu free reserved pages of 2 MiB and "
			      "there are "
			      "%llu: sudo sysctl vm.nr_hugepages=%llu, or huge_pages = auto",
			      static_cast<unsigned long long>(pages),
			      static_cast<unsigned long long>(free_huge_pages()),
			      static_cast<unsigned long long>(pages + 64));
}

int backing_make(u64 size, int node, std::unique_ptr<backing> *out)
{
	const huge_mode mode = config_get().huge_pages;
	const bool whole = size % page_huge == 0;

	if (mode == huge_mode::require)
		return make_reserved(size, node, out);
	/* Another process may take the pages after the check: fall back to small ones. */
	if (mode == huge_mode::automatic && whole && free_huge_pages() >= size / page_huge &&
	    !make(size, node, true, out))
		return 0;
	return make(size, node, false, out);
}

} // namespace usdma::core
