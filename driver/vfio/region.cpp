/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/region.h"

#include "driver/base/grow.h"
#include "driver/vfio/user_proto.h"

#include <cstring>

namespace usdma::vfio {

static unsigned long long ull(u64 v)
{
	return v;
}

static int parse_sparse(std::span<const u8> raw, size_t at, u64 region_size, std::vector<range> *out)
{
	proto::sparse_head h;

	if (raw.size() - at < sizeof(h))
		return fail(EPROTO, "sparse areas beyond the reply");
	memcpy(&h, raw.data() + at, sizeof(h));
	at += sizeof(h);
	if (h.nr_areas > (raw.size() - at) / sizeof(proto::sparse_area))
		return fail(EPROTO, "%u sparse areas do not fit the reply", h.nr_areas);
	for (u32 i = 0; i < h.nr_areas; i++) {
		proto::sparse_area a;

		memcpy(&a, raw.data() + at + i * sizeof(a), sizeof(a));
		if (!range_within(a.offset, a.size, region_size))
			return fail(EPROTO, "sparse area %#llx+%#llx outside the region", ull(a.offset), ull(a.size));
		if (a.size && !try_push(*out, range{a.offset, a.offset + a.size - 1}))
			return no_memory("the mappable parts of a region");
	}
	return 0;
}

int region_parse_caps(std::span<const u8> raw, u32 first, u64 region_size, std::vector<range> *mappable)
{
	size_t at = first;

	/* Each header lies behind the one before it, so the walk ends. */
	while (at) {
		proto::cap_head h;
		int err = 0;

		if (at < sizeof(proto::region_info) || !range_within(at, sizeof(h), raw.size()))
			return fail(EPROTO, "capability at %zu of %zu bytes", at, raw.size());
		memcpy(&h, raw.data() + at, sizeof(h));
		if (h.id == proto::cap_sparse_mmap)
			err = parse_sparse(raw, at + sizeof(h), region_size, mappable);
		if (err)
			return err;
		if (h.next && h.next <= at)
			return fail(EPROTO, "capability list goes back from %zu to %u", at, h.next);
		at = h.next;
	}
	return 0;
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
	if (!size || ((offset | size) & 4095) || !range_within(offset, size, r.size))
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
	void *const p = mmap(nullptr, size, prot, MAP_SHARED, fd, off_t(fd_offset));

	if (p == MAP_FAILED)
		return fail_errno("map %llu bytes of a region", ull(size));
	*out = mapping(p, size);
	return 0;
}

} // namespace usdma::vfio
