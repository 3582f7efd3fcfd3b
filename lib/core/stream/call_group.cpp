/* SPDX-License-Identifier: BSD-3-Clause */
/* Which host functions of a stream are still wanted, and how many run now. */
#include "driver/base/error.h"
#include "lib/core/stream/stream.h"

#include <new>

namespace usdma::core {

struct call_group {
	u32 refs = 1;    /* the stream's until its own last reference, and one for each function; atomic */
	u32 running = 0; /* futex */
	u32 dropped = 0;
};

/* Whose function this thread runs. */
static __thread call_group *running_here;

/* With the hardware queue's lock held. */
static call_group *make(stream *s)
{
	if (!s->group)
		s->group = new (std::nothrow) call_group;
	return s->group;
}

call_group *call_group_of(stream *s)
{
	std::lock_guard guard(s->ln->lock);
	call_group *g = make(s);

	if (g)
		__atomic_add_fetch(&g->refs, 1, __ATOMIC_RELAXED);
	else
		no_memory("a stream's functions");
	return g;
}

void call_group_unref(call_group *g)
{
	if (g && __atomic_sub_fetch(&g->refs, 1, __ATOMIC_ACQ_REL) == 0)
		delete g;
}

static void leave(call_group *g)
{
	/* Who waits sees the last one go; the reference of its function is still ours. */
	if (__atomic_sub_fetch(&g->running, 1, __ATOMIC_SEQ_CST) <= 1 && __atomic_load_n(&g->dropped, __ATOMIC_SEQ_CST))
		futex_wake(&g->running, 1 << 30);
}

bool call_begin(call_group *g)
{
	/*
	 * "It runs", then a look whether it is dropped; call_group_drop() and _wait() do the two the other way
	 * round.
	 */
	__atomic_add_fetch(&g->running, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&g->dropped, __ATOMIC_SEQ_CST)) {
		running_here = g;
		return true;
	}
	leave(g);
	return false;
}

void call_end(call_group *g)
{
	running_here = nullptr;
	leave(g);
}

void call_group_drop(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	if (call_group *g = make(s))
		__atomic_store_n(&g->dropped, 1u, __ATOMIC_SEQ_CST);
}

/* Stays while the caller holds its stream, be that ended or not. */
static call_group *made(stream *s)
{
	std::lock_guard guard(s->ln->lock);

	return s->group;
}

int call_group_wait(stream *s, deadline until)
{
	call_group *g = made(s);
	/* The very one that destroys its stream is not waited for. */
	const u32 own = g && running_here == g;

	for (u32 n; g && (n = __atomic_load_n(&g->running, __ATOMIC_SEQ_CST)) > own;) {
		if (until.passed())
			return fail(ETIMEDOUT, "stream %u is ended, but a host function of it still runs", s->id);
		futex_wait_until(&g->running, n, until.at());
	}
	return 0;
}

} // namespace usdma::core
