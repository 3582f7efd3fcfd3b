/* SPDX-License-Identifier: BSD-3-Clause */
/* Running queued work of each kind, and advancing a stream's queue. */
#include "lib/core/stream/task.h"
#include "lib/core/memory/memory.h"
#include "lib/core/queue/fault.h"

#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/page_guard.h"
#include "lib/core/base/section.h"
#include "lib/core/memory/hold.h"
#include "lib/core/queue/wait.h"
#include "lib/core/stream/guard.h"
#include "lib/core/stream/stopped.h"

#include <new>

namespace usdma::core {

/* ---- tokens ----------------------------------------------------------------------------------------- */

struct call_token {
	u32 refs = 1; /* the task's and, once it is delivered, the callee's */
	u32 done = 0;
};

static void token_unref(call_token *t)
{
	if (t && fetch_sub_acq_rel(&t->refs, 1) == 1)
		delete t;
}

void call_done(call_token *t)
{
	if (!t)
		return;
	if (race_on())
		race().call_event(race_event::call_done, t, 0);
	store_release(&t->done, 1u);
	token_unref(t);
	progress_kick();
}

/* ---- running ---------------------------------------------------------------------------------------- */

/* All earlier requests in the ring have ended. */
static bool all_before(const stream *s)
{
	return hwq_done(s->ln, s->last);
}

static outcome run_request(stream *s, task &t)
{
	return stream_post(s, &t.req, 1) ? outcome::done : outcome::later;
}

static void finish_check(task &t)
{
	if (t.release)
		t.release(t.arg);
	t.release = nullptr;
}

/* An expired gate opens and sets the stream's error. */
static bool gate_expired(stream *s, const task &t)
{
	if (!t.until.passed())
		return false;
	stream_note_error(s, ETIME, dma::fault_reason::timeout, 0, t.op);
	return true;
}

static void finish_event(task &t)
{
	record_unref(t.rec);
	t.rec = nullptr;
	if (t.ev && t.kind == task_kind::gate_event)
		fetch_sub_acq_rel(&t.ev->waits, 1);
	event_unref(t.ev);
	t.ev = nullptr;
}

/* The work before the record may never complete: readers behind the gate need an error. */
static bool gate_lost(stream *s, const task &t)
{
	if (!record_lost(t.rec))
		return false;
	stream_note_error(s, EIO, dma::fault_reason::lost, 0, t.op);
	return true;
}

static outcome run_gate_event(stream *s, task &t)
{
	const bool reached = record_passed(t.rec) && !record_is_behind_failure(t.rec);

	if (!reached && !gate_lost(s, t) && !gate_expired(s, t))
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
				  0, t.op);
	finish_check(t);
	return outcome::done;
}

/*
 * With interrupt coalescing a NOP requests the interrupt for the progress thread, and the device delays it as
 * configured. If the ring is full, or the device holds what nothing is armed for (timing late), the progress thread
 * arms an interrupt instead.
 */
static bool post_marker(stream *s)
{
	dma::request q;

	if (config_get().coalesce_count <= 1 || hwq_done(s->ln, s->last) || s->dev->timing >= check_timing::late)
		return false;
	q.op = dma::opcode::nop;
	q.flags = dma::flag_interrupt;
	q.cookie = cookie_of(s, stream_number(s));
	return stream_post(s, &q, 1) == 1;
}

static outcome run_call(stream *s, task &t)
{
	if (!t.block) {
		const bool marked = post_marker(s);

		if (t.mark)
			stream_mark_reached(s, t.mark);
		return progress_add_call(s, s->last, marked, t) ? outcome::later : outcome::done;
	}
	if (!t.delivered) {
		/* Also after earlier non-blocking calls, which the progress thread delivers. */
		if (!all_before(s) || load_acquire(&s->pending_calls))
			return outcome::later;
		t.delivered = true;
		fetch_add_relaxed(&t.token->refs, 1);
		if (t.mark)
			stream_mark_reached(s, t.mark);
		stream_mark_end(std::exchange(t.mark, nullptr));
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
	if (!record_start(t.rec, s))
		return outcome::later;
	finish_event(t);
	return outcome::done;
}

outcome run_task(stream *s, task &t)
{
	s->running = t.op;
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
	finish_event(t);
	finish_check(t);
	/* An accepted call is always delivered, so that its argument is freed. */
	if (accepted && t.deliver && !t.delivered) {
		stream_mark_end(t.mark);
		t.deliver(t.arg, nullptr);
	}
	token_unref(t.token);
	t.token = nullptr;
}

/* Not delivered here, under the lock: by the progress thread, after the calls of the stream that it has. */
static bool pass_to_progress(stream *s, task &t)
{
	if (!t.deliver || t.delivered)
		return false;
	t.delivered = progress_add_call(s, 0, false, t) == 0;
	return t.delivered;
}

/* Removes the first task. */
static void queue_pop(stream *s)
{
	const queued *q = s->queue;

	s->queue = q->next;
	/* Release, as the next: a reader that sees it removed sees what it posted. */
	store_release(&s->front, s->queue ? s->queue->t.number : ~u64(0));
	fetch_add_release(&gated_left, 1);
	delete q;
}

/* Release: a reader that sees gated clear sees the stream's last number. */
static void queue_emptied(stream *s)
{
	store_release(&s->gated, u16(s->gated & ~gate_queue));
}

void stream_drop_queue(stream *s)
{
	const bool any = s->queue;
	bool passed = false;

	for (const queued *q = s->queue; q; q = s->queue) {
		task &t = s->queue->t;

		passed |= pass_to_progress(s, t);
		if (t.kind == task_kind::record)
			record_drop(t.rec, s, t.op);
		drop_task(t, true);
		queue_pop(s);
	}
	queue_emptied(s);
	if (passed)
		progress_kick();
	if (any)
		progress_note();
}

/* ---- queueing --------------------------------------------------------------------------------------- */

static void queue_append(stream *s, queued *q)
{
	q->t.number = progress_number();
	if (!s->queue)
		store_release(&s->front, q->t.number);
	(s->queue ? s->queue_end->next : s->queue) = q;
	s->queue_end = q;
	store_relaxed(&s->gated, u16(s->gated | gate_queue));
}

/* With the hardware queue's lock held; on error the caller still has to drop_task(). */
static int enqueue(stream *s, task &t)
{
	auto *q = new (std::nothrow) queued{std::move(t)};
	const int err = !q ? no_memory("work behind a gate") : queue_waits(s) ? 0 : progress_add(s);

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

/* Numbers a task that is accepted: a request with its call's operation, a call with the next one. */
static void number_task(stream *s, task &t, const op_numbers *numbers)
{
	t.op = stream_number(s) + 1;
	if (!numbers)
		return;
	t.op = numbers->first + numbers->at + (t.req.cookie >> dma::cookie_owner_bits);
	t.req.cookie = cookie_of(s, t.op);
}

/* Takes over the list. Once it is in the queue, a free of the memory waits for it. */
static int append_all(stream *s, queued **first, const lookups *found, op_numbers *numbers)
{
	const read_section in;

	if (unlikely(!in))
		return in.error();
	if (found && !found->are_current())
		return stale;
	if (numbers)
		stream_number_call(s, numbers);
	while (queued *q = *first) {
		*first = q->next;
		q->next = nullptr;
		number_task(s, q->t, numbers);
		if (q->t.mark)
			stream_mark_gated(s, q->t.mark);
		queue_append(s, q);
	}
	return 0;
}

/* Until one has to wait. */
static bool run_queue(stream *s)
{
	bool moved = false;

	while (s->queue && run_task(s, s->queue->t) == outcome::done) {
		queue_pop(s);
		moved = true;
		/* A failed gate stopped the stream (failure mode stop). */
		if (load_relaxed(&s->stopped))
			stream_drop_queue(s);
	}
	if (!s->queue)
		queue_emptied(s);
	return moved;
}

int stream_push_all(stream *s, queued *first, const lookups *found, op_numbers *numbers)
{
	hw_queue *l = s->ln;
	int err;

	l->lock.lock();
	const bool waits = queue_waits(s);
	err = stream_refuses(s);
	/* List the stream first, as only that may fail. The progress thread unlists a stream with an empty queue. */
	if (!err && !waits)
		err = progress_add(s);
	if (!err)
		err = append_all(s, &first, found, numbers);
	if (!err && !waits)
		run_queue(s);
	l->lock.unlock();
	queued_delete(first);
	progress_kick();
	return err;
}

/* A blocking call may be delivered at once and stays queued until done: allocate its queue entry first. */
static int push_call(stream *s, task &t)
{
	auto *q = new (std::nothrow) queued{std::move(t)};

	if (q)
		return stream_push_all(s, q);
	drop_task(t, false);
	return no_memory("a call");
}

/* With the hardware queue's lock held. */
static int accept(stream *s, task &t, op_numbers *numbers)
{
	stream_mark *const mark = t.mark;
	const u64 counts = t.kind != task_kind::call;

	number_task(s, t, nullptr);
	if (numbers && numbers->first)
		t.op = numbers->first + numbers->at;
	if (mark)
		stream_mark_gated(s, mark);
	const int err = queue_waits(s) || run_task(s, t) == outcome::later ? enqueue(s, t) : 0;
	if (err && mark)
		stream_mark_unset(s, mark);
	if (!err && numbers)
		stream_number_call(s, numbers);
	else if (!err)
		stream_accept(s, counts);
	return err;
}

int stream_push(stream *s, task &&t, op_numbers *numbers)
{
	hw_queue *l = s->ln;
	int err;

	if (t.block)
		return push_call(s, t);
	l->lock.lock();
	/* Checked under the lock: a failure may stop the stream at any time. */
	err = stream_refuses(s);
	if (!err)
		err = accept(s, t, numbers);
	l->lock.unlock();
	progress_kick();
	if (err)
		drop_task(t, false);
	else if (unlikely(s->dev->timing == check_timing::early))
		stream_complete_early(s);
	return err;
}

/*
 * The hardware queue that a gated stream waits for; valid during a pass of the progress thread. With the lock
 * of the stream's hardware queue held.
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

	l->lock.lock();
	if (dma::halted(l->ch))
		hwq_handle_fault(l);
	if (s->dev->lost() && queue_waits(s)) {
		stream_note_loss(s);
		stream_drop_queue(s);
		moved = true;
	}
	/* Another stream of its owner failed: what it waits for may seem to have come. */
	if (stream_failure(s) && queue_waits(s)) {
		stream_drop_queue(s);
		moved = true;
	}
	moved |= run_queue(s);
	hw_queue *other = waits_for(s);
	l->lock.unlock();
	/* Outside this hardware queue's lock: two queues that wait for each other would deadlock. */
	if (other && dma::halted(other->ch)) {
		hwq_check_fault(other);
		moved |= !dma::halted(other->ch);
	}
	return moved;
}

/* ---- gates and calls -------------------------------------------------------------------------------- */

int stream_wait_check(stream *s, int (*check)(void *arg), void (*release)(void *arg), void *arg, deadline until,
		      const seen_word *seen, u8 by, bool (*uses)(const void *arg, const memory_use &use),
		      op_numbers *numbers)
{
	task t;

	/* One that is refused makes no order, and would hide what comes after it. */
	if (s->order && !stream_refuses(s))
		race().gate(s, seen);
	t.kind = task_kind::gate_check;
	t.check = check;
	t.release = release;
	t.uses = uses;
	t.arg = arg;
	t.until = until;
	t.changed_by = by;
	return stream_push(s, std::move(t), numbers);
}

struct word_gate {
	const void *addr;
	dma::compare cmp;
	u64 value;
};

/* The program may have unmapped the word: -EFAULT. */
static int compare_word(const word_gate &g, const u64 *word)
{
	const void *bad;
	u64 seen = 0;

	if (!page_guarded(
		    {word, sizeof(*word)}, {}, [&] { seen = load_device(word); }, &bad))
		return -EFAULT;
	return dma::compares(g.cmp, seen, g.value);
}

static int word_check(void *arg)
{
	const auto *g = static_cast<const word_gate *>(arg);

	return compare_word(*g, static_cast<const u64 *>(g->addr));
}

/* Looked up each time, as the memory may be freed. */
static int memory_check(void *arg)
{
	const auto *g = static_cast<const word_gate *>(arg);
	const translation p = translate(g->addr);
	const slot_guard dev(p.cls == mem_class::device ? p.slot : max_devices);
	const u64 *word = word_view(p, g->addr, dev.get());
	memory_hold held;

	if (!word)
		return -EFAULT;
	return held.take(p) ? 0 : compare_word(*g, word);
}

static void word_release(void *arg)
{
	delete static_cast<word_gate *>(arg);
}

static int wait_gate(stream *s, int (*check)(void *arg), const word_gate &what, deadline until)
{
	const seen_word seen = {what.addr, what.cmp, what.value, false};
	auto *g = new (std::nothrow) word_gate(what);

	return g ? stream_wait_check(s, check, word_release, g, until, &seen) : no_memory("a wait");
}

int stream_wait_word(stream *s, const u64 *word, dma::compare cmp, u64 value, deadline until)
{
	return wait_gate(s, word_check, {word, cmp, value}, until);
}

int stream_wait_memory(stream *s, const void *addr, dma::compare cmp, u64 value)
{
	return wait_gate(s, memory_check, {addr, cmp, value}, deadline::never());
}

/* A signal of a file has no group: its stream is used. */
static const void *group_of(const stream *s, u64 by)
{
	std::lock_guard guard(s->ln->lock);

	return by ? static_cast<const void *>(s->group) : s;
}

static int push_checked_call(stream *s, task &t)
{
	race_call *const made = s->order ? race().call(s->order, group_of(s, t.by), t.by, t.token) : nullptr;
	const int err = stream_push(s, std::move(t));

	if (made)
		race().call_made(made, !err);
	return err;
}

static bool make_call(task *t, void (*deliver)(void *arg, call_token *done), void *arg, bool block)
{
	t->kind = task_kind::call;
	t->deliver = deliver;
	t->arg = arg;
	t->block = block;
	t->slot.reset(new (std::nothrow) call_slot);
	t->token = block ? new (std::nothrow) call_token : nullptr;
	if (t->slot && (t->token || !block))
		return true;
	drop_task(*t, false);
	return false;
}

int stream_call(stream *s, void (*deliver)(void *arg, call_token *done), void *arg, bool block, u64 by,
		stream_mark *mark)
{
	task t;

	if (!make_call(&t, deliver, arg, block))
		return no_memory("a call");
	t.by = by;
	t.mark = mark;
	return push_checked_call(s, t);
}

int stream_notice(stream *s, void (*deliver)(void *arg, call_token *done), void *arg)
{
	task t;

	if (!make_call(&t, deliver, arg, false))
		return no_memory("a call");
	t.by = by_library;
	return stream_push(s, std::move(t));
}

} // namespace usdma::core
