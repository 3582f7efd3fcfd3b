/* SPDX-License-Identifier: BSD-3-Clause */
/* Records: the position in a ring at which an event is reached, and the pinned words for time stamps. */
#include "driver/base/error.h"
#include "lib/core/base/section.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/stopped.h"
#include "lib/core/stream/task.h"
#include "lib/core/queue/wait.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/recover.h"

#include <new>

namespace usdma::core {

/* A released word to which a TIMESTAMP request in a ring may still store. */
struct busy_stamp {
	u64 *word = nullptr;
	device *dev =
		nullptr; /* may write until its hardware queue completes seq, or until it is closed and quiesced */
	u64 opening = 0;
	hw_queue *ln = nullptr;
	u64 seq = 0;
};

/* A block of words in pinned memory, and slots for those of them that are busy: freeing a word needs no memory. */
struct stamp_block {
	static constexpr u32 count = 2048;
	u64 *words = nullptr;
	u32 reach = 0; /* devices that can access it */
	u32 made = 0;  /* its host_generation(); words of older ones are not allocated any more */
	u32 used = 0;  /* allocated or busy */
	u32 first = 0; /* free list by index; not stored in the words, which devices may write */
	u16 next[count];
	u32 n_busy = 0;
	busy_stamp busy[count];
	stamp_block *next_block = nullptr;

	bool is_old() const { return made != host_generation(reach); }
	bool holds(const u64 *w) const { return w >= words && w < words + count; }
};

/* Taken under a hardware queue's lock: no memory is allocated under it. */
struct stamp_pool {
	std::mutex lock;
	stamp_block *blocks = nullptr;
};
static constinit no_destructor<stamp_pool> stamps;

/* True: no device writes to it any more. */
static bool is_free(const busy_stamp &b)
{
	const read_section in;

	if (!in)
		return false;
	if (load_acquire(&b.dev->opening) == b.opening)
		return hwq_done(b.ln, b.seq) || b.dev->stopped();
	/* Closed: the device is quiesced, or the memory is retained until it is. */
	return load_acquire(&b.dev->closing) != b.opening;
}

/* The next four with the lock held. */
static stamp_block *block_of(const u64 *word)
{
	stamp_block *b = stamps->blocks;

	while (!b->holds(word))
		b = b->next_block;
	return b;
}

static void give(stamp_block *b, const u64 *word)
{
	b->next[word - b->words] = u16(b->first);
	b->first = u32(word - b->words);
	b->used--;
}

static void reap()
{
	for (stamp_block *b = stamps->blocks; b; b = b->next_block)
		for (u32 i = 0; i < b->n_busy;) {
			if (!is_free(b->busy[i])) {
				i++;
				continue;
			}
			give(b, b->busy[i].word);
			b->busy[i] = b->busy[--b->n_busy];
		}
}

static u64 *take(u32 reach)
{
	for (stamp_block *b = stamps->blocks; b; b = b->next_block)
		if (b->reach == reach && !b->is_old() && b->used < stamp_block::count) {
			const u32 at = b->first;

			b->first = b->next[at];
			b->used++;
			return b->words + at;
		}
	return nullptr;
}

static int add_words(const device *dev)
{
	std::unique_ptr<stamp_block> b(new (std::nothrow) stamp_block);
	const u32 made = host_generation(dev->host_reach);
	void *mem;

	if (!b)
		return no_memory("the list of time stamps");
	if (const int err = host_alloc(stamp_block::count * sizeof(u64), -1, &mem, dev))
		return err;
	b->words = static_cast<u64 *>(mem);
	b->reach = dev->host_reach;
	b->made = made;
	for (u32 i = 0; i < stamp_block::count; i++)
		b->next[i] = u16(i + 1);
	std::lock_guard guard(stamps->lock);
	b->next_block = stamps->blocks;
	stamps->blocks = b.release();
	return 0;
}

static u64 *take_present(u32 reach)
{
	std::lock_guard guard(stamps->lock);
	u64 *w = take(reach);

	if (!w) {
		reap();
		w = take(reach);
	}
	return w;
}

/* Other threads may take the words that were added. */
u64 *stamp_get(const device *dev)
{
	u64 *w;

	while (!(w = take_present(dev->host_reach)))
		if (add_words(dev))
			return nullptr;
	store_relaxed(w, record::no_time);
	return w;
}

static void put(const busy_stamp &busy)
{
	std::lock_guard guard(stamps->lock);
	stamp_block *const b = block_of(busy.word);

	if (!busy.ln || is_free(busy))
		give(b, busy.word);
	else
		b->busy[b->n_busy++] = busy;
}

void stamp_put(u64 *word)
{
	if (word)
		put({.word = word});
}

/* Removes an unused block of an older generation. */
static std::unique_ptr<stamp_block> take_old()
{
	std::lock_guard guard(stamps->lock);

	reap();
	for (stamp_block **at = &stamps->blocks; *at; at = &(*at)->next_block)
		if (stamp_block *b = *at; b->is_old() && !b->used) {
			*at = b->next_block;
			return std::unique_ptr<stamp_block>(b);
		}
	return nullptr;
}

void stamps_trim()
{
	while (const std::unique_ptr<stamp_block> b = take_old())
		host_free(b->words);
}

record *record_new(const device *on)
{
	auto *r = new (std::nothrow) record;

	if (!r) {
		no_memory("a record");
		return nullptr;
	}
	r->stamp = on ? stamp_get(on) : nullptr;
	if (on && !r->stamp) {
		delete r;
		return nullptr;
	}
	return r;
}

void record_ref(record *r)
{
	fetch_add_relaxed(&r->refs, 1);
}

void record_unref(record *r)
{
	if (!r || fetch_sub_acq_rel(&r->refs, 1) != 1)
		return;
	if (r->stamp)
		put({r->stamp, r->dev, r->opening, r->ln, r->seq});
	if (r->order)
		race().record(race_record::deleted, 0, &r->order);
	delete r;
}

/* It is reached when the ring has completed what the stream has there. */
static void put_in_ring(record *r, const stream *s, u64 seq, u64 op)
{
	r->ln = s->ln;
	r->dev = s->ln->dev;
	r->opening = s->ln->dev->opening;
	r->seq = seq;
	r->op = op;
	/* Release: a reader that sees in_ring sees ln and seq. */
	store_release(&r->at, u32(record::in_ring));
}

bool record_start(record *r, stream *s)
{
	if (r->stamp) {
		const translation at = translate(r->stamp);
		dma::request q;

		q.op = dma::opcode::timestamp;
		q.spaces = dma::spaces(at.space, at.space);
		q.dst = at.dma;
		q.len = sizeof(u64);
		q.cookie = cookie_of(s, s->running);
		if (!stream_post(s, &q, 1))
			return false;
	}
	put_in_ring(r, s, s->last, s->running);
	return true;
}

void record_drop(record *r, const stream *s, u64 op)
{
	if (s->opt.owner && stream_failure(s))
		store_relaxed(&r->never, 1u);
	if (s->dev->lost())
		put_in_ring(r, s, ~u64(0), op); /* record_lost() */
	else if (hwq_done(s->ln, s->last))
		store_release(&r->at, u32(record::reached));
	else
		put_in_ring(r, s, s->last, op);
}

hw_queue *record_hw_queue(const record *r)
{
	if (load_acquire(&r->at) != record::in_ring || unlikely(load_relaxed(&r->never)))
		return nullptr;
	/* device_close() clears this, then waits for read sections. */
	return load_acquire(&r->dev->opening) == r->opening ? r->ln : nullptr;
}

bool record_passed_inside(const record *r)
{
	const u32 at = load_acquire(&r->at);
	const hw_queue *l = record_hw_queue(r);

	return at == record::reached || (at == record::in_ring && (!l || hwq_done(l, r->seq)));
}

bool record_passed(const record *r)
{
	const read_section in;

	return in && record_passed_inside(r);
}

bool record_lost(const record *r)
{
	const read_section in;
	const hw_queue *l = in ? record_hw_queue(r) : nullptr;

	return l && l->dev->lost() && !hwq_done(l, r->seq);
}

/* The hardware queue, counted as in use; nullptr: nothing to wait for. */
static hw_queue *enter_hw_queue(const record *r)
{
	const read_section in;
	hw_queue *l = in ? record_hw_queue(r) : nullptr;

	if (l)
		l->calls.enter();
	return l;
}

int record_wait(record *r, deadline until)
{
	hw_queue *l = enter_hw_queue(r);

	if (!l)
		return 0;
	const int err = hwq_wait(l, r->seq, until, config_get().wait);
	l->calls.leave();
	return err;
}

bool record_reached(record *r, bool polled)
{
	if (record_passed(r))
		return true;
	hw_queue *l = enter_hw_queue(r);
	if (l) {
		if (dma::halted(l->ch))
			hwq_check_fault(l);
		if (polled)
			hwq_note_poll(l, r->seq);
		l->calls.leave();
	}
	/* Its ring may wait for another ring, or the recording stream for a gate. */
	devices_poll();
	return record_passed(r);
}

} // namespace usdma::core
