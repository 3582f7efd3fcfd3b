/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct copies: requests to the engine, which can access both sides. */
#include "lib/core/copy/internal.h"

namespace usdma::core {

/* Copies of more than one request, striped, or across several regions. */
[[gnu::cold]] static int copy_pieces(stream *s, endpoints e, u64 dst, u64 src, u64 len, u8 flags)
{
	const u64 most = s->max_len;
	int err = check_range(e.dst, dst, len, "destination");

	if (!err)
		err = check_range(e.src, src, len, "source");
	while (len && !err) {
		if ((err = reach_peer(s->dev, &e.dst)) || (err = reach_peer(s->dev, &e.src)))
			return err;
		u64 n = std::min(len, most);

		n = std::min(n, std::min(left_in(e.dst, dst), left_in(e.src, src)));
		const dma::request r = copy_request(s, e.dst, e.src, n, flags);
		err = stream_submit(s, &r, 1);
		dst += n;
		src += n;
		len -= n;
		if (len && !err)
			e = {translate(dst), translate(src)};
	}
	return err;
}

/* Memory of a peer device, or host memory that the stream's device cannot access. */
[[gnu::cold]] static int copy_to_peer(stream *s, endpoints e, void *dst, const void *src, u64 len, u8 flags)
{
	if (is_apart(s->dev, e.dst) || is_apart(s->dev, e.src))
		return copy_pageable(s, dst, src, len);
	int err = reach_peer(s->dev, &e.dst);
	if (!err)
		err = reach_peer(s->dev, &e.src);
	if (!err)
		return copy_pieces(s, e, reinterpret_cast<u64>(dst), reinterpret_cast<u64>(src), len, flags);
	return err == -EXDEV ? copy_pageable(s, dst, src, len) : err;
}

int copy_direct(stream *s, const endpoints &e, void *dst, const void *src, u64 len, u8 flags)
{
	const u64 d = reinterpret_cast<u64>(dst), f = reinterpret_cast<u64>(src);

	if (unlikely(!len))
		return 0;
	if (unlikely(!reaches(s->dev, e.dst) || !reaches(s->dev, e.src)))
		return copy_to_peer(s, e, dst, src, len, flags);
	if (likely(holds(e.dst, d, len) && holds(e.src, f, len) && len <= s->plain_len)) {
		const dma::request r = copy_request(s, e.dst, e.src, len, flags);

		return stream_submit(s, &r, 1);
	}
	return copy_pieces(s, e, d, f, len, flags);
}

/* A valid cache entry of [addr, addr+len), which is not empty, and this device can access the region. */
static inline bool entry_covers(const device *dev, const translation *l, u64 addr, u64 len, u64 generation)
{
	return l->generation == generation && range_within(addr - l->base, len, l->size) && dev->reaches & l->reach;
}

int copy_fast(const void *cache, stream *s, void *dst, const void *src, u64 len, bool with_device)
{
	const u64 to = reinterpret_cast<u64>(dst), from = reinterpret_cast<u64>(src);
	const u64 generation = region_map->generation();
	const translation *d = translation_entry(cache, to), *f = translation_entry(cache, from);

	if (unlikely(len - 1 >= s->plain_len || !entry_covers(s->dev, d, to, len, generation) ||
		     !entry_covers(s->dev, f, from, len, generation) ||
		     (with_device && d->cls != mem_class::device && f->cls != mem_class::device)))
		return 1;
	return stream_submit_copy(s, dma::spaces(f->space, d->space), from + f->delta, to + d->delta, len);
}

int copy_async(stream *s, void *dst, const void *src, u64 len)
{
	const endpoints e = translate_both(dst, src);

	return likely(!is_pageable(e)) ? copy_direct(s, e, dst, src, len) : copy_pageable(s, dst, src, len);
}

} // namespace usdma::core
