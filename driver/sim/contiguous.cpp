/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/contiguous.h"

#include "driver/base/grow.h"

#include <sys/mman.h>

namespace usdma::sim {

static constexpr u64 page = 4096;
/* Of all rings of this process together, beside the files (file_bounds::pieces, vm.max_map_count). */
static constexpr u32 most_parts = 24576;
static constinit u32 all_parts = 0;

int contiguous::prepare()
{
	return try_reserve(found_, 1) ? 0 : no_memory("a ring's place");
}

void contiguous::drop()
{
	take_down();
	found_.clear();
	data_ = nullptr;
}

void contiguous::take_down()
{
	if (!alias_.size)
		return;
	guard_remove(&alias_);
	munmap(reinterpret_cast<void *>(alias_.base), alias_.size);
	__atomic_fetch_sub(&all_parts, u32(made_of_.size()), __ATOMIC_RELAXED);
	made_of_.clear();
	alias_.size = 0;
}

/* The runs of it, in their order. */
bool contiguous::look_up(const dma_space &space, u64 iova, u64 size, u32 rights)
{
	found_.clear();
	for (u64 at = iova; at - iova < size;) {
		const u64 left = size - (at - iova);
		window w;

		if (!space.find(at, &w) || !w.host || (w.prot & rights) != rights || is_dead(w.piece))
			return false;
		const u64 here = w.size - (at - w.base), n = here < left ? here : left;
		const part p = {w.host + (at - w.base), n, w.piece ? w.piece->serial : 0};

		if (!found_.empty() && found_.back().host + found_.back().size == p.host &&
		    found_.back().serial == p.serial)
			found_.back().size += n;
		else if (!try_push(found_, p))
			return false;
		at += n;
	}
	return true;
}

/* A second mapping of each page (mremap(2), old_size 0): only of shared ones, which files' are. */
bool contiguous::put_together(u64 size)
{
	const u64 skip = reinterpret_cast<u64>(found_[0].host) % page;
	const u64 whole = align_up(skip + size, page);

	if (__atomic_add_fetch(&all_parts, u32(found_.size()), __ATOMIC_RELAXED) > most_parts) {
		__atomic_fetch_sub(&all_parts, u32(found_.size()), __ATOMIC_RELAXED);
		return false;
	}
	void *const at = mmap(nullptr, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	u8 *to = static_cast<u8 *>(at);
	bool well = at != MAP_FAILED;
	for (size_t i = 0; i < found_.size() && well; i++) {
		u8 *const from = reinterpret_cast<u8 *>(align_down(reinterpret_cast<u64>(found_[i].host), page));
		const u64 len = align_up(found_[i].size + (i ? 0 : skip), page);

		well = found_[i].serial && mremap(from, 0, len, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
		to += len;
	}
	if (well) {
		alias_.base = reinterpret_cast<u64>(at);
		alias_.size = whole;
		store_release(&alias_.dead, 0u);
		well = !guard_add(&alias_);
	}
	if (!well) {
		if (at != MAP_FAILED)
			munmap(at, whole);
		alias_.size = 0;
		__atomic_fetch_sub(&all_parts, u32(found_.size()), __ATOMIC_RELAXED);
		return false;
	}
	std::swap(made_of_, found_);
	data_ = static_cast<u8 *>(at) + skip;
	return true;
}

bool contiguous::resolve(const dma_space &space, u64 iova, u64 size, u32 rights)
{
	if (!look_up(space, iova, size, rights)) {
		drop();
		return false;
	}
	if (found_.size() == 1) {
		take_down();
		data_ = found_[0].host;
		return true;
	}
	/* Seen dead through the alias, though nobody has met that in the piece yet. */
	if (alias_.size && is_dead(&alias_)) {
		drop();
		return false;
	}
	if (alias_.size && found_ == made_of_)
		return true;
	take_down();
	data_ = nullptr;
	return put_together(size);
}

} // namespace usdma::sim
