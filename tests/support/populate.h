/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <sys/mman.h>
#include <unistd.h>

namespace usdma::test {

/* False: madvise(MADV_POPULATE_READ) accepts memory that cannot be read (qemu-user), and so does a registration. */
inline bool populate_is_checked()
{
	constexpr int populate_read = 22; /* MADV_POPULATE_READ */
	const size_t size = size_t(sysconf(_SC_PAGESIZE));
	void *const p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const bool is_checked = madvise(p, size, populate_read) != 0;

	munmap(p, size);
	return is_checked;
}

} // namespace usdma::test
