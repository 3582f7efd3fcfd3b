/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/bar_guard.h"

#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/memfd.h"
#include "driver/base/memory_limit.h"
#include "driver/base/unique_fd.h"
#include "driver/vfio/region.h"

#include <algorithm>
#include <cstring>

namespace usdma::vfio {

/*
 * One file of ones is mapped repeatedly under a whole BAR; a BAR of many GiB uses a larger file, because of the
 * kernel's limit on mappings.
 */
static constexpr size_t most_pieces = 4096;

static size_t piece_size(size_t size)
{
	return std::max(size_t(2 * MiB), align_up(size / most_pieces, size_t(os_page_size())));
}

static unique_fd make_ones(size_t size)
{
	unique_fd fd;
	void *p;

	if (memory_available(size, "the replacement of a lost device's BAR") ||
	    memfd_make("usdma-absent", size, 0, &fd))
		return unique_fd();
	p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
	if (p == MAP_FAILED)
		return unique_fd();
	memset(p, 0xff, size);
	munmap(p, size);
	return fd;
}

static bool put_ones(u8 *addr, size_t size)
{
	const size_t piece = std::min(piece_size(size), size);
	const unique_fd ones = make_ones(piece);
	/* If the file cannot be created (no memory, no descriptor), zero pages still prevent SIGBUS. */
	const int flags = MAP_PRIVATE | MAP_FIXED | (ones.valid() ? 0 : MAP_ANONYMOUS);

	for (size_t at = 0; at < size; at += piece) {
		if (mmap(addr + at, std::min(piece, size - at), PROT_READ | PROT_WRITE, flags, ones.get(), 0) ==
		    MAP_FAILED)
			return false;
	}
	return true;
}

int bar_guard::map(const std::shared_ptr<bar_guard> &self, int fd, u32 flags, u64 fd_offset, u64 size, mapping *out)
{
	std::lock_guard guard(self->lock_);
	mapping m;
	int err;

	if (self->replaced_)
		return fail(ENODEV, "device lost");
	if (!try_reserve(self->live_, self->live_.size() + 1))
		return no_memory("the list of mapped BARs");
	err = region_mmap(fd, flags, fd_offset, size, &m);
	if (err)
		return err;
	push_reserved(self->live_, live{m.data(), size});
	*out = mapping(m.release(), size, self);
	return 0;
}

void bar_guard::replace_all()
{
	std::lock_guard guard(lock_);

	replaced_ = true;
	for (const live &l : live_) {
		const page_range pages = pages_around(reinterpret_cast<u64>(l.addr), l.size);

		if (!put_ones(reinterpret_cast<u8 *>(pages.first), pages.size))
			log_error("cannot replace the BAR at %p of a lost device: an access to it may kill the "
				  "process",
				  static_cast<void *>(l.addr));
	}
}

void bar_guard::unmap(void *addr, size_t size)
{
	std::lock_guard guard(lock_);

	std::erase_if(live_, [&](const live &l) { return l.addr == addr; });
	unmap_around(addr, size);
}

} // namespace usdma::vfio
