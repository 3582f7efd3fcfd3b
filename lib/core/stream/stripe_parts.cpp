/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of striped copies: failures and cancellation. */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "lib/core/stream/stripe.h"
#include "lib/core/stream/task.h"
#include "lib/core/channel/wait.h"

#include <algorithm>

namespace usdma::core {

/* Calls fn(helper, part) for each pending part of the stream until one returns true; under the helper's lock. */
template <class F> static bool each_part(stream *s, F fn)
{
	if (!s->striped)
		return false;
	for (auto &one : s->dev->helper) {
		hw_queue *h = load_acquire(&one);

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

static bool first_to_report(stream *s, u64 first, u64 last)
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
	/* The same request may be checked again. */
	first_to_report(s, seq, seq);
	each_part(s, [s, seq](hw_queue *, const stripe_part &p) {
		return p.first <= seq && seq <= p.last && first_to_report(s, p.first, p.last);
	});
	return true;
}

/* ---- a helper that halted ----------------------------------------------------------------------------- */

/* The part at which a helper's ring halted; with its lock held. */
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
	if (first_to_report(s, p.first, p.last))
		stream_note_error(s, dma::fault_errno(f.reason), f.reason, f.address, p.first);
}

enum class verdict : u8 { handled, report, later };

/* Classifies a helper's fault; *s: the owner of the part. With the helper's lock held. */
static verdict classify(hw_queue *h, stream **s, stripe_part **part, dma::fault *f)
{
	if (!dma::read_fault(h->ch, f))
		return verdict::handled;
	*part = part_at(h, f->seq);
	/* A part without owner, or stopped without a failure. */
	if (!*part || f->reason == dma::fault_reason::stopped) {
		resume(h);
		return verdict::handled;
	}
	*s = (*part)->owner;
	if ((*part)->seq == f->seq)
		return verdict::report;
	/* Its WAIT failed: the CPU waits instead. */
	if (!hwq_done((*part)->from, (*part)->after))
		return verdict::later;
	store_relaxed(&h->count->faults, h->count->faults + 1);
	resume(h);
	return verdict::handled;
}

/* Cancels the stream's work in all rings before its own ring resumes. With the lock of its hardware queue held. */
static int cancel_parts(stream *s)
{
	dma::channel *ch = s->ln->ch;
	dma::fault f;
	int err = ch->ops->stop(ch);

	if (err)
		return err;
	ch->ops->cancel(ch, reinterpret_cast<u64>(s));
	stream_drop_queue(s);
	err = stripe_cancel(s);
	/* If it halted for another reason, hwq_check_fault() handles that. */
	if (!err && dma::read_fault(ch, &f) && f.reason == dma::fault_reason::stopped)
		err = ch->ops->resume(ch);
	return err;
}

/* Reports the fault if it is still the same: with both locks held, as neither was held in between. */
static bool recheck_and_report(hw_queue *h, const stream *s)
{
	std::lock_guard guard(h->lock);
	stream *now = nullptr;
	stripe_part *p;
	dma::fault f;

	if (classify(h, &now, &p, &f) != verdict::report || now != s || now->ln != p->from)
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

		if (classify(h, &s, &p, &f) != verdict::report)
			return;
		from = p->from;
	}
	std::lock_guard own(from->lock);
	if (!recheck_and_report(h, s))
		return;
	/* The helper stays halted until this is done, and so do the WAITs for it. */
	if (s->stopped && cancel_parts(s))
		return;
	std::lock_guard guard(h->lock);
	dma::fault now;
	/* Unless a device reset has resumed it. */
	if (dma::read_fault(h->ch, &now) && now.seq == f.seq && now.reason == f.reason)
		resume(h);
}

void stripe_check_helpers(device *dev)
{
	for (auto &one : dev->helper) {
		hw_queue *h = load_acquire(&one);

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

/* The cookie of a part's WAIT and copy is the part's ticket. */
static int cancel_in(hw_queue *h, const stream *s)
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
	/* A helper that had halted at a fault stays halted until that was reported. */
	if (dma::read_fault(ch, &f) && f.reason == dma::fault_reason::stopped)
		resume(h);
	return 0;
}

int stripe_cancel(stream *s)
{
	int first = 0;

	if (!s->striped)
		return 0;
	for (auto &one : s->dev->helper) {
		hw_queue *h = load_acquire(&one);
		const int err = h ? cancel_in(h, s) : 0;

		first = first ? first : err;
	}
	return first;
}

} // namespace usdma::core
