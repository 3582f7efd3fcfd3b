/* SPDX-License-Identifier: BSD-3-Clause */
/* Which transfers make a collective operation; on several machines, most of it within each of them. */
#pragma once

#include "lib/hccl/data_type.h"
#include "lib/hccl_comm/comm.h"

namespace usdma::hccl_comm {

/* Parts of a buffer, one for each rank but this one. */
struct parts {
	transfer list[max_ranks];
	u32 count = 0;

	void add(u32 peer, char *at, u64 bytes)
	{
		if (bytes)
			list[count++] = {peer, at, bytes};
	}
};

inline char *bytes_at(const void *p)
{
	return static_cast<char *>(const_cast<void *>(p));
}

/* Where in a buffer the part of each rank is, and how much. */
struct layout {
	const u64 *counts, *offsets; /* null: `each`, one after the other */
	u64 each, element;
	char *base;

	u64 bytes(u32 rank) const { return (counts ? counts[rank] : each) * element; }
	char *at(u32 rank) const { return base + (counts ? offsets[rank] : each * rank) * element; }
};

inline layout even(const void *base, u64 each, HcclDataType type)
{
	return {nullptr, nullptr, each, ::hccl::element_bytes(type), bytes_at(base)};
}

inline layout by_arrays(const void *base, const void *counts, const void *offsets, HcclDataType type)
{
	return {static_cast<const u64 *>(counts), static_cast<const u64 *>(offsets), 0, ::hccl::element_bytes(type),
		bytes_at(base)};
}

/* Of the elements of a buffer that all have, as equal as may be: the first shares are the longer ones. */
struct shares {
	u64 counts[max_ranks], offsets[max_ranks];

	shares(u64 count, u32 ranks)
	{
		for (u32 r = 0; r < ranks; r++) {
			counts[r] = count / ranks + (r < count % ranks);
			offsets[r] = r ? offsets[r - 1] + counts[r - 1] : 0;
		}
	}
	layout of(char *base, u64 element) const { return {counts, offsets, 0, element, base}; }
};

/* Each rank gets its part of all ranks', reduced. */
HcclResult reduce_scatter(work *w, const layout &from, char *to, const reduction &by);
/* Each rank's part to all. */
HcclResult all_gather(work *w, char *from, const layout &to);
HcclResult all_reduce(work *w, char *dst, char *src, u64 count, const reduction &by);
HcclResult broadcast(work *w, u32 root, char *at, u64 bytes);

/* Finds the rows and columns of ranks: when all ranks have joined. */
void find_grid(comm *c, const rank_info *all);

} // namespace usdma::hccl_comm
