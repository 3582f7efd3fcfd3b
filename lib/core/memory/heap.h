/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocator for parts of [0, size): device memory, pinned arenas, IOVAs, address windows. Handles offsets only
 * and never accesses the memory. Best fit with merging of free neighbours; logarithmic, except for an aligned
 * search in an almost full space. Not thread-safe.
 */
#pragma once

#include "driver/base/types.h"

#include <map>
#include <set>

namespace usdma::core {

class heap {
public:
	/* Sizes are rounded up to the grain (a power of two); offsets are multiples of it. */
	/* -ENOBUFS: no memory for the allocator's own tables. */
	int init(u64 size, u64 grain);

	/* -EINVAL: size 0 or align no power of two. -ENOMEM: no free part is large enough. -ENOBUFS. */
	int alloc(u64 size, u64 align, u64 *offset);
	/*
	 * Allocates exactly this part, extended to the grain. -EEXIST: partly allocated. -EINVAL: empty or out
	 * of range. -ENOBUFS.
	 */
	int reserve(u64 offset, u64 size);
	/* -EINVAL: not the start of an allocated part. Needs no memory. */
	int free(u64 offset);

	/* Size of the allocated part at offset; 0: none starts there. */
	u64 size_at(u64 offset) const;
	/* Calls fn(offset) for each allocated part; fn must not change the heap. */
	template <class F> void each(F fn) const
	{
		for (const auto &[offset, c] : chunks_)
			if (c.taken())
				fn(offset);
	}
	u64 size() const { return size_; }
	u64 used() const { return used_; }
	u64 free_bytes() const { return size_ - used_; }
	u64 largest() const { return free_.empty() ? 0 : free_.rbegin()->first; }
	u64 blocks() const { return blocks_; }
	u64 peak() const { return peak_; }
	bool empty() const { return blocks_ == 0; }

private:
	using free_set = std::set<std::pair<u64, u64>>;
	struct chunk {
		u64 size;
		free_set::node_type node; /* of an allocated part: preallocated node for free_ */
		bool taken() const { return !node.empty(); }
	};
	using chunk_map = std::map<u64, chunk>;

	bool find(u64 size, u64 align, u64 *from, u64 *offset) const;
	int take(chunk_map::iterator it, u64 offset, u64 size);
	void set_free(chunk_map::iterator it, free_set::node_type node);

	chunk_map chunks_; /* tile [0, size) without gaps */
	free_set free_;    /* (size, offset) of the free parts */
	u64 size_ = 0, grain_ = 1, used_ = 0, peak_ = 0, blocks_ = 0;
};

} // namespace usdma::core
