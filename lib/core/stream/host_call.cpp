/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library's callback threads: each runs the host functions of one context (or of one device, for streams
 * without a context) in sequence, so that a slow function delays its own context only. A thread starts with the
 * first call and exits after an idle period without pending calls.
 */
#include "driver/base/error.h"
#include "driver/base/thread.h"
#include "lib/core/base/slab.h"
#include "lib/core/stream/stream.h"

#include <new>
#include <utility>

namespace usdma::core {

namespace {

struct caller;

struct host_call {
	void (*fn)(void *arg);
	void (*with_status)(void *arg, int status); /* or fn */
	void *arg;
	caller *by;        /* counted in its pending */
	call_group *group; /* a reference */
	call_token *done;
	host_call *next;  /* in calls */
	stream_mark mark; /* with a status */
};

struct caller {
	const void *of;  /* the context or device; may be freed by now and its address reused: the new one shares the
			    thread */
	u32 pending = 0; /* calls that have not run yet; under the lock */
	u32 posted = 0;  /* futex: incremented by each call */
	host_call *calls = nullptr, **end = &calls; /* under the lock */
	caller *next = nullptr;                     /* in the table */
};

struct caller_table {
	std::mutex lock;
	caller *all = nullptr;
};

constinit no_destructor<caller_table> table;

constexpr u64 idle_ns = ns_per_s;

/* Takes all queued calls. */
host_call *take(caller *c)
{
	std::lock_guard guard(table->lock);

	c->end = &c->calls;
	return std::exchange(c->calls, nullptr);
}

void call_it(host_call *call)
{
	if (call->with_status)
		call->with_status(call->arg, stream_mark_result(&call->mark));
	else
		call->fn(call->arg);
}

void run(caller *c, host_call *call)
{
	if (const call_scope wanted(call->group, call->done, reinterpret_cast<u64>(c)); wanted)
		call_it(call);
	else if (call->with_status)
		stream_mark_result(&call->mark);
	call_done(call->done);
	call_group_unref(call->group);
	delete call;
	std::lock_guard guard(table->lock);
	c->pending--;
}

/* Frees the caller if no call is pending. */
bool end_if_idle(caller *c)
{
	std::lock_guard guard(table->lock);

	if (c->pending)
		return false;
	caller **at = &table->all;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	delete c;
	return true;
}

void *thread_main(void *arg)
{
	auto *c = static_cast<caller *>(arg);

	thread_name("usdma-calls");
	for (;;) {
		const u32 seen = load_acquire(&c->posted);
		host_call *now = take(c);

		if (now) {
			while (now)
				run(c, std::exchange(now, now->next));
			continue;
		}
		if (futex_wait_until(&c->posted, seen, now_ns() + idle_ns) == -ETIMEDOUT && end_if_idle(c))
			return nullptr;
	}
}

/* With the lock held. */
int caller_new(const void *of, caller **out)
{
	auto *c = new (std::nothrow) caller{of};

	if (!c)
		return fail(ENOMEM, "no memory for a thread that makes calls");
	const int err = thread_start_detached("usdma-calls", thread_main, c);

	if (err) {
		delete c;
		return err;
	}
	c->next = table->all;
	table->all = c;
	*out = c;
	return 0;
}

/* The thread for a stream's calls; counts one more pending call. */
int caller_get(const stream *s, caller **out)
{
	const void *of = s->opt.owner ? static_cast<const void *>(s->opt.owner) : s->dev;
	std::lock_guard guard(table->lock);
	caller *at = table->all;
	int err = 0;

	while (at && at->of != of)
		at = at->next;
	if (at)
		*out = at;
	else
		err = caller_new(of, out);
	if (!err)
		(*out)->pending++;
	return err;
}

void caller_put(caller *c)
{
	std::lock_guard guard(table->lock);

	c->pending--;
}

void deliver(void *arg, call_token *done)
{
	auto *call = static_cast<host_call *>(arg);
	caller *c = call->by;
	std::lock_guard guard(table->lock);

	call->done = done;
	*c->end = call;
	c->end = &call->next;
	store_release(&c->posted, c->posted + 1);
	futex_wake(&c->posted, 1);
}

int push(stream *s, void (*fn)(void *arg), void (*with_status)(void *arg, int status), void *arg, bool block)
{
	caller *by = nullptr;
	int err = caller_get(s, &by);

	if (err)
		return err;
	call_group *group = call_group_of(s);
	auto *call = group ? new (std::nothrow) host_call{fn, with_status, arg, by, group, nullptr, nullptr, {}} :
			     nullptr;
	err = call ? stream_call(s, deliver, call, block, reinterpret_cast<u64>(by),
				 with_status ? &call->mark : nullptr) :
		     no_memory("a call");
	if (err) {
		delete call;
		call_group_unref(group);
		caller_put(by);
	}
	return err;
}

} // namespace

int stream_host_func(stream *s, void (*fn)(void *arg), void *arg, bool block)
{
	return push(s, fn, nullptr, arg, block);
}

int stream_host_func(stream *s, void (*fn)(void *arg, int status), void *arg, bool block)
{
	return push(s, nullptr, fn, arg, block);
}

} // namespace usdma::core
