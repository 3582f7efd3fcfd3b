/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct copies: requests to the engine, which can access both sides. */
#include "lib/core/copy/internal.h"
#include "lib/core/queue/wait.h"

namespace usdma::core {

/* A copy, of which the first `done` bytes were submitted. */
struct direct_copy {
	u8 *dst;
	const u8 *src;
	u64 len;
	u8 flags;
	op_numbers *numbers;
	u64 done = 0;

	u8 *to() const { return dst + done; }
	const u8 *from() const { return src + done; }
	u64 left() const { return len - done; }
};

/* The caller may poll. */
[[gnu::cold]] static int fail_waits(const stream *s)
{
	if (stream_is_gated(s))
		note_gated_poll();
	else
		hwq_note_poll(s->ln, load_relaxed(&s->last));
	return fail(EAGAIN, "stream %u: a copy of memory that its device cannot access would wait for earlier work",
		    s->id);
}

static u64 address(const void *p)
{
	return reinterpret_cast<u64>(p);
}

/* One request, up to the end of what was looked up. */
static inline int submit_next(stream *s, const endpoints &e, direct_copy *c, u64 n)
{
	const int err = submit_between(s, copy_request(e.dst, e.src, n, c->flags), e, c->numbers);

	c->done += err ? 0 : n;
	c->numbers->begun = c->left() && c->done && !c->numbers->may_wait;
	return err;
}

/* From the end of a region on, what is there now; within it, what was found at first. */
static void advance(translation *p, const void *at, u64 n)
{
	p->dma += n;
	if (!holds(*p, address(at), 1))
		*p = translate(at);
}

/* Copies of more than one request, or across several regions. */
[[gnu::cold]] static int copy_pieces(stream *s, endpoints e, direct_copy *c)
{
	int err = check_range(e.dst, address(c->to()), c->left(), "destination");

	if (!err)
		err = check_range(e.src, address(c->from()), c->left(), "source");
	while (!err) {
		if ((err = reach_peer(s->dev, &e.dst)) || (err = reach_peer(s->dev, &e.src)))
			return err;
		const u64 most = std::min(left_in(e.dst, address(c->to())), left_in(e.src, address(c->from()))),
			  n = std::min({c->left(), s->max_len, most});

		err = submit_next(s, e, c, n);
		if (err || !c->left())
			return err;
		advance(&e.dst, c->to(), n);
		advance(&e.src, c->from(), n);
		/* The rest was freed or unregistered. */
		if (unlikely(!e.dst.size || !e.src.size))
			return stale;
	}
	return err;
}

/* What the engine cannot do. */
[[gnu::cold]] static int copy_other(stream *s, const direct_copy &c)
{
	return c.numbers->refuses_wait() ? fail_waits(s) : copy_pageable(s, c.to(), c.from(), c.left());
}

/* Memory of a peer device, or host memory that the stream's device cannot access. */
[[gnu::cold]] static int copy_to_peer(stream *s, endpoints e, direct_copy *c)
{
	if (is_remote(e))
		return remote_copy_async(s, e, c->to(), c->from(), c->left(), c->numbers);
	if (is_apart(s->dev, e.dst) || is_apart(s->dev, e.src))
		return copy_other(s, *c);
	int err = reach_peer(s->dev, &e.dst);
	if (!err)
		err = reach_peer(s->dev, &e.src);
	if (!err)
		return copy_pieces(s, e, c);
	return err == -EXDEV ? copy_other(s, *c) : err;
}

static inline int copy_once(stream *s, const endpoints &e, direct_copy *c)
{
	if (unlikely(!reaches(s->dev, e.dst) || !reaches(s->dev, e.src)))
		return copy_to_peer(s, e, c);
	if (likely(holds(e.dst, address(c->to()), c->left()) && holds(e.src, address(c->from()), c->left()) &&
		   c->left() <= s->plain_len))
		return submit_next(s, e, c, c->left());
	return copy_pieces(s, e, c);
}

/* Of any memory. */
static int copy_rest(stream *s, direct_copy *c)
{
	int err;

	do {
		const endpoints e = translate_both(c->to(), c->from());

		err = likely(!is_pageable(e)) ? copy_once(s, e, c) : copy_other(s, *c);
	} while (err == stale);
	return err;
}

int copy_numbered(stream *s, const endpoints &e, void *dst, const void *src, u64 len, op_numbers *numbers, u8 flags)
{
	direct_copy c = {static_cast<u8 *>(dst), static_cast<const u8 *>(src), len, flags, numbers};

	if (unlikely(!len))
		return 0;
	const int err = copy_once(s, e, &c);
	return likely(err != stale) ? err : copy_rest(s, &c);
}

int copy_direct(stream *s, const endpoints &e, void *dst, const void *src, u64 len, u8 flags)
{
	op_numbers numbers;

	return copy_numbered(s, e, dst, src, len, &numbers, flags);
}

/* A valid cache entry of [addr, addr+len), which is not empty, and this device can access the region. */
static inline bool entry_covers(const device *dev, const translation *l, u64 addr, u64 len, u64 generation)
{
	return l->generation == generation && range_within(addr - l->base, len, l->size) && dev->reaches & l->reach;
}

u64 copy_fast(const void *cache, stream *s, void *dst, const void *src, u64 len, bool with_device)
{
	const u64 to = reinterpret_cast<u64>(dst), from = reinterpret_cast<u64>(src);
	const u64 generation = region_map->generation();
	const translation *d = translation_entry(cache, to), *f = translation_entry(cache, from);

	if (unlikely(len - 1 >= s->plain_len || !entry_covers(s->dev, d, to, len, generation) ||
		     !entry_covers(s->dev, f, from, len, generation) ||
		     (with_device && d->cls != mem_class::device && f->cls != mem_class::device)))
		return 0;
	return stream_submit_copy(s, dma::spaces(f->space, d->space), from + f->delta, to + d->delta, len);
}

int copy_async(stream *s, void *dst, const void *src, u64 len, op_numbers *numbers)
{
	const endpoints e = translate_both(dst, src);

	if (unlikely(is_pageable(e)))
		return numbers->refuses_wait() ? fail_waits(s) : copy_pageable(s, dst, src, len);
	return copy_numbered(s, e, dst, src, len, numbers);
}

int copy_async(stream *s, void *dst, const void *src, u64 len)
{
	op_numbers numbers;

	return copy_async(s, dst, src, len, &numbers);
}

} // namespace usdma::core
