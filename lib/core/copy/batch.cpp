/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches of copies: one lock and one doorbell a group. Items that continue the one before share its request. */
#include "lib/core/config/race.h"
#include "lib/core/copy/internal.h"

#include <span>

namespace usdma::core {

static constexpr size_t group = 32;        /* requests a group */
static constexpr size_t group_items = 128; /* so that the engine starts early */
static constexpr u64 merged_most = MiB;
/* Copies by the CPU at once. */
static constexpr u64 cpu_group_bytes = MiB;
static constexpr size_t cpu_group_most = 1024;

/* Uninitialized requests: each is fully written before use. */
union request_buffer {
	dma::request r[group];

	request_buffer() {}
};

/* An item in the same regions as the one before needs no lookup. */
struct run {
	stream *s;
	const sides *expected;
	op_numbers *numbers;
	u64 generation;
	translation *dst, *src; /* of the last item */
	unsigned n;             /* of `used` */
	/* By a group, the first two by the one before it. Uninitialized. */
	union {
		translation used[2 + 2 * group];
	};

	run(stream *to, const sides *sides, op_numbers *all) : s(to), expected(sides), numbers(all) { start(); }

	void start()
	{
		generation = region_map->generation();
		begin({}, {});
	}
	void begin(translation to, translation from)
	{
		*(dst = &used[0]) = to;
		*(src = &used[1]) = from;
		n = 2;
	}
	/* Before a group. The regions may have changed during a wait for ring slots. */
	void renew()
	{
		if (unlikely(generation != region_map->generation()))
			start();
		else if (unlikely(n != 2))
			begin(*dst, *src);
	}
};

static bool on_side(const translation &p, int side)
{
	return side == side_host ? p.cls == mem_class::host : p.cls == mem_class::device && p.slot == side;
}

[[gnu::noinline]] static bool enter(run *b, translation **p, u64 addr, u64 len, const int *side)
{
	if (b->n == std::size(b->used))
		return false;
	translation &found = b->used[b->n] = translate(addr);
	const bool direct = found.cls != mem_class::unregistered && reaches(b->s->dev, found) &&
			    holds(found, addr, len) && (!side || on_side(found, *side));

	if (!direct)
		return false;
	*p = &found;
	b->n++;
	return true;
}

/* False: it needs checks, or more than one request. */
static inline bool request_in_run(run *b, const copy_item &i, u64 cookie, dma::request *r)
{
	const u64 dst = reinterpret_cast<u64>(i.dst), src = reinterpret_cast<u64>(i.src);

	/* A length of 0, too. */
	if (unlikely(i.len - 1 >= b->s->plain_len))
		return false;
	if (unlikely(!range_within(dst - b->dst->base, i.len, b->dst->size)) &&
	    !enter(b, &b->dst, dst, i.len, b->expected ? &b->expected->dst : nullptr))
		return false;
	if (unlikely(!range_within(src - b->src->base, i.len, b->src->size)) &&
	    !enter(b, &b->src, src, i.len, b->expected ? &b->expected->src : nullptr))
		return false;
	dma::set_copy(r, dma::spaces(b->src->space, b->dst->space), src + b->src->delta, dst + b->dst->delta, i.len,
		      cookie);
	return true;
}

/* False: not a continuation of the last one, or one that copies what the last one writes. */
static inline bool extend(dma::request *last, const dma::request &r, u64 most)
{
	if (likely(r.src != last->src + last->len || r.dst != last->dst + last->len || r.spaces != last->spaces))
		return false;
	const u64 len = last->len + r.len, apart = r.dst - r.src;

	if (len > most || apart < len || -apart < len)
		return false;
	last->len = len;
	return true;
}

/* The number of leading items that the requests copy. */
[[gnu::cold]] static size_t items_in(const copy_list &items, size_t n, std::span<const dma::request> requests)
{
	u64 left = 0;
	size_t k = 0;

	for (const dma::request &r : requests)
		left += r.len;
	for (; k < n && left; k++)
		left -= std::min(left, items[k].len);
	return k;
}

/* Submits requests for the first of n items; *done: their number, also on an error and for stale. */
[[gnu::always_inline]] static inline int submit_run(run *b, const copy_list &items, size_t first, size_t n,
						    size_t *done)
{
	const u64 most = b->s->order ? 0 :
				       std::min<u64>(b->s->plain_len, merged_most); /* the race check reports items */
	request_buffer q;
	size_t k = 0, taken = 0;

	n = std::min(n, group_items);
	b->renew();
	while (k < group && taken < n && likely(request_in_run(b, items[first + taken], op_cookie(taken), &q.r[k]))) {
		taken++;
		if (!k || likely(!extend(&q.r[k - 1], q.r[k], most)))
			k++;
	}
	*done = taken;
	if (unlikely(!k))
		return 0;
	size_t posted = k;
	b->numbers->at = first;
	const int err = submit_found(b->s, q.r, k, {b->generation, b->used, b->n}, b->numbers, &posted);
	if (unlikely(posted != k))
		*done = items_in(items.from(first), taken, {q.r, posted});
	return err;
}

/* Copies leading items of pageable memory by the CPU, after the stream's work; *done: their number. */
[[gnu::cold]] static int copy_run_by_cpu(stream *s, const copy_list &items, size_t n, const sides *expected,
					 size_t *done)
{
	u64 total = 0;
	size_t k = 0;

	*done = 0;
	if (!is_for_cpu(items[0], expected))
		return 0;
	if (const int err = sync_before(s, deadline::never()))
		return err;
	n = std::min(n, cpu_group_most);
	while (k < n && total < cpu_group_bytes)
		total += std::min(items[k++].len, cpu_group_bytes);
	*done = copy_group_by_cpu(items, k, total, expected);
	return 0;
}

static int submit_items(stream *s, const copy_list &items, size_t n, const sides *expected, size_t *done,
			op_numbers *numbers)
{
	run b(s, expected, numbers);
	size_t k;

	for (*done = 0; *done < n; *done += k) {
		const int err = submit_run(&b, items, *done, n - *done, &k);

		if (unlikely(err < 0)) {
			*done += k;
			return err;
		}
		if (likely(k))
			continue;
		if (unlikely(is_remote(translate_both(items[*done].dst, items[*done].src)))) {
			numbers->at = *done;
			if (const int other = remote_copy_items(s, items.from(*done), n - *done, expected, numbers, &k))
				return other;
			if (k)
				continue;
		}
		const int late = numbers->may_wait ? copy_run_by_cpu(s, items.from(*done), n - *done, expected, &k) : 0;
		if (late)
			return late;
		if (k)
			continue;
		if (expected)
			return 1;
		const copy_item i = items[*done];
		numbers->at = *done;
		if (const int one = copy_async(s, i.dst, i.src, i.len, numbers))
			return one;
		k = 1;
	}
	return 0;
}

int copy_submit(stream *s, const copy_list &items, size_t n, const sides *expected, size_t *done, op_numbers *numbers)
{
	const int err = submit_items(s, items, n, expected, done, numbers);

	/* A part of the item that failed may have been accepted. */
	if (unlikely(err))
		stream_numbers_end(s, numbers, *done + (err < 0 && err != -EAGAIN));
	return err;
}

int copy_submit(stream *s, const copy_list &items, size_t n, const sides *expected, size_t *done)
{
	op_numbers numbers = {n};

	return copy_submit(s, items, n, expected, done, &numbers);
}

/* Each item's source, then its destination. */
static race_use use_of(const void *arg, size_t i)
{
	const copy_item one = (*static_cast<const copy_list *>(arg))[i / 2];

	return i % 2 ? race_use{one.dst, one.len, true} : race_use{one.src, one.len, false};
}

void copy_check_batch(const stream *s, const copy_list &items, size_t n)
{
	race().access({.by = s->order, .what = "copy", .batch = true, .n = 2 * n, .use = use_of, .arg = &items});
}

} // namespace usdma::core
