/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fast path: one request between mappings that the thread has used before.
 * Inline, with the call's own frame: it is half of what such a copy costs.
 */
#pragma once

#include "lib/core/memory/memory.h"
#include "lib/core/stream/stream.h"

namespace usdma::core {

/* What the thread remembers of this place is all that a copy of len bytes from or to it wants to know. */
inline bool remembered(const device *dev, const located *l, u64 addr, u64 len, u64 generation)
{
	/* Together: no byte of it lies outside; len is not 0. */
	return l->generation == generation && range_within(addr - l->base, len, l->size) && dev->reaches & l->reach;
}

/* As the engine takes it. */
struct copy_words {
	u32 spaces;
	u64 src, dst, len;
};

/* What is remembered is of a region, never of ordinary memory.  false: it is another one. */
[[gnu::always_inline]] inline bool copy_is_known(const void *cache, const stream *s, u64 dst, u64 src, u64 len,
						 copy_words *out)
{
	const u64 generation = region_map->generation();
	const located *d = located_entry(cache, dst), *f = located_entry(cache, src);

	if (unlikely(len - 1 >= s->plain_len || !remembered(s->dev, d, dst, len, generation) ||
		     !remembered(s->dev, f, src, len, generation)))
		return false;
	*out = {dma::spaces(f->space, d->space), src + f->delta, dst + d->delta, len};
	return true;
}

/* Inside a read section that saw the stream alive.  1: it is another one, and nothing was done. */
[[gnu::always_inline]] inline int copy_known(const void *cache, stream *s, void *dst, const void *src, u64 len)
{
	copy_words c;

	if (likely(copy_is_known(cache, s, reinterpret_cast<u64>(dst), reinterpret_cast<u64>(src), len, &c)))
		return stream_submit_copy(s, c.spaces, c.src, c.dst, c.len);
	return 1;
}

} // namespace usdma::core
