/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/memory/heap.h"

#include "driver/base/grow.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace usdma::core {

/* Smallest candidates tried before a part that fits at any alignment. */
static constexpr int candidates = 16;

int heap::init(u64 size, u64 grain)
{
	chunks_.clear();
	free_.clear();
	grain_ = grain;
	size_ = used_ = peak_ = blocks_ = 0;
	size = align_down(size, grain);
	if (size && !usdma::fits([&] {
		    free_.emplace(size, 0);
		    chunks_[0] = {size, {}};
	    }))
		return -ENOBUFS;
	size_ = size;
	return 0;
}

/* Marks a part as free; its neighbours are allocated. */
void heap::set_free(chunk_map::iterator it, free_set::node_type node)
{
	node.value() = {it->second.size, it->first};
	free_.insert(std::move(node));
}

static bool holds(u64 from, u64 avail, u64 size, u64 align, u64 *offset)
{
	const u64 skip = (align - from % align) % align;

	*offset = from + skip;
	return skip <= avail && size <= avail - skip;
}

bool heap::find(u64 size, u64 align, u64 *from, u64 *offset) const
{
	auto it = free_.lower_bound({size, 0});
	const auto take = [&] {
		*from = it->second;
		return holds(it->second, it->first, size, align, offset);
	};

	for (int i = 0; i < candidates && it != free_.end(); i++, ++it)
		if (take())
			return true;
	const auto between = it;
	/* Offsets are multiples of the grain: alignment skips at most align - grain bytes. */
	const u64 sure = size + (align > grain_ ? align - grain_ : 0);
	if (it != free_.end() && sure >= size) {
		it = free_.lower_bound({std::max(sure, between->first), 0});
		if (it != free_.end() && take())
			return true;
	}
	for (it = between; it != free_.end(); ++it)
		if (take())
			return true;
	return false;
}

/* Allocates [offset, offset + size) from the free chunk. */
int heap::take(chunk_map::iterator it, u64 offset, u64 size)
{
	const u64 base = it->first, avail = it->second.size, behind = base + avail - offset - size;
	chunk_map chunks;
	free_set nodes;

	/* Allocate first: nothing may fail after this. */
	if (!usdma::fits([&] {
		    if (offset > base)
			    nodes.emplace(offset - base, base), chunks[offset] = {};
		    if (behind)
			    nodes.emplace(behind, offset + size), chunks[offset + size] = {behind, {}};
	    }))
		return -ENOBUFS;
	it->second.size = offset > base ? offset - base : size;
	chunks_.merge(chunks);
	chunk &taken = chunks_.find(offset)->second;
	taken.size = size;
	taken.node = free_.extract({avail, base});
	free_.merge(nodes);
	used_ += size;
	peak_ = std::max(peak_, used_);
	blocks_++;
	return 0;
}

int heap::alloc(u64 size, u64 align, u64 *offset)
{
	u64 from, at;

	if (!size || !is_pow2(align))
		return -EINVAL;
	if (size > size_)
		return -ENOMEM;
	size = align_up(size, grain_);
	if (!find(size, align, &from, &at))
		return -ENOMEM;
	if (const int err = take(chunks_.find(from), at, size))
		return err;
	*offset = at;
	return 0;
}

int heap::reserve(u64 offset, u64 size)
{
	if (!size || !range_within(offset, size, size_))
		return -EINVAL;
	const u64 first = align_down(offset, grain_), last = align_up(offset + size, grain_);
	const auto it = std::prev(chunks_.upper_bound(first));
	if (it->second.taken() || it->first + it->second.size < last)
		return -EEXIST;
	return take(it, first, last - first);
}

int heap::free(u64 offset)
{
	auto it = chunks_.find(offset);

	if (it == chunks_.end() || !it->second.taken())
		return -EINVAL;
	used_ -= it->second.size;
	blocks_--;
	free_set::node_type node = std::move(it->second.node);
	if (const auto next = std::next(it); next != chunks_.end() && !next->second.taken()) {
		it->second.size += next->second.size;
		free_.erase({next->second.size, next->first});
		chunks_.erase(next);
	}
	if (it != chunks_.begin() && !std::prev(it)->second.taken()) {
		const auto before = std::prev(it);

		free_.erase({before->second.size, before->first});
		before->second.size += it->second.size;
		chunks_.erase(it);
		it = before;
	}
	set_free(it, std::move(node));
	return 0;
}

u64 heap::size_at(u64 offset) const
{
	const auto it = chunks_.find(offset);

	return it != chunks_.end() && it->second.taken() ? it->second.size : 0;
}

} // namespace usdma::core
