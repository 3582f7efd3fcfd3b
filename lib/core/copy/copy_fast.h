/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path: one request between regions in the thread's translation cache. Inline without a stack frame of
 * its own, as the lookup is half of the cost of such a copy.
 */
#pragma once

#include "lib/core/memory/memory.h"
#include "lib/core/stream/stream.h"

namespace usdma::core {

/* The cache entry is valid, covers [addr, addr+len), and this device can access the region. */
inline bool entry_covers(const device *dev, const cached_translation *l, u64 addr, u64 len, u64 generation)
{
	/* len is not 0. */
	return l->generation == generation && range_within(addr - l->base, len, l->size) && dev->reaches & l->reach;
}

/* Arguments of the engine's submit_copy(). */
struct copy_args {
	u32 spaces;
	u64 src, dst, len;
};

/* The cache holds regions only, never pageable memory. False: take the slow path. */
[[gnu::always_inline]] inline bool copy_is_fast(const void *cache, const stream *s, u64 dst, u64 src, u64 len,
						copy_args *out)
{
	const u64 generation = region_map->generation();
	const cached_translation *d = translation_entry(cache, dst), *f = translation_entry(cache, src);

	if (unlikely(len - 1 >= s->plain_len || !entry_covers(s->dev, d, dst, len, generation) ||
		     !entry_covers(s->dev, f, src, len, generation)))
		return false;
	*out = {dma::spaces(f->space, d->space), src + f->delta, dst + d->delta, len};
	return true;
}

/* Inside a read section that validated the stream. 1: nothing was done, take the slow path. */
[[gnu::always_inline]] inline int copy_fast(const void *cache, stream *s, void *dst, const void *src, u64 len)
{
	copy_args c;

	if (likely(copy_is_fast(cache, s, reinterpret_cast<u64>(dst), reinterpret_cast<u64>(src), len, &c)))
		return stream_submit_copy(s, c.spaces, c.src, c.dst, c.len);
	return 1;
}

} // namespace usdma::core
