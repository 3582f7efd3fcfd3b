/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/acl/notify.h"

#include "lib/acl/capture.h"
#include "lib/acl/event.h"
#include "driver/base/log.h"

#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace usdma::acl {

inline constexpr size_t max_notifies = 65536;
inline constexpr u32 forever = 0xffffffff;
static constinit core::no_destructor<core::slab<notify, max_notifies, core::handle_kind::notify>> notify_slab;
static u32 next_id;

/* ---- life ------------------------------------------------------------------------------------------- */

static notify *fresh(bool counts)
{
	notify *n = notify_slab->get();

	if (n) {
		n->id = fetch_add_relaxed(&next_id, 1) % max_notifies;
		n->counts = counts;
	}
	return n;
}

/* Unreferenced notifies. The last reference may be dropped under a stream's lock, where nothing can be freed. */
static notify *dying;
static std::mutex dying_lock;

static void end(notify *n)
{
	core::memory_check_reset(n->word);
	if (!n->in_page)
		core::host_free(n->word); /* deferred while an engine may still store there */
	/* A report that is due may hold the page longer. */
	if (n->share)
		core::share_unpin(n->share);
	core::share_unref(n->share);
	notify_slab->put(n);
}

static void put_off(notify *n)
{
	std::lock_guard guard(dying_lock);

	n->next = std::exchange(dying, n);
}

static void reap()
{
	dying_lock.lock();
	notify *now = std::exchange(dying, nullptr);
	dying_lock.unlock();

	/* A page cannot be unmapped later than it is dropped, as other memory can. */
	while (notify *n = now) {
		now = n->next;
		if (n->in_page && core::host_in_use(n->word, sizeof(u64)))
			put_off(n);
		else
			end(n);
	}
}

int notify_create(context *c, bool counts, notify **out)
{
	notify *n;
	void *word;
	int err;

	reap();
	n = fresh(counts);
	if (!n)
		return notify_slab->fail_full(ENOSPC, "notifies");
	err = core::host_alloc(sizeof(u64), -1, &word, c->dev);
	if (err) {
		notify_slab->put(n);
		return err;
	}
	n->word = static_cast<u64 *>(word);
	store_release(n->word, u64(0));
	n->slot = s32(c->dev->slot);
	notify_slab->publish(n);
	*out = n;
	return 0;
}

void notify_unref(notify *n)
{
	if (fetch_sub_acq_rel(&n->refs, 1) != 1)
		return;
	put_off(n);
}

notify *notify_enter(const void *handle)
{
	return notify_slab->ref(handle, notify_unref);
}

aclError get_notify(const char *call, const void *handle, bool counts, notify_guard *out)
{
	if (!handle)
		return bad_arg(call, "notify is NULL");
	if (core::forked())
		return no_context(call);
	if (!out->take(handle) || (*out)->counts != counts)
		return fault(call, ACL_ERROR_RT_INVALID_HANDLE,
			     "%p is not a live %s: it was destroyed or never was one", handle,
			     counts ? "count notify" : "notify");
	return ACL_SUCCESS;
}

/* ---- words ------------------------------------------------------------------------------------------ */

static bool take(u64 *word)
{
	u64 one = 1;

	return cmpxchg_acq_rel(word, &one, u64(0));
}

/* Streams of other processes set the shared word, those of this process n->word, which may be the same. */
static int taken(void *arg)
{
	auto *n = static_cast<notify *>(arg);
	core::share *share = load_acquire(&n->share);
	const bool own = take(n->word);

	return (share && !n->in_page && take(&share->page->words[0])) || own;
}

/* Excludes the first use of a notify's word from its first export, which may replace the word. */
static std::mutex words_lock;

static void use_word(notify *n)
{
	if (likely(load_acquire(&n->used)))
		return;
	std::lock_guard guard(words_lock);
	store_release(&n->used, true);
}

static void clear(notify *n)
{
	std::lock_guard guard(words_lock);
	core::share *share = load_acquire(&n->share);

	core::memory_check_reset(n->word);
	store_release(n->word, u64(0));
	if (share)
		store_release(&share->page->words[0], u64(0));
}

/* A wait holds a reference to the notify until then. */
static void release_now(void *arg)
{
	notify_unref(static_cast<notify *>(arg));
}

/* Without a stream's lock. It has two words: reap() has nothing to check. */
static void unref_outside(notify *n)
{
	if (fetch_sub_acq_rel(&n->refs, 1) == 1)
		end(n);
}

/* Whether the hook is still needed: rings that began to wait before the export. */
static bool waits_for_own_word(notify *n)
{
	static constexpr u64 every_ns = 10 * ns_per_ms;
	const u64 now = now_ns();

	if (now - n->checked_ns < every_ns)
		return true;
	n->checked_ns = now;
	return core::host_in_use(n->word, sizeof(u64));
}

/* A pass_hook. Who exports, or waits, finds it on the list, or the last check here finds the wait. */
static bool forward(void *arg)
{
	auto *n = static_cast<notify *>(arg);

	if (take(&n->share->page->words[0])) {
		store_release(n->word, u64(1));
		core::waits_wake(unsigned(n->slot));
	}
	if (waits_for_own_word(n))
		return true;
	store_fence(&n->forwards, false);
	if (core::host_in_use(n->word, sizeof(u64)) && !exchange_seq_cst(&n->forwards, true))
		return true;
	/* Not left to the next call for a notify, which may not come. */
	unref_outside(n);
	return false;
}

/* Other processes report their records to this one. Called before the word is checked, or an engine is to check it. */
static bool is_reported(notify *n)
{
	if (likely(load_acquire(&n->listens)))
		return core::share_is_reported(n->share);
	const bool reported = core::share_listen(n->share);
	store_release(&n->listens, reported);
	return reported;
}

/*
 * Rings wait for n->word, but other processes set the word in the page: passes store what these record there, until no
 * ring waits for it any more.
 */
static void forward_records(notify *n)
{
	if (exchange_seq_cst(&n->forwards, true))
		return;
	fetch_add_relaxed(&n->refs, 1);
	n->checked_ns = now_ns();
	n->hook = {forward, n, !is_reported(n)};
	/* Does not fail: export_notify() has started the thread. */
	(void)core::progress_hook(&n->hook);
}

/* In the stream's ring, without a time limit. 1: not possible. */
static int wait_in_ring(notify *n, core::stream *s)
{
	const bool shared = load_acquire(&n->share);

	/* There may be two words, and the race check does not see what other processes record. */
	if (shared && (!n->in_page || s->order))
		return 1;
	const bool reported = !shared || is_reported(n);
	/* Before the wait: who stores the word by the CPU sees it. */
	if (reported && !load_relaxed(&n->waited))
		store_fence(&n->waited, true);
	const int err = core::take_value_async(s, n->word, 1, reported);
	/* Exported meanwhile. The post was under a lock that the hook takes for its check. */
	if (!err && !shared && unlikely(load_seq_cst(&n->share) != nullptr))
		forward_records(n);
	return err;
}

int notify_wait(notify *n, core::stream *s, deadline until)
{
	use_word(n);
	if (until.is_never())
		if (const int err = wait_in_ring(n, s); err <= 0)
			return err;
	const core::seen_word seen = {n->word, dma::compare::eq, 1, true};

	fetch_add_relaxed(&n->refs, 1);
	/* The race check does not see the records of other processes. */
	if (load_acquire(&n->share))
		return core::stream_wait_check(s, taken, release_now, n, until, nullptr,
					       is_reported(n) ? core::changed_by_device :
								core::changed_by_device | core::changed_by_others);
	return core::stream_wait_check(s, taken, release_now, n, until, &seen, core::changed_by_device);
}

/* ---- counts ----------------------------------------------------------------------------------------- */

/* One record or wait, executed when its stream reaches it. */
struct count_step {
	notify *n;
	u32 mode, value;
	bool clear;
};

static void step_done(void *arg)
{
	auto *step = static_cast<count_step *>(arg);

	notify_unref(step->n);
	delete step;
}

static u64 changed(u64 now, const count_step &step)
{
	switch (step.mode) {
	case ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE:
		return u32(now + step.value);
	case ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE:
		return now | step.value;
	case ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE:
		return now & step.value;
	default:
		return step.value;
	}
}

static int change(void *arg)
{
	const auto *step = static_cast<count_step *>(arg);
	u64 now = load_acquire(step->n->word);

	while (!cmpxchg_acq_rel(step->n->word, &now, changed(now, *step)))
		;
	if (load_acquire(&step->n->waited))
		core::waits_wake(unsigned(step->n->slot));
	if (step->n->imported)
		core::share_report_later(step->n->share);
	return 1;
}

static bool holds(u64 now, const count_step &step)
{
	switch (step.mode) {
	case ACL_RT_CNT_NOTIFY_WAIT_LESS_MODE:
		return now < step.value;
	case ACL_RT_CNT_NOTIFY_WAIT_EQUAL_MODE:
		return now == step.value;
	case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_MODE:
		return now > step.value;
	case ACL_RT_CNT_NOTIFY_WAIT_BIGGER_OR_EQUAL_MODE:
		return now >= step.value;
	default:
		return (now & step.value) == step.value;
	}
}

static int reached(void *arg)
{
	const auto *step = static_cast<count_step *>(arg);
	u64 now = load_device(step->n->word);

	do {
		if (!holds(now, *step))
			return 0;
		if (!step->clear)
			return 1;
		/* Of two waiters that clear, one takes it. */
	} while (!cmpxchg_acq_rel(step->n->word, &now, u64(0)));
	return 1;
}

static int push_step(core::stream *s, const count_step &what, int (*check)(void *), deadline until)
{
	auto *step = new (std::nothrow) count_step(what);

	if (!step)
		return no_memory("a count notify's step");
	fetch_add_relaxed(&what.n->refs, 1);
	return core::stream_wait_check(s, check, step_done, step, until,
				       check == change ? &core::seen_nothing : nullptr, core::changed_by_library);
}

/* An isolated engine cannot access the word: the host stores it when the stream reaches this step. */
static int record_by_host(notify *n, core::stream *s)
{
	/* A report that is due is made by its thread. */
	int err = n->imported ? core::progress_start() : 0;

	if (!err)
		err = push_step(s, {n, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 1, false}, change, deadline::never());

	if (!err && n->imported)
		core::share_report_now(n->share);
	return err;
}

int notify_record(notify *n, core::stream *s)
{
	use_word(n);
	if (!core::reaches(s->dev, core::translate(n->word)))
		return record_by_host(n, s);
	const int err = core::write_value_async(s, n->word, 1);
	/* The engine that waits is another process's. */
	if (!err && n->imported)
		core::share_report_behind(n->share, s);
	return err;
}

/* 0 and `forever`: as aclrtSetOpWaitTimeout says. */
static deadline wait_limit(u32 timeout_s)
{
	return timeout_s && timeout_s != forever ? deadline::in_ms(u64(timeout_s) * 1000) : default_wait();
}

/* As submit(); a capture retains the notify. */
template <class F> static aclError submit_retaining(const char *call, core::stream *s, notify *n, const F &f)
{
	const auto with = [=](core::stream *in) { return f(n, in); };
	const int err = with(s);

	if (likely(err != err_captured))
		return check(call, err, at::submit);
	fetch_add_relaxed(&n->refs, 1);
	return capture_call(call, s, captured_call(with), {}, {n, release_now});
}

static bool valid_record(u32 mode)
{
	return mode == ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE || mode == ACL_RT_CNT_NOTIFY_RECORD_ADD_MODE ||
	       mode == ACL_RT_CNT_NOTIFY_RECORD_BIT_OR_MODE || mode == ACL_RT_CNT_NOTIFY_RECORD_BIT_AND_MODE;
}

/* Gets both handles of a call. */
static aclError get_both(const char *call, const void *handle, bool counts, aclrtStream stream, notify_guard *n,
			 stream_guard *s)
{
	const aclError err = get_notify(call, handle, counts, n);

	return err ? err : get_stream(call, stream, s);
}

static aclError create(const char *call, void **out, u64 flag, bool counts)
{
	notify *n;
	int err;

	if (!out)
		return bad_arg(call, "notify is NULL");
	if (flag > ACL_NOTIFY_DEVICE_USE_ONLY)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "flag %llu is unknown",
			     static_cast<unsigned long long>(flag));
	const context_guard c;
	if (!c)
		return no_context(call);
	err = notify_create(c.get(), counts, &n);
	if (err == -ENOSPC)
		return fault(call, ACL_ERROR_RT_NO_NOTIFY_RESOURCE, "%s", error_text());
	if (err)
		return core_fault(call, err, at::memory);
	*out = notify_handle(n);
	return ACL_SUCCESS;
}

/* One of several concurrent destroyers succeeds. */
static aclError kill(const char *call, void *handle, bool counts)
{
	notify_guard n;
	const aclError err = get_notify(call, handle, counts, &n);

	if (err)
		return err;
	if (!has_context())
		return no_context(call);
	if (!core::handle_end<notify>(n, handle))
		return fault(call, ACL_ERROR_RT_INVALID_HANDLE, "%p was destroyed just now by another thread", handle);
	notify_unref(n);
	return ACL_SUCCESS;
}

static aclError destroy(const char *call, void *handle, bool counts)
{
	const aclError err = kill(call, handle, counts);

	/* After the call has dropped its own reference. */
	reap();
	return err;
}

/* Where engines of all processes can access it, nothing but the word in the page is needed. */
static void move_word(notify *n, core::share *share)
{
	if (!share->pinned)
		return;
	share->page->words[0] = *n->word;
	core::host_free(std::exchange(n->word, &share->page->words[0]));
	n->in_page = true;
}

/* Creates the page through which other processes set it, at the first export. */
static int export_notify(notify *n, bool open)
{
	std::lock_guard guard(words_lock);
	core::share *share = nullptr;

	if (n->share) {
		if (open)
			store_release(&n->share->page->open, 1u);
		return 0;
	}
	const bool pin = !n->used && !n->counts;
	int err = core::share_export({core::share_kind::notify, open}, pin, &share);
	/* Without pinned memory there are two words. */
	if (err && pin)
		err = core::share_export({core::share_kind::notify, open}, false, &share);
	/* With two words, rings rely on it. After this no forward_records() fails, also none of a wait. */
	if (!err && !share->pinned && (err = core::progress_start()))
		core::share_unref(share);
	/* Without an index there, waits poll. */
	if (!err && core::share_join(share))
		log_debug("a notify's records by other processes are polled");
	if (err)
		return err;
	move_word(n, share);
	store_fence(&n->share, share);
	if (!n->in_page && load_acquire(&n->waited))
		forward_records(n);
	return 0;
}

/* A notify of another process: can only be set. */
static int import_notify(const char *key, notify **out)
{
	core::share *share;
	const int err = core::share_import(key, core::share_kind::notify, true, &share);
	notify *n = err ? nullptr : fresh(false);

	if (err)
		return err;
	if (!n) {
		core::share_unref(share);
		return notify_slab->fail_full(ENOSPC, "notifies");
	}
	n->word = &share->page->words[0];
	n->share = share;
	n->imported = n->in_page = n->used = true;
	notify_slab->publish(n);
	*out = n;
	return 0;
}

static aclError id_of(const char *call, const void *handle, bool counts, uint32_t *id)
{
	notify_guard n;

	if (!id)
		return bad_arg(call, "notifyId is NULL");
	const aclError err = get_notify(call, handle, counts, &n);
	if (!err)
		*id = n->id;
	return err;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag)
{
	return create(__func__, notify, flag, false);
}

aclError aclrtDestroyNotify(aclrtNotify notify)
{
	return destroy(__func__, notify, false);
}

aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream)
{
	notify_guard n;
	stream_guard s;
	const aclError err = get_both(__func__, notify, false, stream, &n, &s);

	if (err)
		return err;
	const noted_task task(s);
	return submit_retaining(__func__, s, n, notify_record);
}

aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout)
{
	notify_guard n;
	stream_guard s;
	const aclError err = get_both(__func__, notify, false, stream, &n, &s);

	if (err)
		return err;
	if (n->slot != s32(s->dev->slot))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID,
			     "notify %p must be waited for on the device that it was created on", notify);
	const noted_task task(s);
	return submit_retaining(__func__, s, n, [=](acl::notify *at, core::stream *in) {
		return notify_wait(at, in, wait_limit(timeout));
	});
}

aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId)
{
	return id_of(__func__, notify, false, notifyId);
}

aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num)
{
	if (!notifies)
		return bad_arg(__func__, "notifies is NULL");
	if (!num)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "num is 0");
	for (size_t i = 0; i < num; i++) {
		notify_guard n;
		const aclError err = get_notify(__func__, notifies[i], false, &n);

		if (err)
			return err;
	}
	for (size_t i = 0; i < num; i++) {
		notify_guard n;

		if (!get_notify(__func__, notifies[i], false, &n))
			clear(n);
	}
	return ACL_SUCCESS;
}

aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags)
{
	notify_guard n;

	if (!notify || !key)
		return bad_arg(__func__, "notify or key is NULL");
	if (len <= core::share_key_len || (flags & ~u64(ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION)))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID,
			     "len is %zu, it must be 65 at least, or flags 0x%llx are unknown", len,
			     static_cast<unsigned long long>(flags));
	const aclError err = get_notify(__func__, notify, false, &n);
	if (err)
		return err;
	if (n->imported)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "notify %p belongs to another process", notify);
	const int bad = export_notify(n, flags & ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION);
	if (!bad)
		memcpy(key, n->share->key, core::share_key_len + 1);
	return check(__func__, bad, at::memory);
}

aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num)
{
	notify_guard n;

	if (!notify || !pid)
		return bad_arg(__func__, "notify or pid is NULL");
	if (!num)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "num is 0");
	const aclError err = get_notify(__func__, notify, false, &n);
	if (err)
		return err;
	if (!n->share)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID,
			     "notify %p has no key yet: aclrtNotifyGetExportKey first", notify);
	return check(__func__, core::share_allow(n->share, pid, num), at::memory);
}

aclError aclrtNotifySetImportPidInterServer(aclrtNotify notify, aclrtServerPid *serverPids, size_t num)
{
	if (!notify || !serverPids)
		return bad_arg(__func__, "notify or serverPids is NULL");
	if (!num)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "num is 0");
	for (size_t i = 0; i < num; i++)
		if (const aclError err = aclrtNotifySetImportPid(notify, serverPids[i].pid, serverPids[i].num))
			return err;
	return ACL_SUCCESS;
}

aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags)
{
	acl::notify *n = nullptr;

	if (!notify || !key)
		return bad_arg(__func__, "notify or key is NULL");
	if (flags & ~u64(ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "flags 0x%llx are unknown",
			     static_cast<unsigned long long>(flags));
	if (!has_context())
		return no_context(__func__);
	const int bad = import_notify(key, &n);
	if (!bad)
		*notify = notify_handle(n);
	return check(__func__, bad, at::memory);
}

aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag)
{
	return create(__func__, cntNotify, flag, true);
}

aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify)
{
	return destroy(__func__, cntNotify, true);
}

aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream, aclrtCntNotifyRecordInfo *info)
{
	notify_guard n;
	stream_guard s;

	if (!info)
		return bad_arg(__func__, "info is NULL");
	const aclError err = get_both(__func__, cntNotify, true, stream, &n, &s);
	if (err)
		return err;
	if (!valid_record(u32(info->mode)))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "info->mode %d is unknown", info->mode);
	const noted_task task(s);
	const count_step step{n, u32(info->mode), info->value, false};
	return submit_retaining(__func__, s, n, [=](acl::notify *, core::stream *in) {
		return push_step(in, step, change, deadline::never());
	});
}

aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream, aclrtCntNotifyWaitInfo *info)
{
	notify_guard n;
	stream_guard s;

	if (!info)
		return bad_arg(__func__, "info is NULL");
	const aclError err = get_both(__func__, cntNotify, true, stream, &n, &s);
	if (err)
		return err;
	if (u32(info->mode) > ACL_RT_CNT_NOTIFY_WAIT_EQUAL_WITH_BITMASK_MODE)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "info->mode %d is unknown", info->mode);
	const noted_task task(s);
	const count_step step{n, u32(info->mode), info->value, info->isClear != 0};
	return submit_retaining(__func__, s, n, [step, timeout = info->timeout](acl::notify *, core::stream *in) {
		return push_step(in, step, reached, wait_limit(timeout));
	});
}

aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream)
{
	notify_guard n;
	stream_guard s;
	const aclError err = get_both(__func__, cntNotify, true, stream, &n, &s);

	if (err)
		return err;
	const noted_task task(s);
	const count_step step{n, ACL_RT_CNT_NOTIFY_RECORD_SET_VALUE_MODE, 0, false};
	return submit_retaining(__func__, s, n, [=](acl::notify *, core::stream *in) {
		return push_step(in, step, change, deadline::never());
	});
}

aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId)
{
	return id_of(__func__, cntNotify, true, notifyId);
}

} // extern "C"
