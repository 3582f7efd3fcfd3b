/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Three sizes are called a page. The OS's: what mmap(2) and mprotect(2) work in, read at run time. The granularity of a
 * device, a file's format or a protocol: a constant where it is used, mostly 4 KiB. The least that an IOMMU maps:
 * vfio::address_limits::page_size.
 */
#pragma once

#include "driver/base/types.h"

#include <unistd.h>

namespace usdma {

/* The smallest and the largest page that a kernel for x86-64 or arm64 has. */
inline constexpr u64 os_page_least = 4 * KiB, os_page_most = 64 * KiB;

/* The C library has it from the kernel, so this is no system call. */
inline u64 os_page_size()
{
	static const u64 size = u64(sysconf(_SC_PAGESIZE));

	return size;
}

struct page_range {
	u64 first, size;
};

/* The OS's pages around [at, at + size). */
inline page_range pages_around(u64 at, u64 size)
{
	const u64 first = align_down(at, os_page_size());

	return {first, align_up(at + size, os_page_size()) - first};
}

} // namespace usdma
