/* SPDX-License-Identifier: BSD-3-Clause */
/* How each kind of queued work runs, and how a queue moves on. */
#include "lib/core/stream/task.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/fault.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/page_guard.h"
#include "lib/core/base/section.h"
#include "lib/core/stream/stripe.h"
#include "lib/core/channel/wait.h"

#include <new>

namespace usdma::core {

static u64 task_count; /* of all that were ever queued; atomic */

/* ---- tokens ----------------------------------------------------------------------------------------- */

struct call_token {
	u32 refs = 1; /* the task's and, once it is delivered, the callee's */
	u32 done = 0;
};

static void token_unref(call_token *t)
{
	if (t && __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) == 0)
		delete t;
}

void call_done(call_token *t)
{
	if (!t)
		return;
	store_release(&t->done, 1u);
	token_unref(t);
	progress_kick();
}

/* ---- running ---------------------------------------------------------------------------------------- */

/* Its predecessors in the ring have ended. */
static bool all_before(const stream *s)
{
	return hwq_done(s->ln, s->last);
}

static outcome run_request(stream *s, task &t)
{
	if (t.req.op == dma::opcode::copy && t.req.len > s->plain_len && stripe_post(s, t.req))
		return outcome::done;
	return stream_post(s, &t.req, 1) ? outcome::done : outcome::later;
}

static void finish_check(task &t)
{
	if (t.release)
		t.release(t.arg);
	t.release = nullptr;
}

/* A gate whose time is over opens, and says so in the stream's error. */
static bool gate_expired(stream *s, const task &t)
{
	if (!t.until.passed())
		return false;
	stream_note_error(s, ETIMEDOUT, dma::fault_reason::timeout, 0, s->last);
	return true;
}

static void finish_event(task &t)
{
	record_unref(t.rec);
	t.rec = nullptr;
	if (t.ev && t.kind == task_kind::gate_event)
		__atomic_sub_fetch(&t.ev->waits, 1, __ATOMIC_ACQ_REL);
	event_unref(t.ev);
	t.ev = nullptr;
}

/* What was to be done before the mark may never be: whoever reads behind it must hear of that. */
static bool gate_lost(stream *s, const task &t)
{
	if (!record_lost(t.rec))
		return false;
	stream_note_error(s, EIO, dma::fault_reason::lost, 0, s->last);
	return true;
}

static outcome run_gate_event(stream *s, task &t)
{
	if (!record_passed(t.rec) && !gate_lost(s, t) && !gate_expired(s, t))
		return outcome::later;
	finish_event(t);
	return outcome::done;
}

static outcome run_gate_check(stream *s, task &t)
{
	if (!all_before(s))
		return outcome::later;
	const int got = t.check(t.arg);
	if (!got && !gate_expired(s, t))
		return outcome::later;
	if (got < 0)
		stream_note_error(s, -got, got == -EFAULT ? dma::fault_reason::src_unmapped : dma::fault_reason::none,
				  0, s->last);
	finish_check(t);
	return outcome::done;
}

/*
 * Where interrupts are coalesced the device itself tells the progress thread: a request that does nothing asks for
 * an interrupt, and the device holds it back as its channel was told.  No room: the progress thread arms one.
 */
static bool place_marker(stream *s)
{
	dma::request q;

	if (config_get().coalesce_count <= 1 || hwq_done(s->ln, s->last))
		return false;
	q.op = dma::opcode::nop;
	q.flags = dma::flag_interrupt;
	q.cookie = reinterpret_cast<u64>(s);
	return stream_post(s, &q, 1) == 1;
}

static outcome run_call(stream *s, task &t)
{
	if (!t.block) {
		const bool tells = place_marker(s);

		return progress_watch(s, tells, t) ? outcome::later : outcome::done;
	}
	if (!t.delivered) {
		/* Also the calls before it that block nothing: the progress thread makes those. */
		if (!all_before(s) || load_acquire(&s->watched))
			return outcome::later;
		t.delivered = true;
		__atomic_add_fetch(&t.token->refs, 1, __ATOMIC_RELAXED);
		t.deliver(t.arg, t.token);
	}
	if (!load_acquire(&t.token->done))
		return outcome::later;
	token_unref(t.token);
	t.token = nullptr;
	return outcome::done;
}

static outcome run_record(stream *s, task &t)
{
	if (!record_place(t.rec, s))
		return outcome::later;
	finish_event(t);
	return outcome::done;
}

outcome run_task(stream *s, task &t)
{
	switch (t.kind) {
	case task_kind::request:
		return run_request(s, t);
	case task_kind::record:
		return run_record(s, t);
	case task_kind::reset:
		if (!all_before(s))
			return outcome::later;
		event_forget_record(t.ev);
		finish_event(t);
		return outcome::done;
	case task_kind::gate_event:
		return run_gate_event(s, t);
	case task_kind::gate_check:
		return run_gate_check(s, t);
	case task_kind::call:
		return run_call(s, t);
	}
	return outcome::done;
}

void drop_task(task &t, bool accepted)
{
	if (t.rec && t.kind == task_kind::record)
		/* Whoever waits for it must not wait for ever: it counts as reached. */
		store_release(&t.rec->at, u32(record::reached));
	finish_event(t);
	finish_check(t);
	/* A call that was accepted is made whatever happens, so that its argument finds its owner. */
	if (accepted && t.deliver && !t.delivered)
		t.deliver(t.arg, nullptr);
	token_unref(t.token);
	t.token = nullptr;
}

/* A call whose stream has others with the progress thread is made behind them. */
static void pass_to_progress(stream *s, task &t)
{
	if (!t.deliver || t.delivered || !load_acquire(&s->watched))
		return;
	if (progress_watch(s, false, t) == 0)
		t.delivered = true;
}

/* The first leaves the queue. */
static void queue_pop(stream *s)
{
	const queued *q = s->queue;

	s->queue = q->next;
	delete q;
}

void stream_drop_queue(stream *s)
{
	for (const queued *q = s->queue; q; q = s->queue) {
		task &t = s->queue->t;

		pass_to_progress(s, t);
		drop_task(t, true);
		queue_pop(s);
	}
	store_release(&s->gated, 0u);
}

/* ---- queueing --------------------------------------------------------------------------------------- */

static void queue_append(stream *s, queued *q)
{
	q->t.number = __atomic_add_fetch(&task_count, 1, __ATOMIC_RELAXED);
	(s->queue ? s->queue_end->next : s->queue) = q;
	s->queue_end = q;
	store_relaxed(&s->gated, 1u);
}

/* With the hardware queue's lock held; on error what drop_task gives back is still the task's. */
static int enqueue(stream *s, task &t)
{
	auto *q = new (std::nothrow) queued{std::move(t)};
	const int err = !q ? no_memory("work behind a gate") : s->gated ? 0 : progress_add(s);

	if (err) {
		delete q;
		return err;
	}
	queue_append(s, q);
	return 0;
}

void queued_delete(queued *first)
{
	while (first) {
		queued *q = first;

		first = q->next;
		drop_task(q->t, false);
		delete q;
	}
}

int stream_push_all(stream *s, queued *first)
{
	hw_queue *l = s->ln;
	int err;

	l->lock.lock();
	err = stream_refuses(s);
	/*
	 * On the progress thread's list in any case: that is what may fail.  It takes a stream off that has
	 * nothing queued.
	 */
	if (!err && !s->gated)
		err = progress_add(s);
	while (first && !err) {
		queued *q = first;

		first = q->next;
		q->next = nullptr;
		if (s->gated || run_task(s, q->t) == outcome::later)
			queue_append(s, q);
		else
			delete q;
	}
	l->lock.unlock();
	queued_delete(first);
	progress_kick();
	return err;
}

/*
 * A call that the stream waits for may be handed over at once, and then stays in the queue: its place there
 * comes first.
 */
static int push_call(stream *s, task &t)
{
	auto *q = new (std::nothrow) queued{std::move(t)};

	if (q)
		return stream_push_all(s, q);
	drop_task(t, false);
	return no_memory("a call");
}

int stream_push(stream *s, task &&t)
{
	hw_queue *l = s->ln;
	int err;

	if (t.block)
		return push_call(s, t);
	l->lock.lock();
	/* Under the lock: a failure may stop the stream at any time. */
	err = stream_refuses(s);
	if (!err && (s->gated || run_task(s, t) == outcome::later))
		err = enqueue(s, t);
	l->lock.unlock();
	progress_kick();
	if (err)
		drop_task(t, false);
	return err;
}

/*
 * The hardware queue that a gated stream waits for; it stays during a pass of the progress thread. With the
 * lock of the stream's hardware queue held.
 */
static hw_queue *waits_for(const stream *s)
{
	const read_section in;
	const task *t = in && s->queue ? &s->queue->t : nullptr;

	return t && t->kind == task_kind::gate_event ? record_hw_queue(t->rec) : nullptr;
}

bool stream_advance(stream *s)
{
	hw_queue *l = s->ln;
	bool moved = false;

	if (unlikely(hwq_joins(l) && helper_halted(l->dev)))
		hwq_check_fault(l);
	l->lock.lock();
	if (dma::halted(l->ch))
		hwq_handle_fault(l);
	if (s->dev->lost() && s->gated) {
		stream_note_error(s, ENODEV, dma::fault_reason::lost, 0, s->last);
		stream_drop_queue(s);
		moved = true;
	}
	while (s->queue) {
		if (run_task(s, s->queue->t) == outcome::later)
			break;
		queue_pop(s);
		moved = true;
		/* A gate that failed ended the stream (failure mode stop). */
		if (s->stopped)
			stream_drop_queue(s);
	}
	/* Release: who sees it open sees how far the stream's work in the ring goes. */
	if (!s->queue)
		store_release(&s->gated, 0u);
	hw_queue *other = waits_for(s);
	l->lock.unlock();
	/* Not under this hardware queue's lock: of two that wait for each other's each would want both. */
	if (other && hwq_halted(other)) {
		hwq_check_fault(other);
		moved |= !hwq_halted(other);
	}
	return moved;
}

u64 queue_epoch()
{
	return __atomic_load_n(&task_count, __ATOMIC_ACQUIRE);
}

/* ---- gates and calls -------------------------------------------------------------------------------- */

int stream_wait_check(stream *s, int (*check)(void *arg), void (*release)(void *arg), void *arg, deadline until)
{
	task t;

	t.kind = task_kind::gate_check;
	t.check = check;
	t.release = release;
	t.arg = arg;
	t.until = until;
	return stream_push(s, std::move(t));
}

struct word_gate {
	const void *addr;
	dma::compare cmp;
	u64 value;
};

/* The program's memory may be gone. */
static int look_at(const word_gate &g, const u64 *word)
{
	const void *bad;
	u64 seen = 0;

	if (!page_guarded([&] { seen = load_acquire(word); }, &bad))
		return -EFAULT;
	return dma::compares(g.cmp, seen, g.value);
}

static int word_check(void *arg)
{
	const auto *g = static_cast<const word_gate *>(arg);

	return look_at(*g, static_cast<const u64 *>(g->addr));
}

/*
 * Looked up each time, inside a section: whoever frees the memory first makes that fail, then waits for those
 * inside.
 */
static int memory_check(void *arg)
{
	const auto *g = static_cast<const word_gate *>(arg);
	const read_section in;
	const u64 *word = in ? word_view(g->addr) : nullptr;

	if (!in)
		return 0;
	return word ? look_at(*g, word) : -EFAULT;
}

static void word_release(void *arg)
{
	delete static_cast<word_gate *>(arg);
}

static int wait_gate(stream *s, int (*check)(void *arg), const word_gate &what, deadline until)
{
	auto *g = new (std::nothrow) word_gate(what);

	return g ? stream_wait_check(s, check, word_release, g, until) : no_memory("a wait");
}

int stream_wait_word(stream *s, const u64 *word, dma::compare cmp, u64 value, deadline until)
{
	return wait_gate(s, word_check, {word, cmp, value}, until);
}

int stream_wait_memory(stream *s, const void *addr, dma::compare cmp, u64 value)
{
	return wait_gate(s, memory_check, {addr, cmp, value}, deadline::never());
}

int stream_call(stream *s, void (*deliver)(void *arg, call_token *done), void *arg, bool block, u64 by)
{
	task t;

	t.kind = task_kind::call;
	t.deliver = deliver;
	t.arg = arg;
	t.by = by;
	t.block = block;
	/* Its turn comes at a time when nothing may fail any more. */
	t.place = progress_place();
	t.token = block ? new (std::nothrow) call_token : nullptr;
	if (t.place && (t.token || !block))
		return stream_push(s, std::move(t));
	drop_task(t, false);
	return no_memory("a call");
}

} // namespace usdma::core
