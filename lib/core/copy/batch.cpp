/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches of copies: one lock and one doorbell a group. */
#include "lib/core/copy/copy_fast.h"
#include "lib/core/copy/internal.h"

namespace usdma::core {

static bool batchable(stream *s, const endpoints &e, const copy_item &i)
{
	return i.len && i.len <= s->plain_len && !is_pageable(e) && reaches(s->dev, e.dst) && reaches(s->dev, e.src) &&
	       holds(e.dst, reinterpret_cast<u64>(i.dst), i.len) && holds(e.src, reinterpret_cast<u64>(i.src), i.len);
}

static constexpr size_t group = 32; /* copies a group */

/* Uninitialized requests: each is fully written before use. */
union request_buffer {
	dma::request r[group];

	request_buffer() {}
};

/* The region of the last item's source or destination. */
struct run_endpoint {
	u64 base = 0, size = 0, delta = 0;
	dma::space space = dma::space::host;

	bool holds(u64 addr, u64 len) const { return range_within(addr - base, len, size); }
};

struct run {
	stream *s;
	const sides *expected; /* nullptr: any memory */
	u64 generation = region_map->generation();
	run_endpoint dst, src;

	/* The regions may have changed during a wait for ring slots. */
	void renew()
	{
		if (unlikely(generation != region_map->generation()))
			*this = run{s, expected};
	}
};

static inline bool on_side(const cached_translation *l, int side)
{
	return side == side_host ? l->cls == mem_class::host : l->cls == mem_class::device && l->slot == side;
}

[[gnu::noinline]] static bool enter(const run &b, run_endpoint *e, u64 addr, u64 len, const int *side)
{
	const cached_translation *l = translation_entry(thread_here()->cache, addr);

	if (!entry_covers(b.s->dev, l, addr, len, b.generation) || (side && !on_side(l, *side)))
		return false;
	*e = {l->base, l->size, l->delta, l->space};
	return true;
}

/* As copy_is_fast(), but an item in the same regions as the one before needs no cache lookup. */
static inline bool request_in_run(run *b, u64 dst, u64 src, u64 len, dma::request *r)
{
	if (unlikely(len - 1 >= b->s->plain_len))
		return false;
	if (unlikely(!b->dst.holds(dst, len)) &&
	    !enter(*b, &b->dst, dst, len, b->expected ? &b->expected->dst : nullptr))
		return false;
	if (unlikely(!b->src.holds(src, len)) &&
	    !enter(*b, &b->src, src, len, b->expected ? &b->expected->src : nullptr))
		return false;
	dma::set_copy(r, dma::spaces(b->src.space, b->dst.space), src + b->src.delta, dst + b->dst.delta, len,
		      reinterpret_cast<u64>(b->s));
	return true;
}

static inline bool request_in_run(run *b, const copy_item &i, dma::request *r)
{
	return request_in_run(b, reinterpret_cast<u64>(i.dst), reinterpret_cast<u64>(i.src), i.len, r);
}

static bool request_translated(stream *s, const endpoints &e, const copy_item &i, dma::request *r)
{
	if (!batchable(s, e, i))
		return false;
	*r = copy_request(s, e.dst, e.src, i.len);
	return true;
}

/*
 * Submits requests for the first of n items, until make(index, request) returns false; *k: their number. On an
 * error: the number submitted.
 */
template <class Make> [[gnu::always_inline]] static inline int submit_run(run *b, size_t n, size_t *k, const Make &make)
{
	request_buffer q;

	n = std::min(n, group);
	b->renew();
	for (*k = 0; *k < n && likely(make(*k, &q.r[*k]));)
		++*k;
	return likely(*k) ? stream_submit(b->s, q.r, *k, k) : 0;
}

/* Submits groups; an item that make() rejects is copied by copy_async(). */
template <class Make>
[[gnu::always_inline]] static inline int batch(run *b, const copy_item *items, size_t n, size_t *done, const Make &make)
{
	for (*done = 0; *done < n;) {
		const copy_item *const first = items + *done;
		size_t k;
		int err = submit_run(b, n - *done, &k, [&](size_t i, dma::request *r) { return make(*done + i, r); });

		if (!k && !err) {
			err = copy_async(b->s, first->dst, first->src, first->len);
			k = !err;
		}
		*done += k;
		if (err)
			return err;
	}
	return 0;
}

int copy_batch(stream *s, const copy_item *items, size_t n, size_t *done)
{
	run b{s, nullptr};

	return batch(&b, items, n, done, [&](size_t i, dma::request *r) {
		return likely(request_in_run(&b, items[i], r)) ||
		       request_translated(s, translate_both(items[i].dst, items[i].src), items[i], r);
	});
}

int copy_batch_translated(stream *s, const copy_item *items, const endpoints *at, size_t n, size_t *done)
{
	run b{s, nullptr};

	return batch(&b, items, n, done,
		     [&](size_t i, dma::request *r) { return request_translated(s, at[i], items[i], r); });
}

size_t copy_batch_fast(stream *s, const copy_lists &items, size_t n, sides expected, int *err)
{
	run b{s, &expected};
	size_t done = 0, k = group;

	for (*err = 0; k == group && done < n && !*err; done += k)
		*err = submit_run(&b, n - done, &k, [&](size_t i, dma::request *r) {
			return request_in_run(&b, {items.dst[done + i], items.src[done + i], items.len[done + i]}, r);
		});
	return done;
}

} // namespace usdma::core
