/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/foreign.h"

#include "driver/base/error.h"
#include "driver/base/memory_limit.h"
#include "driver/vfio/region.h"
#include "lib/core/memory/memory.h"

namespace usdma::core {

foreign_memory &foreign_memory::operator=(foreign_memory &&o) noexcept
{
	std::swap(pages, o.pages);
	std::swap(inside, o.inside);
	std::swap(iova, o.iova);
	std::swap(pinned, o.pinned);
	return *this;
}

foreign_memory::~foreign_memory()
{
	/* If a lost device may still write there, the pages stay registered and mapped for ever. */
	if (pages && pinned && host_unregister(pages.data()) == -EBUSY)
		pages.release();
}

int foreign_map(const device *dev, int fd, u64 offset, u64 size, foreign_memory *out)
{
	const u64 page = vfio::is_hugetlb(fd) ? 2 * MiB : os_page_size();
	const u64 first = align_down(offset, page), whole = align_up(offset + size, page) - first;
	int err = memory_before_map(fd, whole, "shared memory");
	foreign_memory m;

	if (err)
		return err;
	void *p = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, off_t(first));
	if (p == MAP_FAILED)
		return fail_errno("mapping %llu bytes of shared memory", static_cast<unsigned long long>(whole));
	m.pages = mapping(p, whole);
	madvise(p, whole, MADV_DONTDUMP); /* belongs in its owner's core dump, if any */
	err = host_register(p, whole, 0, dev);
	if (err)
		return err;
	m.pinned = true;
	m.inside = offset - first;
	m.iova = translate(p).dma + m.inside;
	*out = std::move(m);
	return 0;
}

} // namespace usdma::core
