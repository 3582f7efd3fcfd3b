/* SPDX-License-Identifier: BSD-3-Clause */
/* What the backends share about regions: checks before an access, the capability list, mmap. */
#pragma once

#include "driver/vfio/device.h"

#include <span>

namespace usdma::vfio {

/*
 * The capability list behind a region's info (struct vfio_info_cap_header; the
 * kernel and vfio-user alike): finds the sparse mappable areas.  raw begins at the
 * info structure.  -EPROTO: a list that loops, overlaps itself or leaves raw; an area outside the region or on
 * another; a second list of areas, or one of more than 256.
 */
int region_parse_caps(std::span<const u8> raw, u32 first, u64 region_size, std::vector<range> *mappable);

/* One of memory, as long as it is not known to have small pages. */
bool is_hugetlb(int fd);

int region_check_access(const region_info &r, unsigned index, u64 offset, u64 len, u32 right);
int region_check_map(const region_info &r, u64 offset, u64 size);
/* mmap with the rights that the region has. */
int region_mmap(int fd, u32 flags, u64 fd_offset, u64 size, mapping *out);

} // namespace usdma::vfio
