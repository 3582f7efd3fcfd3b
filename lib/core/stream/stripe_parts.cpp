/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of copies that fail, or whose stream is stopped. */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "lib/core/stream/stripe.h"
#include "lib/core/stream/task.h"
#include "lib/core/channel/wait.h"

#include <algorithm>

namespace usdma::core {

/*
 * fn(helper, part) for each part of the stream that has not ended, until one says true; each under its helper's
 * lock.
 */
template <class F> static bool each_part(stream *s, F fn)
{
	if (!s->striped)
		return false;
	for (auto &one : s->dev->helper) {
		hw_queue *h = one.load(std::memory_order_acquire);

		if (!h)
			continue;
		std::lock_guard guard(h->lock);
		for (u64 i = h->parts->head; i != h->parts->tail; i++) {
			stripe_part &p = h->parts->at(i);

			if (p.owner == s && !hwq_done(h, p.seq) && fn(h, p))
				return true;
		}
	}
	return false;
}

bool stripe_pending(stream *s, u64 seq)
{
	return each_part(s, [seq](hw_queue *, const stripe_part &p) {
		return p.after < seq && p.first <= seq && seq <= p.last;
	});
}

void stripe_forget(stream *s)
{
	each_part(s, [](hw_queue *, stripe_part &p) {
		p.owner = nullptr;
		return false;
	});
}

/* ---- reported once --------------------------------------------------------------------------------------- */

static bool first_to_tell(stream *s, u64 first, u64 last)
{
	if (s->reported_first == first && s->reported_last == last)
		return false;
	s->reported_first = first;
	s->reported_last = last;
	return true;
}

bool stripe_reports(stream *s, u64 seq)
{
	if (s->reported_last && s->reported_first <= seq && seq <= s->reported_last)
		return false;
	if (!s->striped)
		return true;
	/* It may be looked at again. */
	first_to_tell(s, seq, seq);
	each_part(s, [s, seq](hw_queue *, const stripe_part &p) {
		return p.first <= seq && seq <= p.last && first_to_tell(s, p.first, p.last);
	});
	return true;
}

/* ---- a helper that halted ----------------------------------------------------------------------------- */

/* The part at which a helper's ring stopped; with its lock held. */
static stripe_part *part_at(hw_queue *h, u64 seq)
{
	stripe_ledger *g = h->parts;

	for (u64 i = g->head; i != g->tail; i++) {
		stripe_part &p = g->at(i);

		if (p.seq == seq || (p.after && p.seq - 1 == seq))
			return p.owner ? &p : nullptr;
	}
	return nullptr;
}

static void resume(hw_queue *h)
{
	const int err = h->ch->ops->resume(h->ch);

	if (err && !load_relaxed(&h->stuck))
		log_error("device %u channel %u cannot be resumed: %s", h->dev->slot, h->ch->index, error_text());
	store_relaxed(&h->stuck, u32(err != 0));
}

static void report(hw_queue *h, stream *s, const stripe_part &p, const dma::fault &f)
{
	store_relaxed(&h->count->faults, h->count->faults + 1);
	log_warn("device %u channel %u: part of request %llu of stream %u failed: %s at 0x%llx", h->dev->slot,
		 h->ch->index, static_cast<unsigned long long>(p.first), s->id, dma::fault_name(f.reason),
		 static_cast<unsigned long long>(f.address));
	if (first_to_tell(s, p.first, p.last))
		stream_note_error(s, dma::fault_errno(f.reason), f.reason, f.address, p.first);
}

enum class verdict : u8 { settled, tell, later };

/* What is to be done about a helper; *s is its part's owner. With its lock held. */
static verdict look_at(hw_queue *h, stream **s, stripe_part **part, dma::fault *f)
{
	if (!dma::read_fault(h->ch, f))
		return verdict::settled;
	*part = part_at(h, f->seq);
	/* Nobody's, or nothing that failed. */
	if (!*part || f->reason == dma::fault_reason::stopped) {
		resume(h);
		return verdict::settled;
	}
	*s = (*part)->owner;
	if ((*part)->seq == f->seq)
		return verdict::tell;
	/* Its WAIT failed: the CPU waits instead. */
	if (!hwq_done((*part)->from, (*part)->after))
		return verdict::later;
	store_relaxed(&h->count->faults, h->count->faults + 1);
	resume(h);
	return verdict::settled;
}

/*
 * All that the stream still has is taken out of the rings before its own goes on.  With its hardware queue's
 * lock held.
 */
static int cut_all(stream *s)
{
	dma::channel *ch = s->ln->ch;
	dma::fault f;
	int err = ch->ops->stop(ch);

	if (err)
		return err;
	ch->ops->cancel(ch, reinterpret_cast<u64>(s));
	stream_drop_queue(s);
	err = stripe_cut(s);
	/* What else it halted for is handled by those who look at it. */
	if (!err && dma::read_fault(ch, &f) && f.reason == dma::fault_reason::stopped)
		err = ch->ops->resume(ch);
	return err;
}

/* Under both locks, and again, as neither was held in between: is it still so? Then it is reported. */
static bool tell(hw_queue *h, const stream *s)
{
	std::lock_guard guard(h->lock);
	stream *now = nullptr;
	stripe_part *p;
	dma::fault f;

	if (look_at(h, &now, &p, &f) != verdict::tell || now != s || now->ln != p->from)
		return false;
	report(h, now, *p, f);
	return true;
}

void stripe_check_fault(hw_queue *h)
{
	stream *s = nullptr;
	hw_queue *from = nullptr;
	stripe_part *p;
	dma::fault f;

	{
		std::lock_guard guard(h->lock);

		if (look_at(h, &s, &p, &f) != verdict::tell)
			return;
		from = p->from;
	}
	std::lock_guard own(from->lock);
	if (!tell(h, s))
		return;
	/* The helper stands until this is done: so do the WAITs for it. */
	if (s->stopped && cut_all(s))
		return;
	std::lock_guard guard(h->lock);
	dma::fault now;
	/* Unless a reset of the device has. */
	if (dma::read_fault(h->ch, &now) && now.seq == f.seq && now.reason == f.reason)
		resume(h);
}

void stripe_check_helpers(device *dev)
{
	for (auto &one : dev->helper) {
		hw_queue *h = one.load(std::memory_order_acquire);

		if (h && dma::halted(h->ch))
			stripe_check_fault(h);
	}
}

/* ---- a stream that is stopped ------------------------------------------------------------------------ */

static bool has_part(hw_queue *h, const stream *s)
{
	const stripe_ledger *g = h->parts;

	for (u64 i = g->head; i != g->tail; i++)
		if (g->part[i % g->size].owner == s && !hwq_done(h, g->part[i % g->size].seq))
			return true;
	return false;
}

/* Each part's WAIT and copy have the part's ticket as their cookie. */
static int cut_from(hw_queue *h, const stream *s)
{
	std::lock_guard guard(h->lock);
	dma::channel *ch = h->ch;
	dma::fault f;

	if (!has_part(h, s))
		return 0;
	if (const int err = ch->ops->stop(ch))
		return err;
	for (u64 i = h->parts->head; i != h->parts->tail; i++)
		if (h->parts->at(i).owner == s)
			ch->ops->cancel(ch, i + 1);
	/* One that had halted for a failure stays so until that was reported. */
	if (dma::read_fault(ch, &f) && f.reason == dma::fault_reason::stopped)
		resume(h);
	return 0;
}

int stripe_cut(stream *s)
{
	int first = 0;

	if (!s->striped)
		return 0;
	for (auto &one : s->dev->helper) {
		hw_queue *h = one.load(std::memory_order_acquire);
		const int err = h ? cut_from(h, s) : 0;

		first = first ? first : err;
	}
	return first;
}

} // namespace usdma::core
