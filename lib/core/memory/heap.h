/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hands out parts of [0, size): device memory, pinned arenas, IOVAs, address
 * windows.  Knows offsets only and never touches what they stand for.  Best fit,
 * neighbours merge; logarithmic, but for a search in a space so full that only
 * luck in alignment can still find room.  Not thread-safe.
 */
#pragma once

#include "driver/base/types.h"

#include <map>
#include <set>

namespace usdma::core {

class heap {
public:
	/* All sizes are rounded up to the grain (a power of two), and so is every offset a multiple of it. */
	/* -ENOBUFS: no memory to keep track of it. */
	int init(u64 size, u64 grain);

	/*
	 * -EINVAL: size 0 or align no power of two. -ENOMEM: no part so large is free. -ENOBUFS: no memory to
	 * keep track of it.
	 */
	int alloc(u64 size, u64 align, u64 *offset);
	/*
	 * Takes exactly this part (widened to the grain). -EEXIST: some of it is taken. -EINVAL: empty or
	 * outside. -ENOBUFS.
	 */
	int reserve(u64 offset, u64 size);
	/* -EINVAL: not the start of a part that is taken. Needs no memory. */
	int free(u64 offset);

	/* Bytes of the part that starts here; 0: none does. */
	u64 size_at(u64 offset) const;
	/* Calls fn(offset) for each part that is taken; fn must not change the heap. */
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
		free_set::node_type node; /* of a part that is taken: its place in free_ once it is not */
		bool taken() const { return !node.empty(); }
	};
	using chunk_map = std::map<u64, chunk>;

	bool find(u64 size, u64 align, u64 *from, u64 *offset) const;
	int take(chunk_map::iterator it, u64 offset, u64 size);
	void set_free(chunk_map::iterator it, free_set::node_type node);

	chunk_map chunks_; /* tile [0, size) without gaps */
	free_set free_;    /* (size, offset) of those that are not taken */
	u64 size_ = 0, grain_ = 1, used_ = 0, peak_ = 0, blocks_ = 0;
};

} // namespace usdma::core
