/* SPDX-License-Identifier: BSD-3-Clause */
/* Region helpers shared by the backends: access checks, the capability list, mmap. */
#pragma once

#include "driver/vfio/device.h"

#include <span>

#pragma GCC visibility push(default)
namespace usdma::vfio {

/*
 * Parses the capability list after a region's info (struct vfio_info_cap_header; the same for the kernel and
 * vfio-user) for sparse mappable areas. raw begins at the info structure. -EPROTO: a list that loops, overlaps
 * itself or exceeds raw; an area outside the region or overlapping another; a second list of areas, or one of
 * more than 256.
 */
int region_parse_caps(std::span<const u8> raw, u32 first, u64 region_size, std::vector<range> *mappable);

/* False: the file has small pages for certain. */
bool is_hugetlb(int fd);

int region_check_access(const region_info &r, unsigned index, u64 offset, u64 len, u32 right);
int region_check_map(const region_info &r, u64 offset, u64 size);
/* mmap with the region's access rights. With pages of more than 4 KiB neighbours are mapped, too. */
int region_mmap(int fd, u32 flags, u64 fd_offset, u64 size, mapping *out);

} // namespace usdma::vfio
#pragma GCC visibility pop
