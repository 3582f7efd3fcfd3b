/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The C API: many completions of one stream in the caller's io_uring, by one multishot SQE. A set's marks are a list in
 * the stream's order; the first one that has not ended is the one that is signalled.
 */
#include "usdma/uring.h"

#include "lib/core/base/slab.h"
#include "lib/core/stream/ring.h"
#include "lib/native/handles.h"

#include <climits>
#include <liburing.h>
#include <memory>
#include <mutex>
#include <new>
#include <poll.h>
#include <utility>

using namespace usdma;

namespace {

struct entry : core::set_entry {
	u64 user_data = 0;
	entry *next = nullptr;
};

struct alignas(64) completion_set {
	u64 alive = 0;          /* the handle */
	u32 refs = 1;           /* the handle's, and one of each call in progress */
	void *stream = nullptr; /* its handle; may be stale */
	core::set_signals signals;
	std::mutex lock; /* the marks */
	entry *first = nullptr, **end = &first;
	entry *unused = nullptr;
	const entry *awaited = nullptr; /* the device signals its end */

	~completion_set()
	{
		while (entry *e = unused) {
			unused = e->next;
			delete e;
		}
	}
};

} // namespace

static constinit core::slab<completion_set, 4096, core::handle_kind::completion_set> all_sets;

static void unref(completion_set *s)
{
	if (fetch_sub_acq_rel(&s->refs, 1) != 1)
		return;
	core::set_signals_close(&s->signals);
	all_sets.put(s);
}

using set_ref = std::unique_ptr<completion_set, decltype([](completion_set *s) { unref(s); })>;

#define guard_set(name, handle)                                                                                        \
	if (unlikely(core::forked()))                                                                                  \
		return core::fail_forked();                                                                            \
	const set_ref name(all_sets.ref(handle, unref));                                                               \
	if (unlikely(!(name)))                                                                                         \
	return native::fail_guard(__func__, "set of completions", -EBADF)

/* ---- marks: with the set's lock held ------------------------------------------------------------------- */

static entry *take_entry(completion_set *s)
{
	entry *e = s->unused;

	if (e)
		s->unused = e->next;
	else
		e = new (std::nothrow) entry;
	return e;
}

static void give_entry(completion_set *s, entry *e)
{
	e->next = std::exchange(s->unused, e);
}

static void append(completion_set *s, entry *e)
{
	e->next = nullptr;
	*s->end = e;
	s->end = &e->next;
}

static entry *remove_first(completion_set *s)
{
	entry *const e = s->first;

	s->awaited = nullptr;
	s->first = e->next;
	if (!s->first)
		s->end = &s->first;
	return e;
}

static unsigned take_ended(completion_set *s, usdma_completed *out, unsigned n)
{
	unsigned count = 0;

	for (; count < n && s->first; count++) {
		const int err = core::set_result(s->first, nullptr);

		if (err == -EAGAIN)
			break;
		entry *const e = remove_first(s);
		out[count] = {e->user_data, err, 0};
		give_entry(s, e);
	}
	return count;
}

/* The first mark is signalled when it is done. False: it has ended. */
static bool await_first(completion_set *s)
{
	const entry *const e = s->first;

	if (!e)
		core::set_await_nothing(&s->signals);
	/* The thread that delivers its call signals one that is not in the ring. */
	if (!e || e == s->awaited || !e->in_ring)
		return true;
	const core::signalling how = core::set_await(&s->signals, e->mark.seq);
	s->awaited = how == core::signalling::armed ? e : nullptr;
	return how != core::signalling::done;
}

/* The first mark has no result yet. True: it has by now. More of those that a thread delivers may have ended, too. */
static bool poll_first(completion_set *s, bool any)
{
	return s->first && (!any || !s->first->in_ring) && core::set_poll(s->first);
}

/* ---- the calls ------------------------------------------------------------------------------------------ */

int usdma_completion_set_create(usdma_stream *stream, usdma_completion_set **out)
{
	const no_cancel no_exit;

	need_pointer(out);
	*out = nullptr;
	guard_stream(s, stream);
	completion_set *set = all_sets.get();
	if (!set)
		return all_sets.fail_full(ENOMEM, "sets of completions");
	if (const int err = core::set_signals_open(s, &set->signals)) {
		all_sets.put(set);
		return err;
	}
	set->stream = stream;
	all_sets.publish(set);
	*out = reinterpret_cast<usdma_completion_set *>(set->alive);
	return 0;
}

int usdma_completion_set_destroy(usdma_completion_set *handle)
{
	const no_cancel no_exit;

	guard_set(set, handle);
	{
		std::lock_guard guard(set->lock);

		if (set->first)
			return fail(EBUSY, "%s: marks have not been returned by usdma_completion_finish_many",
				    __func__);
		if (!core::handle_end(set.get(), handle))
			return native::fail_guard(__func__, "set of completions", -EBADF);
	}
	unref(set.get());
	return 0;
}

int usdma_prep_completion_set(usdma_completion_set *handle, struct io_uring_sqe *sqe, uint64_t user_data)
{
	guard_set(set, handle);
	need_pointer(sqe);
	*sqe = {};
	io_uring_prep_poll_multishot(sqe, set->signals.fd(), POLLIN);
	sqe->user_data = user_data;
	return 0;
}

static int mark(completion_set *set, const void *handle, core::stream *s, u64 user_data)
{
	std::lock_guard guard(set->lock);

	if (load_acquire(&set->alive) != reinterpret_cast<u64>(handle))
		return native::fail_guard("usdma_completion_mark", "set of completions", -EBADF);
	entry *const e = take_entry(set);

	if (!e)
		return no_memory("a completion's mark");
	if (const int err = core::set_mark(s, &set->signals, e)) {
		give_entry(set, e);
		return err;
	}
	e->user_data = user_data;
	append(set, e);
	/* Ended already: there is a CQE nevertheless. */
	if (set->first == e && !await_first(set))
		core::set_notify(&set->signals);
	return 0;
}

int usdma_completion_mark(usdma_completion_set *handle, uint64_t user_data)
{
	const no_cancel no_exit;

	guard_set(set, handle);
	guard_stream(s, static_cast<usdma_stream *>(set->stream));
	return mark(set.get(), handle, s, user_data);
}

int usdma_completion_finish_many(usdma_completion_set *handle, struct usdma_completed *out, unsigned n)
{
	const no_cancel no_exit;

	guard_set(set, handle);
	need_pointer(out);
	if (!n || n > INT_MAX)
		return fail(EINVAL, "%s: a set for %u marks", __func__, n);
	std::lock_guard guard(set->lock);
	unsigned count = 0;

	core::set_seen(&set->signals);
	do
		count += take_ended(set.get(), out + count, n - count);
	while (count < n && (!await_first(set.get()) || poll_first(set.get(), count)));
	return count ? int(count) : fail(EAGAIN, "%s: no work has ended", __func__);
}
