/* SPDX-License-Identifier: BSD-3-Clause */
/* Tracks host functions of a stream: dropped or not, how many run, and what they may wait for. */
#include "driver/base/error.h"
#include "lib/core/stream/guard.h"
#include "lib/core/stream/stopped.h"
#include "lib/core/stream/task.h"

#include <iterator>
#include <new>

namespace usdma::core {

struct call_group {
	u32 refs = 1;    /* one for the stream, one for each function; atomic */
	u32 running = 0; /* futex */
	u32 dropped = 0;
};

/* The innermost host function that this thread runs. */
static __thread call_scope *running_here;

/* With the hardware queue's lock held. */
static call_group *make(stream *s)
{
	if (!s->group)
		store_release(&s->group, new (std::nothrow) call_group);
	return s->group;
}

call_group *call_group_of(stream *s)
{
	std::lock_guard guard(s->ln->lock);
	call_group *g = make(s);

	if (g)
		fetch_add_relaxed(&g->refs, 1);
	else
		no_memory("a stream's functions");
	return g;
}

void call_group_unref(call_group *g)
{
	if (g && fetch_sub_acq_rel(&g->refs, 1) == 1)
		delete g;
}

static void leave(call_group *g)
{
	/* Wake call_group_wait(); the function's reference keeps g valid. */
	if (fetch_sub_seq_cst(&g->running, 1) <= 2 && load_seq_cst(&g->dropped))
		futex_wake(&g->running, 1 << 30);
}

call_scope::call_scope(call_group *g, const call_token *done, u64 by)
	: group_(g), done_(done), by_(by), outer_(running_here)
{
	if (race_on())
		race().call_event(race_event::call_starts, g, by);
	/* Store running, then load dropped; call_group_drop() stores dropped, then call_group_wait() loads running. */
	fetch_add_seq_cst(&g->running, 1);
	if (load_seq_cst(&g->dropped)) {
		leave(g);
		group_ = nullptr;
		return;
	}
	running_here = this;
}

call_scope::~call_scope()
{
	if (!group_)
		return;
	running_here = outer_;
	leave(group_);
}

void call_group_drop(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	if (call_group *g = make(s))
		store_seq_cst(&g->dropped, 1u);
}

void call_group_drop_made(const stream *s)
{
	if (call_group *g = load_acquire(&s->group))
		store_seq_cst(&g->dropped, 1u);
}

/* Valid while the caller holds the stream, even if that has ended. */
static call_group *made(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	return s->group;
}

/* ---- waiting within a function ------------------------------------------------------------------------ */

struct call_wait {
	unsigned left = 64; /* bound on the streams visited: streams may wait for each other in a cycle */

	static bool runs_of(const call_group *g)
	{
		const call_scope *c = running_here;

		while (c && c->group_ != g)
			c = c->outer_;
		return c;
	}
	/* This thread runs the call, or is the one that would run it. */
	static bool is_mine(const task &t)
	{
		const call_scope *c = running_here;

		while (c && (!t.block || (c->done_ != t.token && c->by_ != t.by)))
			c = c->outer_;
		return c;
	}
	bool is_for_me(stream *s, const record *until_record);
	bool is_for_me(const record *r);
};

bool call_wait::is_for_me(const record *r)
{
	if (load_acquire(&r->at) != record::queued)
		return false;
	const stream_guard on(load_relaxed(&r->on));

	return on && is_for_me(on, r);
}

bool call_wait::is_for_me(stream *s, const record *until_record)
{
	record *others[16];
	unsigned n = 0;
	bool found = false;

	if (!left)
		return false;
	left--;
	s->ln->lock.lock();
	for (const queued *q = s->queue; q && !found; q = q->next) {
		if (q->t.kind == task_kind::record && q->t.rec == until_record)
			break;
		found = q->t.kind == task_kind::call && is_mine(q->t);
		if (q->t.kind == task_kind::gate_event && n < std::size(others))
			record_ref(others[n++] = q->t.rec);
	}
	s->ln->lock.unlock();
	for (unsigned i = 0; i < n; i++) {
		found = found || is_for_me(others[i]);
		record_unref(others[i]);
	}
	return found;
}

int call_allows_wait(stream *s, const record *until_record)
{
	if (likely(!running_here) || !call_wait().is_for_me(s, until_record))
		return 0;
	return fail(EDEADLK,
		    "a host function or callback waits for stream %u, which waits for that function to return: a host "
		    "function may not wait for its own stream, nor for work behind it",
		    s->id);
}

int call_group_wait(stream *s, deadline until)
{
	call_group *g = made(s);
	/* A function that destroys its own stream is not waited for. */
	const u32 own = g && call_wait::runs_of(g);

	for (u32 n; g && (n = load_seq_cst(&g->running)) > own;) {
		if (until.passed())
			return fail(ETIMEDOUT, "stream %u has ended, but one of its host functions still runs", s->id);
		futex_wait_until(&g->running, n, until.at());
	}
	return 0;
}

} // namespace usdma::core
