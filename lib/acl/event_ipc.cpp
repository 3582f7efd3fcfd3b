/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events shared by processes: two counters in a shared page. A record takes the next number;
 * when its stream reaches it, that number is reached. The process that takes a number owes
 * it (share_join): if it exits first, waiters get an error instead of waiting forever.
 */
#include "lib/acl/event.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <mutex>
#include <new>

namespace usdma::acl {

enum shared_word { word_recorded = 0, word_reached = 1 };

static u64 *word_of(core::share *s, shared_word w)
{
	return &s->page->words[w];
}

/* Called when no call uses the event any more. */
static void unshare_event(core::event *e)
{
	core::share_unref(share_of(e));
}

static void attach(core::event *e, core::share *share)
{
	e->ended = unshare_event;
	store_release(&e->user[word_shared], reinterpret_cast<u64>(share));
}

int share_event(core::event *e)
{
	core::share *s;
	int err = core::share_export({core::share_kind::event, true}, false, &s);

	if (err)
		return err;
	err = core::share_join(s);
	if (err)
		core::share_unref(s);
	else
		attach(e, s);
	return err;
}

/* A step of a stream, with a reference to its shared page. */
struct shared_step {
	core::share *share;
	u64 number;
	u32 polls = 0;
};

static void step_done(void *arg)
{
	auto *step = static_cast<shared_step *>(arg);

	core::share_unref(step->share);
	delete step;
}

static int reach(void *arg)
{
	const auto *step = static_cast<shared_step *>(arg);
	u64 *word = word_of(step->share, word_reached);
	u64 now = load_acquire(word);

	/* Records of several streams may complete in any order: the greatest number counts. */
	while (now < step->number && !cmpxchg_acq_rel(word, &now, step->number))
		;
	return 1;
}

/* If the number was withdrawn, the record before it counts. */
static bool has_reached(core::share *share, u64 number)
{
	const u64 wanted = std::min(number, load_acquire(word_of(share, word_recorded)));

	return load_acquire(word_of(share, word_reached)) >= wanted;
}

/*
 * True if the number can no longer be reached. Call rarely: needs a system call or more. It may have been reached
 * just before its process exited.
 */
static bool never_comes(core::share *share, u64 number)
{
	return !core::share_owed_by(share, number) && !has_reached(share, number);
}

/* Polled at least every 200 us. */
static int is_reached(void *arg)
{
	auto *step = static_cast<shared_step *>(arg);

	if (has_reached(step->share, step->number))
		return 1;
	return ++step->polls % 64 == 0 && never_comes(step->share, step->number) ? -EOWNERDEAD : 0;
}

static int push(core::stream *s, core::share *share, u64 number, int (*check)(void *), deadline until)
{
	auto *step = new (std::nothrow) shared_step{share, number};

	if (!step)
		return no_memory("a shared event's step");
	core::share_ref(share);
	return core::stream_wait_check(s, check, step_done, step, until, nullptr, core::changed_by_others);
}

/* Serialises the records of a process: the owed number only grows. */
static std::mutex number_lock;

/* before: the number owed until then. */
static u64 take_number(core::share *s, u64 *before)
{
	std::lock_guard guard(number_lock);
	u64 *owed = &s->page->owed[s->index];

	*before = load_relaxed(owed);
	/* Set before the number is visible: another process must never find a number without an owner. */
	store_seq_cst(owed, ~u64(0));
	const u64 number = fetch_add_seq_cst(word_of(s, word_recorded), 1) + 1;
	store_release(owed, number);
	return number;
}

/* Withdraws a number that will not be reached, unless a later record covers it. */
static void give_number_back(core::share *s, u64 number, u64 before)
{
	std::lock_guard guard(number_lock);
	u64 *owed = &s->page->owed[s->index];
	u64 recorded = number;

	cmpxchg_acq_rel(word_of(s, word_recorded), &recorded, number - 1);
	if (load_relaxed(owed) == number)
		store_release(owed, before);
}

int shared_record(core::event *e, core::stream *s)
{
	core::share *share = share_of(e);
	u64 before;
	const u64 number = take_number(share, &before);
	const int err = push(s, share, number, reach, deadline::never());

	if (err)
		give_number_back(share, number, before);
	return err;
}

int shared_wait(core::event *e, core::stream *s, deadline until)
{
	core::share *share = share_of(e);

	return push(s, share, load_acquire(word_of(share, word_recorded)), is_reached, until);
}

core::event_state shared_query(core::event *e)
{
	core::share *share = share_of(e);
	const u64 recorded = load_acquire(word_of(share, word_recorded));

	if (!recorded)
		return core::event_state::never;
	return load_acquire(word_of(share, word_reached)) >= recorded ? core::event_state::done :
									core::event_state::pending;
}

/* The other process cannot wake this one: polls with increasing intervals. */
int shared_sync(core::event *e, deadline until)
{
	core::share *share = share_of(e);
	const u64 recorded = load_acquire(word_of(share, word_recorded));
	timespec nap = {0, 5000};

	for (u32 polls = 1; !has_reached(share, recorded); polls++) {
		if (polls % 32 == 0 && never_comes(share, recorded))
			return fail(EOWNERDEAD, "the process that recorded the event has ended before it was reached");
		if (until.passed())
			return fail(ETIMEDOUT, "the event was not reached in time");
		nanosleep(&nap, nullptr);
		if (nap.tv_nsec < 500000)
			nap.tv_nsec *= 2;
	}
	return 0;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle)
{
	event_guard e;

	if (!event || !handle)
		return bad_arg(__func__, "event or handle is NULL");
	const aclError err = get_event(__func__, event, &e);
	if (err)
		return err;
	if (!share_of(e))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "event %p is not an Ex event with ACL_EVENT_IPC",
			     event);
	memcpy(handle->reserved, share_of(e)->key, sizeof(handle->reserved));
	return ACL_SUCCESS;
}

aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event)
{
	char key[core::share_key_len + 1] = {};
	core::share *share;
	aclError code;
	int err;

	if (!event)
		return bad_arg(__func__, "event is NULL");
	if (!has_context())
		return no_context(__func__);
	static_assert(sizeof(handle.reserved) == core::share_key_len);
	memcpy(key, handle.reserved, sizeof(handle.reserved));
	err = core::share_import(key, core::share_kind::event, false, &share);
	if (err)
		return core_fault(__func__, err, at::memory);
	err = core::share_join(share);
	if (err) {
		core::share_unref(share);
		return core_fault(__func__, err, at::memory);
	}
	code = create_event(__func__, event, kind_ex, ACL_EVENT_IPC);
	if (code)
		core::share_unref(share);
	else
		attach(as_event(*event), share);
	return code;
}

} // extern "C"
