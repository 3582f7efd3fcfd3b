/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/region.h"

#include "driver/base/grow.h"
#include "driver/base/memory_limit.h"

#include <cstring>
#include <linux/magic.h>
#include <linux/vfio.h>
#include <sys/vfs.h>

namespace usdma::vfio {

/* Devices have one or two: the areas around the MSI-X table. */
static constexpr u32 most_areas = 256;
/* Parts of a region are mapped in multiples of this, whatever the OS's pages: registers of one use fill it. */
static constexpr u64 map_grain = 4 * KiB;

static int add_area(const vfio_region_sparse_mmap_area &a, u64 region_size, std::vector<range> *out)
{
	if (!range_within(a.offset, a.size, region_size))
		return fail(EPROTO, "sparse area %#llx+%#llx outside the region", ull(a.offset), ull(a.size));
	if (!a.size)
		return 0;
	const range fresh = {a.offset, a.offset + a.size - 1};
	for (const range &r : *out)
		if (fresh.start <= r.last && r.start <= fresh.last)
			return fail(EPROTO, "sparse area %#llx+%#llx overlaps another", ull(a.offset), ull(a.size));
	return try_push(*out, fresh) ? 0 : no_memory("the mappable parts of a region");
}

/* Of struct vfio_region_info_cap_sparse_mmap, what is behind its header. */
struct sparse_head {
	u32 nr_areas, reserved;
};
static_assert(sizeof(vfio_region_info_cap_sparse_mmap) == sizeof(vfio_info_cap_header) + sizeof(sparse_head));

/* *end: the end of the capability. */
static int parse_sparse(std::span<const u8> raw, size_t at, u64 region_size, std::vector<range> *out, size_t *end)
{
	sparse_head h;
	int err = 0;

	if (raw.size() - at < sizeof(h))
		return fail(EPROTO, "sparse areas beyond the reply");
	memcpy(&h, raw.data() + at, sizeof(h));
	at += sizeof(h);
	if (h.nr_areas > most_areas || h.nr_areas > (raw.size() - at) / sizeof(vfio_region_sparse_mmap_area))
		return fail(EPROTO, "%u sparse areas do not fit the reply, or are more than %u", h.nr_areas,
			    most_areas);
	*end = at + h.nr_areas * sizeof(vfio_region_sparse_mmap_area);
	for (; !err && at < *end; at += sizeof(vfio_region_sparse_mmap_area)) {
		vfio_region_sparse_mmap_area a;

		memcpy(&a, raw.data() + at, sizeof(a));
		err = add_area(a, region_size, out);
	}
	return err;
}

/* Parses one capability; *end: its end. */
static int parse_cap(std::span<const u8> raw, const vfio_info_cap_header &h, u64 region_size, bool *sparse,
		     std::vector<range> *mappable, size_t *end)
{
	if (h.id != VFIO_REGION_INFO_CAP_SPARSE_MMAP)
		return 0;
	if (*sparse)
		return fail(EPROTO, "a second list of sparse areas, at %zu", *end);
	*sparse = true;
	return parse_sparse(raw, *end, region_size, mappable, end);
}

int region_parse_caps(std::span<const u8> raw, u32 first, u64 region_size, std::vector<range> *mappable)
{
	bool sparse = false;

	/* Each must start after the end of the previous one: the walk terminates, and no byte is parsed twice. */
	for (size_t at = first, end; at;) {
		vfio_info_cap_header h;

		if (at < sizeof(vfio_region_info) || !range_within(at, sizeof(h), raw.size()))
			return fail(EPROTO, "capability at %zu of %zu bytes", at, raw.size());
		memcpy(&h, raw.data() + at, sizeof(h));
		end = at + sizeof(h);
		if (const int err = parse_cap(raw, h, region_size, &sparse, mappable, &end))
			return err;
		if (h.next && h.next < end)
			return fail(EPROTO, "capability list goes back from %zu to %u", end, h.next);
		at = h.next;
	}
	return 0;
}

bool is_hugetlb(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) || st.f_type == HUGETLBFS_MAGIC;
}

int region_check_access(const region_info &r, unsigned index, u64 offset, u64 len, u32 right)
{
	if (!range_within(offset, len, r.size))
		return fail(EINVAL, "access to %#llx+%#llx of region %u, which has %#llx bytes", ull(offset), ull(len),
			    index, ull(r.size));
	if (!(r.flags & right))
		return fail(EACCES, "region %u cannot be %s", index, right == region_readable ? "read" : "written");
	return 0;
}

int region_check_map(const region_info &r, u64 offset, u64 size)
{
	if (!(r.flags & region_mappable))
		return fail(EOPNOTSUPP, "the region cannot be mapped; read and write it");
	if (!size || ((offset | size) % map_grain) || !range_within(offset, size, r.size))
		return fail(EINVAL, "mapping %#llx+%#llx of a region of %#llx bytes", ull(offset), ull(size),
			    ull(r.size));
	if (r.mappable.empty())
		return 0;
	for (const range &m : r.mappable) {
		if (offset >= m.start && offset + size - 1 <= m.last)
			return 0;
	}
	return fail(EOPNOTSUPP, "%#llx+%#llx is not in the mappable part of the region", ull(offset), ull(size));
}

int region_mmap(int fd, u32 flags, u64 fd_offset, u64 size, mapping *out)
{
	const int prot = (flags & region_readable ? PROT_READ : 0) | (flags & region_writable ? PROT_WRITE : 0);
	const page_range pages = pages_around(fd_offset, size);

	if (fd_offset % map_grain)
		return fail(EINVAL, "a region at %#llx of its file: registers would not be aligned", ull(fd_offset));
	if (const int err = memory_before_map(fd, pages.size, "a region of the device"))
		return err;
	void *const p = mmap(nullptr, pages.size, prot, MAP_SHARED, fd, off_t(pages.first));
	if (p == MAP_FAILED)
		return fail_map(size, false, "a region of the device");
	/* A core dump would read registers, and allocate untouched pages of device memory. */
	madvise(p, pages.size, MADV_DONTDUMP);
	*out = mapping(static_cast<u8 *>(p) + (fd_offset - pages.first), size);
	return 0;
}

} // namespace usdma::vfio
