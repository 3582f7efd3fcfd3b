/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/contiguous.h"

#include "driver/base/grow.h"

#include <sys/mman.h>

namespace usdma::sim {

static constexpr u64 page = 4096;
/* Limit over all rings of this process, besides the files (file_bounds::pieces, vm.max_map_count). */
static constexpr u32 most_parts = 24576;
static constinit u32 all_parts = 0;

int contiguous::prepare()
{
	return try_reserve(found_, 1) ? 0 : no_memory("a ring's mapping");
}

void contiguous::drop()
{
	unmap_alias();
	found_.clear();
	data_ = nullptr;
}

void contiguous::unmap_alias()
{
	if (!alias_.size)
		return;
	guard_remove(&alias_);
	munmap(reinterpret_cast<void *>(alias_.base), alias_.size);
	fetch_sub_relaxed(&all_parts, u32(alias_parts_.size()));
	alias_parts_.clear();
	alias_.size = 0;
}

/* Collects the contiguous parts of the range in order. */
bool contiguous::find_parts(const dma_space &space, u64 iova, u64 size, u32 rights)
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

/* Maps each page a second time (mremap(2), old_size 0), which needs shared mappings such as those of files. */
bool contiguous::map_alias(u64 size)
{
	const u64 skip = reinterpret_cast<u64>(found_[0].host) % page;
	const u64 whole = align_up(skip + size, page);

	if (fetch_add_relaxed(&all_parts, u32(found_.size())) + u32(found_.size()) > most_parts) {
		fetch_sub_relaxed(&all_parts, u32(found_.size()));
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
		fetch_sub_relaxed(&all_parts, u32(found_.size()));
		return false;
	}
	std::swap(alias_parts_, found_);
	data_ = static_cast<u8 *>(at) + skip;
	return true;
}

bool contiguous::resolve(const dma_space &space, u64 iova, u64 size, u32 rights)
{
	if (!find_parts(space, iova, size, rights)) {
		drop();
		return false;
	}
	if (found_.size() == 1) {
		unmap_alias();
		data_ = found_[0].host;
		return true;
	}
	/* An access by the alias raised SIGBUS, though none by the original mapping has yet. */
	if (alias_.size && is_dead(&alias_)) {
		drop();
		return false;
	}
	if (alias_.size && found_ == alias_parts_)
		return true;
	unmap_alias();
	data_ = nullptr;
	return map_alias(size);
}

} // namespace usdma::sim
