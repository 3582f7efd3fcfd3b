/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages of 2 MiB for shared memory, which the kernel gives by itself only where shmem_enabled says so. */
#pragma once

#include "driver/base/mapping.h"

#pragma GCC visibility push(default)
namespace usdma {

inline constexpr u64 page_huge = 2 * MiB;

/* Maps a file, shared, at a multiple of 2 MiB: elsewhere pages of 2 MiB have no effect. what: for the error text. */
int map_file_aligned(int fd, u64 size, const char *what, mapping *out);

/*
 * Replaces the pages of the whole 2 MiB in mem by one each, and allocates it where there are none (Linux 6.1). A hint;
 * without it, one page of 4 KiB in each may be allocated.
 */
void collapse_pages(u8 *mem, u64 size);

} // namespace usdma
#pragma GCC visibility pop
