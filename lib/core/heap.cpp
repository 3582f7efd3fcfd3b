/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/heap.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

namespace usdma::core {

/* So many smallest candidates are looked at before one is taken that fits at any alignment. */
static constexpr int candidates = 16;

void heap::init(u64 size, u64 grain)
{
	grain_ = grain;
	size_ = align_down(size, grain);
	used_ = peak_ = blocks_ = 0;
	chunks_.clear();
	free_.clear();
	if (size_)
		add_free(0, size_);
}

void heap::add_free(u64 offset, u64 size)
{
	chunks_[offset] = {size, false};
	free_.emplace(size, offset);
}

static bool fits(u64 from, u64 room, u64 size, u64 align, u64 *offset)
{
	const u64 skip = (align - from % align) % align;

	*offset = from + skip;
	return skip <= room && size <= room - skip;
}

bool heap::find(u64 size, u64 align, u64 *from, u64 *offset) const
{
	auto it = free_.lower_bound({size, 0});
	const auto take = [&] {
		*from = it->second;
		return fits(it->second, it->first, size, align, offset);
	};

	for (int i = 0; i < candidates && it != free_.end(); i++, ++it)
		if (take())
			return true;
	const auto between = it;
	/* Offsets are multiples of the grain: at most align - grain bytes are lost in front. */
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

/* Makes [offset, offset + size), which lies within the free chunk, a taken one. */
void heap::take(chunk_map::iterator it, u64 offset, u64 size)
{
	const u64 base = it->first, room = it->second.size;

	free_.erase({room, base});
	chunks_.erase(it);
	if (offset > base)
		add_free(base, offset - base);
	if (offset + size < base + room)
		add_free(offset + size, base + room - offset - size);
	chunks_[offset] = {size, true};
	used_ += size;
	peak_ = std::max(peak_, used_);
	blocks_++;
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
	take(chunks_.find(from), at, size);
	*offset = at;
	return 0;
}

int heap::reserve(u64 offset, u64 size)
{
	if (!size || !range_within(offset, size, size_))
		return -EINVAL;
	const u64 first = align_down(offset, grain_), last = align_up(offset + size, grain_);
	const auto it = std::prev(chunks_.upper_bound(first));
	if (it->second.taken || it->first + it->second.size < last)
		return -EEXIST;
	take(it, first, last - first);
	return 0;
}

int heap::free(u64 offset)
{
	auto it = chunks_.find(offset);

	if (it == chunks_.end() || !it->second.taken)
		return -EINVAL;
	used_ -= it->second.size;
	blocks_--;
	u64 first = offset, last = offset + it->second.size;
	if (const auto next = std::next(it); next != chunks_.end() && !next->second.taken) {
		last += next->second.size;
		free_.erase({next->second.size, next->first});
		chunks_.erase(next);
	}
	if (it != chunks_.begin() && !std::prev(it)->second.taken) {
		const auto before = std::prev(it);

		first = before->first;
		free_.erase({before->second.size, before->first});
		chunks_.erase(before);
	}
	chunks_.erase(it);
	add_free(first, last - first);
	return 0;
}

u64 heap::size_at(u64 offset) const
{
	const auto it = chunks_.find(offset);

	return it != chunks_.end() && it->second.taken ? it->second.size : 0;
}

} // namespace usdma::core
