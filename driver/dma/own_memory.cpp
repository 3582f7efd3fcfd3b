/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/own_memory.h"

#include "driver/base/error.h"
#include "driver/base/memfd.h"
#include "driver/base/memory_limit.h"

#include <algorithm>
#include <fcntl.h>
#include <numa.h>

namespace usdma::dma {

static constexpr u64 own_low = 1 * GiB, own_high = 4 * GiB;

int own_memory_make(const char *name, u64 size, int node, unique_fd *file, mapping *out)
{
	int err = memfd_make(name, size, 0, file);

	if (!err)
		err = memory_available(size, "the device");
	if (err)
		return err;
	void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
	if (p == MAP_FAILED)
		return fail_map(size, false, "the device");
	*out = mapping(p, size);
	/* The pages are allocated after it, and by it. */
	if (node >= 0 && numa_available() >= 0 && node <= numa_max_node())
		numa_tonode_memory(p, size, node);
	madvise(p, size, MADV_DONTFORK);
	/* Later, a lack of memory would be a SIGBUS. */
	if (fallocate(file->get(), 0, 0, off_t(size)) < 0)
		return fail_errno("no memory of %llu bytes for the device", static_cast<unsigned long long>(size));
	return 0;
}

bool is_usable(const vfio::address_limits &l, u64 iova, u64 size)
{
	return std::any_of(l.usable.begin(), l.usable.end(), [=](const vfio::range &r) {
		return iova >= r.start && iova <= r.last && size - 1 <= r.last - iova;
	});
}

/* The first address from at on where the device may map so many bytes; 0: none. */
static u64 fit(const vfio::address_limits &l, u64 at, u64 size)
{
	for (const vfio::range &r : l.usable) {
		const u64 start = align_up(std::max(r.start, at), l.page_size);

		if (start < own_high && size <= own_high - start && start <= r.last && size - 1 <= r.last - start)
			return start;
	}
	return 0;
}

int own_memory_map(vfio::device &dev, vfio::dma_area *area, u64 *next)
{
	vfio::address_limits l;
	int err = dev.limits(&l);

	if (err)
		return err;
	if (area->size % l.page_size)
		return fail(EOPNOTSUPP, "the IOMMU maps no less than %llu bytes",
			    static_cast<unsigned long long>(l.page_size));
	err = -EEXIST;
	for (u64 from : {std::max(*next, own_low), own_low})
		for (u64 at = fit(l, from, area->size); at && err == -EEXIST;
		     at = fit(l, at + area->size, area->size)) {
			area->iova = at;
			err = dev.dma_map(*area);
		}
	if (!err)
		*next = area->iova + area->size;
	if (err == -EEXIST)
		return fail(ENOSPC, "no free IOVA range of %llu bytes for the device between 1 GiB and 4 GiB",
			    static_cast<unsigned long long>(area->size));
	return err ? fail_in(err, "cannot map %llu bytes for the device", static_cast<unsigned long long>(area->size)) :
		     0;
}

} // namespace usdma::dma
