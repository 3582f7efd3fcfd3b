/* SPDX-License-Identifier: BSD-3-Clause */
/* Physical addresses as Documentation/admin-guide/mm/pagemap.rst has them. */
#include "driver/vfio/noiommu.h"

#include "driver/base/grow.h"
#include "driver/vfio/kernel.h"

#include <fcntl.h>

namespace usdma::vfio {

static constexpr u64 page = 4096;
static constexpr u64 pagemap_present = u64(1) << 63, pagemap_pfn = (u64(1) << 55) - 1;
static constexpr u64 kpageflag_huge = u64(1) << 17;

static int read_entry(const char *path, u64 index, u64 *out)
{
	const unique_fd fd(open(path, O_RDONLY | O_CLOEXEC));

	if (!fd.valid() || pread(fd.get(), out, sizeof(*out), off_t(index * sizeof(*out))) != ssize_t(sizeof(*out)))
		return fail_errno("noiommu: read %s (needs root)", path);
	return 0;
}

int noiommu_iova(const void *vaddr, u64 *iova)
{
	const u64 addr = reinterpret_cast<uintptr_t>(vaddr);
	u64 entry, flags, pfn;
	int err = read_entry("/proc/self/pagemap", addr / page, &entry);

	if (err)
		return err;
	pfn = entry & pagemap_pfn;
	if (!(entry & pagemap_present) || !pfn)
		return fail(EFAULT, "noiommu: %p has no physical address that this process may see (CAP_SYS_ADMIN), or none",
			    vaddr);
	err = read_entry("/proc/kpageflags", pfn, &flags);
	if (err)
		return err;
	if (!(flags & kpageflag_huge))
		return fail(EOPNOTSUPP, "noiommu: %p is not in a huge page, the kernel may move it under the device: reserve huge "
			    "pages (sysctl vm.nr_hugepages)", vaddr);
	*iova = pfn * page + addr % page;
	return 0;
}

int noiommu_space::limits(address_limits *out)
{
	*out = {};
	return try_push(out->usable, range{0, ~u64(0)}) ? 0 : no_memory("a device's limits");
}

int noiommu_space::kernel_map(const dma_area &area)
{
	for (u64 at = 0; at < area.size; at += page) {
		u64 iova = 0;
		const int err = noiommu_iova(static_cast<const u8 *>(area.vaddr) + at, &iova);

		if (err)
			return err;
		if (iova != area.iova + at)
			return fail(EINVAL, "noiommu: %p lies at %#llx, not at IOVA %#llx", area.vaddr,
				    static_cast<unsigned long long>(iova), static_cast<unsigned long long>(area.iova + at));
	}
	return 0;
}

} // namespace usdma::vfio
