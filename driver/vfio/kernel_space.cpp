/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/kernel_space.h"

#include "driver/base/barrier.h"
#include "driver/base/grow.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <sys/resource.h>

namespace usdma::vfio {

/*
 * Locked and pinned memory of this process, in KiB (/proc/self/status; see proc(5)). VFIO's containers count to VmLck
 * (mm->locked_vm), iommufd to VmPin (mm->pinned_vm) and, for the limit, to the user (drivers/iommu/iommufd/pages.c).
 */
u64 pinned_kib()
{
	const std::unique_ptr<FILE, int (*)(FILE *)> f(fopen("/proc/self/status", "re"), fclose);
	unsigned long long pinned = 0, v;
	char line[256];

	while (f && fgets(line, sizeof(line), f.get())) {
		if (sscanf(line, "VmLck: %llu", &v) == 1 || sscanf(line, "VmPin: %llu", &v) == 1)
			pinned += v;
	}
	return pinned;
}

static int memlock_error(const dma_area &area)
{
	rlimit lim{};

	getrlimit(RLIMIT_MEMLOCK, &lim);
	if (lim.rlim_cur == RLIM_INFINITY)
		return fail(ENOMEM, "no memory to pin %llu KiB for the device", ull(area.size / KiB));
	return fail(ENOMEM,
		    "memlock: cannot pin %llu KiB: this process has pinned %llu KiB already, the limit is %llu KiB "
		    "(with iommufd, for all processes of the user); raise it: "
		    "ulimit -l, or /etc/security/limits.conf, or LimitMEMLOCK= of the systemd unit",
		    ull(area.size / KiB), ull(pinned_kib()), ull(lim.rlim_cur / KiB));
}

int dma_map_error(int err, const dma_area &area, size_t mapped, const char *max_hint)
{
	switch (err) {
	case ENOMEM:
		return memlock_error(area);
	case ENOSPC:
		return fail(err, "%zu DMA mappings are the kernel's limit; use fewer, larger ones%s", mapped, max_hint);
	case EEXIST:
		return fail(err, "DMA area %#llx+%#llx overlaps one that is mapped", ull(area.iova), ull(area.size));
	case EFAULT:
		return fail(err, "memory at %p (%llu KiB) cannot be pinned: not mapped, or no permission", area.vaddr,
			    ull(area.size / KiB));
	}
	errno = err;
	return fail_errno("map %llu KiB at IOVA %#llx", ull(area.size / KiB), ull(area.iova));
}

static bool inside(const address_limits &l, const dma_area &a)
{
	for (const range &r : l.usable) {
		if (a.iova >= r.start && a.iova + (a.size - 1) <= r.last)
			return true;
	}
	return false;
}

static int outside_error(const address_limits &l, const dma_area &a)
{
	char text[256] = "";
	size_t at = 0;

	for (const range &r : l.usable) {
		if (at < sizeof(text))
			at += size_t(snprintf(text + at, sizeof(text) - at, " %#llx-%#llx", ull(r.start), ull(r.last)));
	}
	return fail(ERANGE, "IOVA %#llx-%#llx is reserved or beyond the IOMMU's width; usable ranges:%s", ull(a.iova),
		    ull(a.iova + (a.size - 1)), text);
}

static int check(const dma_area &a)
{
	if (!a.size || a.iova + (a.size - 1) < a.iova)
		return fail(EINVAL, "DMA area of %llu bytes at %#llx is empty or wraps", ull(a.size), ull(a.iova));
	if (!a.vaddr || !(a.prot & (dma_read | dma_write)) || (a.prot & ~u32(dma_read | dma_write)))
		return fail(EINVAL, "DMA area at %p with rights %#x", a.vaddr, a.prot);
	return 0;
}

/*
 * Why the kernel has refused the area, if its limits say so; 0: they do not. Not queried for what it takes: a
 * registration is one system call.
 */
int dma_space::explain(const dma_area &a)
{
	address_limits l;

	if (limits(&l) < 0)
		return 0;
	if ((a.iova | a.size | reinterpret_cast<uintptr_t>(a.vaddr)) & (l.page_size - 1))
		return fail(EINVAL, "DMA area %#llx+%#llx at %p is not a multiple of the page (%llu)", ull(a.iova),
			    ull(a.size), a.vaddr, ull(l.page_size));
	return inside(l, a) ? 0 : outside_error(l, a);
}

const dma_space::entry *dma_space::find_overlap(const dma_area &a) const
{
	auto it = areas_.upper_bound(a.iova + (a.size - 1));

	if (it == areas_.begin())
		return nullptr;
	it--;
	return it->first + (it->second.area.size - 1) >= a.iova ? &it->second : nullptr;
}

static bool same(const dma_area &a, const dma_area &b)
{
	return a.iova == b.iova && a.size == b.size && a.vaddr == b.vaddr && a.prot == b.prot;
}

int dma_space::map(const dma_area &area)
{
	std::lock_guard guard(lock_);
	int err = check(area);
	const entry *e;

	if (err)
		return err;
	e = find_overlap(area);
	if (e && same(e->area, area)) {
		areas_.find(area.iova)->second.users++;
		return 0;
	}
	if (e)
		return dma_map_error(EEXIST, area, mapped(), "");
	if (!try_emplace(areas_, area.iova, entry{area, 1}))
		return no_memory("the list of DMA areas");
	err = kernel_map(area);
	if (err) {
		areas_.erase(area.iova);
		const saved_error why;
		const int better = explain(area);

		if (!better)
			why.again(err);
		return better ? better : err;
	}
	store_relaxed(&count_, areas_.size());
	return 0;
}

bool dma_space::sole(u64 iova)
{
	std::lock_guard guard(lock_);
	const auto it = areas_.find(iova);

	return it != areas_.end() && it->second.users == 1;
}

int dma_space::unmap(u64 iova, u64 size)
{
	std::lock_guard guard(lock_);
	const auto it = areas_.find(iova);
	int err;

	if (it == areas_.end() || it->second.area.size != size)
		return fail(ENOENT, "no DMA area %#llx+%#llx is mapped", ull(iova), ull(size));
	if (it->second.users > 1) {
		it->second.users--;
		return 0;
	}
	err = kernel_unmap(iova, size);
	if (err)
		return err;
	areas_.erase(it);
	store_relaxed(&count_, areas_.size());
	return 0;
}

} // namespace usdma::vfio
