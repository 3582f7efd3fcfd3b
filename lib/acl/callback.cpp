/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Callbacks.  A stream queues a call for its subscribed thread, which runs it in
 * aclrtProcessReport.  Host functions run in a thread of the library unless a thread
 * has subscribed to them.
 */
#include "driver/base/grow.h"
#include "lib/acl/capture.h"
#include "lib/acl/report_thread.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <unordered_map>
#include <utility>

namespace usdma::acl {

struct reporter;

/*
 * Owned by the stream's task until it is delivered, then linked into the thread's queue: delivery allocates
 * nothing.
 */
struct delivery {
	reporter *to;
	void (*fn)(void *arg);
	void *arg;
	core::call_group *group; /* a reference */
	core::call_token *done = nullptr;
	delivery *next = nullptr;
};

/* The queue of one thread. Never freed: a stream may still deliver to it. */
struct reporter {
	u64 thread = 0;
	const core::device *dev = nullptr;
	u64 streams = 0;
	std::mutex lock;
	std::condition_variable some;
	delivery *queue = nullptr, **end = &queue;
};

/* There are two: reports and host functions. */
struct service {
	explicit service(stream_word w) : word(w) {}
	const stream_word word;
	std::mutex lock; /* the table, and the links between streams and reporters */
	std::unordered_map<u64, std::unique_ptr<reporter>> table;
};

struct service_table {
	service of[2] = {service(word_subscription), service(word_host_subscription)};
};

/* 0: reports, 1: host functions. */
static service &service_of(unsigned which)
{
	static core::no_destructor<service_table> services;

	return services->of[which];
}

static reporter *reporter_of(const service &v, const core::stream *s)
{
	return reinterpret_cast<reporter *>(load_acquire(&s->user[v.word]));
}

static reporter *find(service &v, u64 thread)
{
	std::lock_guard guard(v.lock);
	const auto it = v.table.find(thread);

	return it == v.table.end() ? nullptr : it->second.get();
}

/* Caller holds the lock. nullptr: no memory. */
static reporter *find_or_make(service &v, u64 thread)
{
	const auto it = v.table.find(thread);

	if (it != v.table.end())
		return it->second.get();
	std::unique_ptr<reporter> made(new (std::nothrow) reporter);
	if (!made)
		return nullptr;
	made->thread = thread;
	auto *const listed = try_emplace(v.table, thread, std::move(made));
	return listed ? listed->get() : nullptr;
}

/* ---- subscribing ------------------------------------------------------------------------------------ */

static aclError subscribe(const char *call, service &v, u64 thread, aclrtStream handle)
{
	stream_guard s;
	const aclError err = get_stream(call, handle, &s);

	if (err)
		return err;
	std::lock_guard guard(v.lock);
	if (reporter_of(v, s))
		return fault(call, ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %p is subscribed already", handle);
	reporter *r = find_or_make(v, thread);
	if (!r)
		return core_fault(call, no_memory("a thread's subscription"), at::memory);
	if (r->streams && r->dev != s->dev)
		return fault(call, ACL_ERROR_RT_THREAD_SUBSCRIBE, "thread %llu serves streams of another device",
			     static_cast<unsigned long long>(thread));
	r->dev = s->dev;
	fetch_add_relaxed(&r->streams, 1);
	store_release(&s->user[v.word], reinterpret_cast<u64>(r));
	return ACL_SUCCESS;
}

static aclError unsubscribe(const char *call, service &v, u64 thread, aclrtStream handle)
{
	stream_guard s;
	const aclError err = get_stream(call, handle, &s);

	if (err)
		return err;
	std::lock_guard guard(v.lock);
	reporter *r = reporter_of(v, s);
	if (!r)
		return fault(call, ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %p is not subscribed", handle);
	if (r->thread != thread)
		return fault(call, ACL_ERROR_RT_THREAD_SUBSCRIBE, "stream %p is subscribed by another thread", handle);
	fetch_sub_relaxed(&r->streams, 1);
	store_release(&s->user[v.word], u64(0));
	return ACL_SUCCESS;
}

void forget_subscriptions(core::stream *s)
{
	for (unsigned which = 0; which < 2; which++) {
		service &v = service_of(which);
		std::lock_guard guard(v.lock);
		reporter *r = reporter_of(v, s);

		if (r)
			fetch_sub_relaxed(&r->streams, 1);
		store_release(&s->user[v.word], u64(0));
	}
}

/* ---- running ---------------------------------------------------------------------------------------- */

/* Runs in any thread that finds the stream's earlier work completed. */
static void deliver(void *arg, core::call_token *done)
{
	auto *d = static_cast<delivery *>(arg);
	reporter *to = d->to;

	d->done = done;
	to->lock.lock();
	*to->end = d;
	to->end = &d->next;
	to->lock.unlock();
	to->some.notify_one();
}

static int launch(core::stream *s, reporter *to, void (*fn)(void *), void *arg, bool block)
{
	core::call_group *group = core::call_group_of(s);
	auto *d = group ? new (std::nothrow) delivery{to, fn, arg, group} : nullptr;
	const int err = d ? core::stream_call(s, deliver, d, block, to->thread) : no_memory("a callback");

	if (err) {
		delete d;
		core::call_group_unref(group);
	}
	return err;
}

static aclError launch(const char *call, core::stream *s, reporter *to, void (*fn)(void *), void *arg, bool block)
{
	const noted_task task(s);
	return submit(call, s, [=](core::stream *in) { return launch(in, to, fn, arg, block); });
}

/* Takes all queued deliveries; waits for the first. */
static delivery *take(reporter *r, deadline until)
{
	std::unique_lock guard(r->lock);

	while (!r->queue && !until.passed()) {
		const u64 most = 100 * ns_per_ms, left = until.left_ns();

		r->some.wait_for(guard, std::chrono::nanoseconds(left < most ? left : most));
	}
	r->end = &r->queue;
	return std::exchange(r->queue, nullptr);
}

static bool has_work(reporter *r)
{
	std::lock_guard guard(r->lock);

	return load_relaxed(&r->streams) || r->queue;
}

static void run(const delivery *d)
{
	if (const core::call_scope wanted(d->group, d->done, d->to->thread); wanted)
		d->fn(d->arg);
	core::call_done(d->done);
	core::call_group_unref(d->group);
	delete d;
}

static aclError process(const char *call, service &v, s32 timeout)
{
	const no_cancel whole; /* includes the functions called */
	reporter *r;

	if (timeout == 0 || timeout < -1)
		return bad_arg(call, "timeout is %d, it must be -1 or above 0", timeout);
	r = find(v, u64(pthread_self()));
	if (!r || !has_work(r))
		return fault(call, ACL_ERROR_RT_THREAD_SUBSCRIBE, "this thread is not subscribed to a stream");
	delivery *all = take(r, timeout < 0 ? deadline::never() : deadline::in_ms(u64(timeout)));
	if (!all)
		return code_only(ACL_ERROR_RT_REPORT_TIMEOUT);
	while (all)
		run(std::exchange(all, all->next));
	return ACL_SUCCESS;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream)
{
	stream_guard s;
	reporter *to;

	if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK)
		return bad_arg(__func__, "blockType %d is unknown", blockType);
	if (stream && !stream_live(stream))
		return bad_stream(__func__, stream);
	if (!fn)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "fn is NULL");
	const aclError err = get_stream(__func__, stream, &s);
	if (err)
		return err;
	to = reporter_of(service_of(0), s);
	if (!to)
		return fault(__func__, ACL_ERROR_RT_STREAM_NO_CB_REG, "no thread is subscribed to stream %p", stream);
	return launch(__func__, s, to, fn, userData, blockType == ACL_CALLBACK_BLOCK);
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args)
{
	stream_guard s;
	reporter *to;

	if (stream && !stream_live(stream))
		return bad_stream(__func__, stream);
	if (!fn)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "fn is NULL");
	const aclError err = get_stream(__func__, stream, &s);
	if (err)
		return err;
	to = reporter_of(service_of(1), s);
	if (to)
		return launch(__func__, s, to, fn, args, true);
	const noted_task task(s);
	return submit(__func__, s, [=](core::stream *in) { return core::stream_host_func(in, fn, args, true); });
}

} // extern "C"

#include "lib/acl/calls_callback.h"
