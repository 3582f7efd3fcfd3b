/* SPDX-License-Identifier: BSD-3-Clause */
/* Type1 containers (linux/vfio.h, "IOCTLs for TYPE1 IOMMU"). */
#include "driver/vfio/type1.h"

#include "driver/base/grow.h"

#include <algorithm>
#include <cstring>
#include <linux/vfio.h>
#include <sys/ioctl.h>

namespace usdma::vfio {

static constexpr size_t info_fixed = offsetof(vfio_iommu_type1_info, cap_offset) + sizeof(u32);

static int parse_ranges(std::span<const u8> raw, size_t at, std::vector<range> *out)
{
	u32 count;

	/* vfio_iommu_type1_info_cap_iova_range: header, nr_iovas, reserved, ranges. */
	if (!range_within(at, 16, raw.size()))
		return fail(EPROTO, "IOVA ranges beyond the kernel's answer");
	memcpy(&count, raw.data() + at + 8, sizeof(count));
	if (count > (raw.size() - at - 16) / sizeof(vfio_iova_range))
		return fail(EPROTO, "%u IOVA ranges do not fit the kernel's answer", count);
	out->clear();
	for (u32 i = 0; i < count; i++) {
		vfio_iova_range r;

		memcpy(&r, raw.data() + at + 16 + i * sizeof(r), sizeof(r));
		if (r.start <= r.end && !try_push(*out, range{r.start, r.end}))
			return no_memory("the IOMMU's ranges");
	}
	std::sort(out->begin(), out->end(), [](const range &a, const range &b) { return a.start < b.start; });
	return 0;
}

static int parse_cap(std::span<const u8> raw, size_t at, u16 id, address_limits *out, u64 *available)
{
	u32 avail;

	if (id == VFIO_IOMMU_TYPE1_INFO_CAP_IOVA_RANGE)
		return parse_ranges(raw, at, &out->usable);
	if (id != VFIO_IOMMU_TYPE1_INFO_DMA_AVAIL)
		return 0;
	if (!range_within(at, 12, raw.size()))
		return fail(EPROTO, "number of mappings beyond the kernel's answer");
	memcpy(&avail, raw.data() + at + 8, sizeof(avail));
	*available = avail;
	return 0;
}

/* Before Linux 5.4 the kernel does not report what the IOMMU translates: some have 39 bits. */
static constexpr range every_iommu = {0, (u64(1) << 39) - 1};

int type1_parse_info(std::span<const u8> raw, address_limits *out, u64 *available)
{
	vfio_iommu_type1_info info{};
	size_t at;

	*out = {};
	*available = ~u64(0);
	if (!try_push(out->usable, every_iommu))
		return no_memory("the IOMMU's ranges");
	if (raw.size() < offsetof(vfio_iommu_type1_info, cap_offset))
		return fail(EPROTO, "IOMMU info of %zu bytes", raw.size());
	memcpy(&info, raw.data(), std::min(sizeof(info), raw.size()));
	if ((info.flags & VFIO_IOMMU_INFO_PGSIZES) && info.iova_pgsizes)
		out->page_size = info.iova_pgsizes & -info.iova_pgsizes;
	at = info.flags & VFIO_IOMMU_INFO_CAPS ? info.cap_offset : 0;
	/* Each header must come after the previous one, so the walk terminates. */
	while (at) {
		vfio_info_cap_header h;
		int err;

		if (at < info_fixed || !range_within(at, sizeof(h), raw.size()))
			return fail(EPROTO, "IOMMU capability at %zu of %zu bytes", at, raw.size());
		memcpy(&h, raw.data() + at, sizeof(h));
		err = parse_cap(raw, at, h.id, out, available);
		if (err)
			return err;
		if (h.next && h.next <= at)
			return fail(EPROTO, "IOMMU capability list goes back from %zu to %u", at, h.next);
		at = h.next;
	}
	return 0;
}

int type1_space::limits(address_limits *out)
{
	std::vector<u8> raw;
	u64 available;
	int err;

	if (!try_resize(raw, 1024))
		return no_memory("the IOMMU's limits");
	for (int tries = 0; tries < 3; tries++) {
		u32 argsz = u32(raw.size());

		std::fill(raw.begin(), raw.end(), u8(0));
		memcpy(raw.data(), &argsz, sizeof(argsz));
		if (ioctl(fd_.get(), VFIO_IOMMU_GET_INFO, raw.data()))
			return fail_errno("query the IOMMU's limits");
		memcpy(&argsz, raw.data(), sizeof(argsz));
		if (argsz <= raw.size())
			break;
		if (!try_resize(raw, std::min(argsz, 65536u)))
			return no_memory("the IOMMU's limits");
	}
	err = type1_parse_info(raw, out, &available);
	/* The kernel reports how many more fit. */
	if (!err && available != ~u64(0))
		out->max_mappings = available + mapped();
	return err;
}

int type1_space::kernel_map(const dma_area &area)
{
	vfio_iommu_type1_dma_map m{};

	m.argsz = sizeof(m);
	m.flags = (area.prot & dma_read ? VFIO_DMA_MAP_FLAG_READ : 0) |
		  (area.prot & dma_write ? VFIO_DMA_MAP_FLAG_WRITE : 0);
	m.vaddr = reinterpret_cast<uintptr_t>(area.vaddr);
	m.iova = area.iova;
	m.size = area.size;
	if (ioctl(fd_.get(), VFIO_IOMMU_MAP_DMA, &m))
		return dma_map_error(errno, area, mapped(),
				     ", or raise /sys/module/vfio_iommu_type1/parameters/dma_entry_limit");
	return 0;
}

int type1_space::kernel_unmap(u64 iova, u64 size)
{
	vfio_iommu_type1_dma_unmap m{};

	m.argsz = sizeof(m);
	m.iova = iova;
	m.size = size;
	if (ioctl(fd_.get(), VFIO_IOMMU_UNMAP_DMA, &m))
		return fail_errno("unmap %llu bytes at IOVA %#llx", static_cast<unsigned long long>(size),
				  static_cast<unsigned long long>(iova));
	/* The kernel reports how much it unmapped; 0: it was not mapped. */
	if (m.size != size)
		return fail(EIO, "unmap at IOVA %#llx removed only %llu of %llu bytes",
			    static_cast<unsigned long long>(iova), static_cast<unsigned long long>(m.size),
			    static_cast<unsigned long long>(size));
	return 0;
}

} // namespace usdma::vfio
