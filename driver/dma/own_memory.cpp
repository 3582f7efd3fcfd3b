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

int own_memory_map(vfio::device &dev, vfio::dma_area *area)
{
	vfio::address_limits l;
	int err = dev.limits(&l);

	if (err)
		return err;
	if (area->size % l.page_size)
		return fail(EOPNOTSUPP, "the IOMMU maps no less than %llu bytes",
			    static_cast<unsigned long long>(l.page_size));
	err = -ENOSPC;
	for (area->iova = own_low; area->iova < own_high; area->iova += area->size) {
		if (!is_usable(l, area->iova, area->size))
			continue;
		err = dev.dma_map(*area);
		if (err != -EEXIST)
			break;
	}
	return err ? fail_in(err, "cannot map %llu bytes for the device", static_cast<unsigned long long>(area->size)) :
		     0;
}

} // namespace usdma::dma
