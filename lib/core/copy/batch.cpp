/* SPDX-License-Identifier: BSD-3-Clause */
/* Many copies, one lock and one doorbell for a group of them. */
#include "lib/core/copy/copy_known.h"
#include "lib/core/copy/internal.h"

namespace usdma::core {

static bool batchable(stream *s, const ends &e, const copy_item &i)
{
	return i.len && i.len <= s->plain_len && !is_pageable(e) && reaches(s->dev, e.dst) && reaches(s->dev, e.src) &&
	       holds(e.dst, reinterpret_cast<u64>(i.dst), i.len) && holds(e.src, reinterpret_cast<u64>(i.src), i.len);
}

static constexpr size_t group = 32; /* one lock and one doorbell for so many */

/* For requests, not cleared: each is made whole. */
union room {
	dma::request r[group];

	room() {}
};

/* The region in which one end of a batch's items lay last, as far as all of them can use it. */
struct run_end {
	u64 base = 0, size = 0, delta = 0;
	dma::space space = dma::space::host;

	bool holds(u64 addr, u64 len) const { return range_within(addr - base, len, size); }
};

struct run {
	stream *s;
	const sides *said; /* nullptr: anywhere */
	u64 generation = region_map->generation();
	run_end dst, src;

	/* What is known of them may be old after a wait for room in the ring. */
	void renew()
	{
		if (unlikely(generation != region_map->generation()))
			*this = run{s, said};
	}
};

static inline bool on_side(const located *l, int side)
{
	return side == side_host ? l->cls == mem_class::host : l->cls == mem_class::device && l->slot == side;
}

[[gnu::noinline]] static bool enter(const run &b, run_end *e, u64 addr, u64 len, const int *side)
{
	const located *l = located_entry(thread_here()->cache, addr);

	if (!remembered(b.s->dev, l, addr, len, b.generation) || (side && !on_side(l, *side)))
		return false;
	*e = {l->base, l->size, l->delta, l->space};
	return true;
}

/* As copy_is_known, but an item beside the one before needs no look at what the thread remembers. */
static inline bool request_in_run(run *b, u64 dst, u64 src, u64 len, dma::request *r)
{
	if (unlikely(len - 1 >= b->s->plain_len))
		return false;
	if (unlikely(!b->dst.holds(dst, len)) && !enter(*b, &b->dst, dst, len, b->said ? &b->said->dst : nullptr))
		return false;
	if (unlikely(!b->src.holds(src, len)) && !enter(*b, &b->src, src, len, b->said ? &b->said->src : nullptr))
		return false;
	dma::set_copy(r, dma::spaces(b->src.space, b->dst.space), src + b->src.delta, dst + b->dst.delta, len,
		      reinterpret_cast<u64>(b->s));
	return true;
}

static inline bool request_in_run(run *b, const copy_item &i, dma::request *r)
{
	return request_in_run(b, reinterpret_cast<u64>(i.dst), reinterpret_cast<u64>(i.src), i.len, r);
}

static bool request_looked_up(stream *s, const ends &e, const copy_item &i, dma::request *r)
{
	if (!batchable(s, e, i))
		return false;
	*r = copy_request(s, e.dst, e.src, i.len);
	return true;
}

/*
 * Requests for the first of n items, as many as make(number, request) makes; *k of them.  On an error: as many as were
 * submitted.
 */
template <class Make> [[gnu::always_inline]] static inline int submit_run(run *b, size_t n, size_t *k, const Make &make)
{
	room q;

	n = std::min(n, group);
	b->renew();
	for (*k = 0; *k < n && likely(make(*k, &q.r[*k]));)
		++*k;
	return likely(*k) ? stream_submit(b->s, q.r, *k, k) : 0;
}

/* Groups of such; what make does not make is copied by itself. */
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
		       request_looked_up(s, locate_ends(items[i].dst, items[i].src), items[i], r);
	});
}

int copy_batch_located(stream *s, const copy_item *items, const ends *at, size_t n, size_t *done)
{
	run b{s, nullptr};

	return batch(&b, items, n, done,
		     [&](size_t i, dma::request *r) { return request_looked_up(s, at[i], items[i], r); });
}

size_t copy_batch_remembered(stream *s, const copy_lists &items, size_t n, sides said, int *err)
{
	run b{s, &said};
	size_t done = 0, k = group;

	for (*err = 0; k == group && done < n && !*err; done += k)
		*err = submit_run(&b, n - done, &k, [&](size_t i, dma::request *r) {
			return request_in_run(&b, {items.dst[done + i], items.src[done + i], items.len[done + i]}, r);
		});
	return done;
}

} // namespace usdma::core
