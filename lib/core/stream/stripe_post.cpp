/* SPDX-License-Identifier: BSD-3-Clause */
/* Spreading a copy over engines. Failures of parts: stripe_parts.cpp. */
#include "lib/core/stream/stripe.h"

#include "lib/core/channel/hw_queues.h"
#include "lib/core/stream/task.h"
#include "lib/core/channel/submit.h"
#include "lib/core/channel/wait.h"

#include <algorithm>

namespace usdma::core {

/* Least length of a part. Parts begin at page boundaries of the destination: no two write one page. */
static constexpr u64 part_grain = 64 * KiB, part_align = 4 * KiB;

u64 stripe_from(u64 setting)
{
	return setting ? std::max(setting, 2 * part_grain) : 0;
}

u64 stripe_plain_len(const device *dev)
{
	const dma::engine_limits &lim = dev->eng->limits();
	const u64 from = stripe_from(config_get().stripe);

	return from && lim.engines >= 2 ? std::min(lim.max_len, from - 1) : lim.max_len;
}

static u32 engines_of(const device *dev)
{
	return std::min(dev->eng->limits().engines, stripe_engines);
}

static u32 engine_of(const hw_queue *l)
{
	return l->ch->index % l->dev->eng->limits().engines;
}

void stripe_prepare(const stream *s)
{
	const u32 own = engine_of(s->ln);

	for (u32 u = 0; u < engines_of(s->dev); u++)
		if (u != own && !load_relaxed(&s->dev->helper[u]))
			hwq_get_helper(s->dev, u);
}

/* ---- helpers ---------------------------------------------------------------------------------------- */

struct helper_set {
	hw_queue *helper[stripe_engines]; /* locked */
	u32 n = 0;
};

static u64 free_slots(const dma::channel *ch)
{
	const u64 pending = ch->posted - dma::completed(ch);

	return pending <= ch->ring_size ? ch->ring_size - pending : 0;
}

static void retire_parts(hw_queue *h)
{
	stripe_ledger *g = h->parts;

	while (g->head != g->tail && hwq_done(h, g->at(g->head).seq))
		g->head++;
}

/* The newest part there belongs to another stream and still waits for that stream's earlier work. */
static bool held_up(const hw_queue *h, const stream *s)
{
	const stripe_ledger *g = h->parts;

	if (g->head == g->tail)
		return false;
	const stripe_part &newest = g->part[(g->tail - 1) % g->size];
	return newest.owner != s && newest.after && !hwq_done(newest.from, newest.after);
}

static bool can_take(hw_queue *h, const stream *s)
{
	retire_parts(h);
	return !dma::halted(h->ch) && h->parts->tail - h->parts->head < h->parts->size && free_slots(h->ch) >= 2 &&
	       !held_up(h, s);
}

static void acquire_helpers(helper_set *c, const stream *s, u32 most)
{
	const u32 own = engine_of(s->ln);

	for (u32 u = 0; u < engines_of(s->dev) && c->n < most; u++) {
		/* Acquire: its ledger is initialized. */
		hw_queue *h = u == own ? nullptr : load_acquire(&s->dev->helper[u]);

		if (!h)
			continue;
		h->lock.lock();
		if (can_take(h, s))
			c->helper[c->n++] = h;
		else
			h->lock.unlock();
	}
}

static void release_helpers(const helper_set &c)
{
	for (u32 i = 0; i < c.n; i++)
		c.helper[i]->lock.unlock();
}

/* ---- posting ---------------------------------------------------------------------------------------- */

static dma::request sync_words(const stream *s, dma::opcode op)
{
	dma::request q;

	q.op = op;
	q.cookie = stripe_cookie(s);
	return q;
}

/* A WAIT until the ring of l has completed seq. */
static dma::request wait_for(const stream *s, const hw_queue *l, u64 seq)
{
	dma::request q = sync_words(s, dma::opcode::wait);

	q.arg = u8(dma::compare::geq);
	q.spaces = dma::spaces(dma::space::host, dma::space::host);
	q.src = l->ch->record_iova;
	q.len = sizeof(u64);
	q.a = seq;
	return q;
}

/* The caller checked for free slots. Parts are not counted as copies. */
static void post(hw_queue *l, const dma::request *r, u32 n)
{
	hwq_submit(l, r, n, [](unsigned) {});
}

/* Called with the helper's lock held, which it releases. */
static void give_part(hw_queue *h, dma::request r, const stripe_part &p)
{
	stripe_ledger *g = h->parts;
	const u64 ticket = ++g->tail;
	dma::request q[2] = {wait_for(p.owner, p.from, p.after), r};

	q[0].cookie = q[1].cookie = ticket;
	q[1].flags |= dma::flag_complete;
	post(h, p.after ? q : q + 1, p.after ? 2 : 1);
	g->at(ticket - 1) = p;
	g->at(ticket - 1).seq = h->ch->posted;
	store_relaxed(&h->count->bytes, h->count->bytes + r.len);
	store_relaxed(&p.owner->bytes, p.owner->bytes + r.len);
	h->lock.unlock();
}

/* Offset of part k of n. */
static u64 part_begin(const dma::request &r, u32 k, u32 n)
{
	const u64 at = (r.len + n - 1) / n * k;

	return !k || at >= r.len ? std::min(at, r.len) : align_up(r.dst + at, part_align) - r.dst;
}

static dma::request part_of(const dma::request &r, u32 k, u32 n)
{
	const u64 begin = part_begin(r, k, n);
	dma::request q = r;

	q.src += begin;
	q.dst += begin;
	q.len = part_begin(r, k + 1, n) - begin;
	return q;
}

/* Posts the first part. Returns the number for which the other parts must wait, 0: none. */
static u64 post_own(stream *s, const dma::request &r)
{
	dma::request q[2] = {sync_words(s, dma::opcode::nop), r};
	const bool busy = !hwq_done(s->ln, s->last);
	const u64 after = s->ln->ch->posted + 1;

	/* Complete the NOP at once, not together with the part that follows. */
	q[0].flags = dma::flag_complete;
	return stream_post(s, busy ? q : q + 1, busy ? 2 : 1) && busy ? after : 0;
}

static void join(stream *s, const helper_set &c, const u64 *seq)
{
	dma::request q[stripe_engines];

	for (u32 i = 0; i < c.n; i++)
		q[i] = wait_for(s, c.helper[i], seq[i]);
	post(s->ln, q, c.n);
	store_relaxed(&s->last, s->ln->ch->posted);
	store_relaxed(&s->ln->join_seq, s->last);
}

bool stripe_post(stream *s, const dma::request &r)
{
	const u64 most = std::min<u64>(r.len / part_grain, stripe_engines) - 1;
	u64 seq[stripe_engines];
	hw_queue *l = s->ln;
	helper_set c;

	if ((r.flags & ~dma::flag_cache) || !l->ch->record_iova)
		return false;
	acquire_helpers(&c, s, u32(most));
	if (!c.n || free_slots(l->ch) < c.n + 2) {
		release_helpers(c);
		return false;
	}
	s->striped = 1;
	const u64 first = l->ch->posted + 1;
	const u64 after = post_own(s, part_of(r, 0, c.n + 1));
	for (u32 i = 0; i < c.n; i++) {
		seq[i] = c.helper[i]->ch->posted + (after ? 2 : 1);
		give_part(c.helper[i], part_of(r, i + 1, c.n + 1), {s, l, 0, after, first, s->last + c.n});
	}
	join(s, c, seq);
	return true;
}

} // namespace usdma::core
