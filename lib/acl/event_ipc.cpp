/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events shared by processes: two counters in a shared page. A record takes the next number;
 * when its stream reaches it, that number is reached. The process that takes a number owes
 * it (share_join): if it exits first, waiters get an error instead of waiting forever.
 */
#include "lib/acl/event.h"

#include <algorithm>
#include <cstring>
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
	bool waits;
	u64 checked_ns = 0; /* whether the number comes */
};

static void step_done(void *arg)
{
	auto *step = static_cast<shared_step *>(arg);

	if (step->waits)
		core::share_unlisten(step->share);
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
	core::share_report_later(step->share);
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

/* The exit of a process is not reported: checked each 50 ms at least. */
static int is_reached(void *arg)
{
	static constexpr u64 every_ns = 10 * ns_per_ms;
	auto *step = static_cast<shared_step *>(arg);

	if (has_reached(step->share, step->number))
		return 1;
	const u64 now = now_ns();
	if (now - step->checked_ns < every_ns)
		return 0;
	step->checked_ns = now;
	return never_comes(step->share, step->number) ? -EOWNERDEAD : 0;
}

/* Also without an accepted step its wait is over. */
static int push(core::stream *s, const shared_step &what, int (*check)(void *), deadline until, u8 by)
{
	auto *step = new (std::nothrow) shared_step(what);

	if (!step) {
		if (what.waits)
			core::share_unlisten(what.share);
		return no_memory("a shared event's step");
	}
	core::share_ref(step->share);
	return core::stream_wait_check(s, check, step_done, step, until, nullptr, by);
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

	/* A report that is due is made by its thread. */
	if (const int err = core::progress_start())
		return err;
	const u64 number = take_number(share, &before);
	const int err = push(s, {share, number, false}, reach, deadline::never(), core::changed_by_library);

	if (!err) {
		core::share_report_now(share);
		return 0;
	}
	give_number_back(share, number, before);
	core::share_report(share);
	return err;
}

int shared_wait(core::event *e, core::stream *s, deadline until)
{
	core::share *share = share_of(e);
	const u64 number = load_acquire(word_of(share, word_recorded));
	const bool reported = core::share_listen(share);

	return push(s, {share, number, true}, is_reached, until,
		    reported ? core::changed_by_library : core::changed_by_others);
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

/* Sleeps until another process may have recorded, or whether it has exited is due. */
static void sleep_for_record(bool reported, u32 seen, deadline until, u64 *nap_ns)
{
	static constexpr u64 longest = 500 * ns_per_us, reported_ns = 50 * ns_per_ms;

	core::bell_wait(seen, std::min(until.at(), now_ns() + (reported ? reported_ns : *nap_ns)));
	*nap_ns = std::min(2 * *nap_ns, longest);
}

static int wait_for_record(core::share *share, u64 number, bool reported, deadline until)
{
	u64 nap_ns = 5 * ns_per_us, checked_ns = now_ns();

	for (;;) {
		const u32 seen = core::bell_rings();

		if (has_reached(share, number))
			return 0;
		if (until.passed())
			return fail(ETIMEDOUT, "the event was not reached in time");
		sleep_for_record(reported, seen, until, &nap_ns);
		if (now_ns() - checked_ns < 10 * ns_per_ms)
			continue;
		checked_ns = now_ns();
		if (never_comes(share, number))
			return fail(EOWNERDEAD, "the process that recorded the event has ended before it was reached");
	}
}

int shared_sync(core::event *e, deadline until)
{
	core::share *share = share_of(e);
	const u64 number = load_acquire(word_of(share, word_recorded));
	const bool reported = core::share_listen(share);
	const int err = wait_for_record(share, number, reported, until);

	core::share_unlisten(share);
	return err;
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
