/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/acl/state.h"
#include "lib/acl/report_thread.h"

#include "driver/base/cancel.h"
#include "driver/base/words.h"
#include "lib/core/config/config.h"
#include "lib/core/stream/stopped.h"

#include <cstdlib>
#include <mutex>
#include <pthread.h>
#include <utility>

namespace usdma::acl {

inline constexpr size_t max_contexts = 4096;
static constinit core::no_destructor<core::slab<context, max_contexts, core::handle_kind::context>> contexts;
static u64 next_generation;
static s32 default_device = -1;

/* ---- visible devices -------------------------------------------------------------------------------- */

struct visible_set {
	int n = 0; /* or -errno */
	bool unordered = false;
	u8 slot[core::max_devices] = {};
};

static constexpr const char *visible_name = "ASCEND_RT_VISIBLE_DEVICES";

/*
 * Parsed as by CANN (environment variable reference of CANN 8.5, ASCEND_RT_VISIBLE_DEVICES): decimal numbers
 * separated by commas; parsing stops at another character or at a number that is no device; the numbers must
 * ascend, or no device is visible (gpustack#2527: "must be configured in ascending order", 207004).
 */
static void parse_visible(std::string_view list, int present, visible_set *v)
{
	u64 id;

	v->n = 0;
	while (number_take(&list, &id)) {
		if (id >= unsigned(present))
			return;
		v->unordered |= v->n > 0 && id <= v->slot[v->n - 1];
		if (v->unordered)
			break;
		v->slot[v->n++] = u8(id);
		if (!list.starts_with(','))
			break;
		list.remove_prefix(1);
	}
	if (v->unordered)
		v->n = 0;
}

static visible_set make_visible()
{
	const char *list = core::config_env(visible_name);
	visible_set v;

	v.n = core::device_count();
	for (int i = 0; i < v.n; i++)
		v.slot[i] = u8(i);
	if (v.n > 0 && list)
		parse_visible(list, v.n, &v);
	return v;
}

/* Computed once and cached, except after lack of memory or descriptors. */
static visible_set visible()
{
	static constinit std::mutex lock;
	static constinit core::no_destructor<visible_set> made;
	static u32 cached;

	if (load_acquire(&cached))
		return *made;
	std::lock_guard guard(lock);
	if (!cached) {
		*made = make_visible();
		store_release(&cached, u32(made->n >= 0 || made->n == -EINVAL));
	}
	return *made;
}

int visible_count()
{
	return visible().n;
}

int slot_of(s64 id)
{
	const visible_set v = visible();

	return id >= 0 && id < v.n ? v.slot[id] : -1;
}

int user_of(unsigned slot)
{
	const visible_set v = visible();

	for (int i = 0; i < v.n; i++)
		if (v.slot[i] == slot)
			return i;
	return -1;
}

aclError no_device(const char *call, s64 id)
{
	const int n = visible_count();

	/* Lack of memory or descriptors, which may be over by now. */
	if ((n < 0 && n != -EINVAL) || slot_of(id) >= 0)
		return core_fault(call, n < 0 ? n : no_memory("the settings"), at::memory);
	if (n < 0) /* an invalid USDMA_DEVICES: core's text gives the reason */
		return fault(call, ACL_ERROR_RT_INVALID_DEVICEID, "device %lld: the device list cannot be used: %s",
			     static_cast<long long>(id), core::config_get().error.c_str());
	if (visible().unordered)
		return fault(call, ACL_ERROR_RT_INVALID_DEVICEID,
			     "device %lld is not visible: the numbers in %s must ascend, each once",
			     static_cast<long long>(id), visible_name);
	return fault(call, ACL_ERROR_RT_INVALID_DEVICEID, "device %lld does not exist, there are %d",
		     static_cast<long long>(id), n);
}

/* ---- threads ---------------------------------------------------------------------------------------- */

/* The child of a fork inherits the thread's state; the context must not be used there. */
static void forget_in_child()
{
	self().ctx = nullptr;
}

static void set_current(context *c, u64 generation)
{
	static const int registered = pthread_atfork(nullptr, nullptr, forget_in_child);

	(void)registered;
	self().generation = generation;
	self().ctx = c;
	self().primary = 0;
}

void set_current(context *c)
{
	set_current(c, c ? load_relaxed(&c->generation) : 0);
}

void set_current_primary(context *c)
{
	set_current(c);
	self().primary = u8(c->dev->slot + 1);
}

bool set_current_handle(const void *handle)
{
	context *c = context_find(handle);

	if (!c)
		return false;
	const u64 generation = load_acquire(&c->generation);
	/* The context may have been destroyed and its slot reused in between: then the number is not its own. */
	if (!context_find(handle))
		return false;
	set_current(c, generation);
	return true;
}

void set_default_device(s32 id)
{
	store_relaxed(&default_device, id);
}

context *current_slow()
{
	const s32 id = load_relaxed(&default_device);
	const u8 primary = self().primary;

	if (primary && use_primary_again(primary - 1u))
		return self().ctx;
	if (id < 0 || core::forked() || aclrtSetDevice(id))
		return nullptr;
	return self().ctx;
}

context_guard::context_guard()
{
	do {
		const core::read_section in;

		c_ = in ? current_now() : nullptr;
		if (c_)
			c_->calls.enter();
		self().starved = !in;
		if (c_ || !in)
			return;
	} while (current_slow());
}

aclError no_context(const char *call)
{
	if (core::forked())
		return fault(
			call, ACL_ERROR_RT_INTERNAL_ERROR,
			"this process is a fork of one that uses the device, which stays with the parent: call exec "
			"first");
	if (std::exchange(self().starved, false))
		return core_fault(call, -ENOMEM, at::memory);
	return fault(call, ACL_ERROR_RT_CONTEXT_NULL,
		     "this thread has no context: call aclrtSetDevice or aclrtSetCurrentContext in it first");
}

aclError context_failure(const context *c)
{
	const u32 err = load_acquire(&c->failure);

	return likely(!err) ? ACL_SUCCESS : code_of(-int(err), at::task);
}

/* ---- contexts --------------------------------------------------------------------------------------- */

int context_create(s32 id, bool primary, context **out)
{
	const no_cancel no_exit;
	context *c = contexts->get();
	core::stream_options opt;
	int err;

	if (!c)
		return contexts->fail_full(ENOMEM, "contexts");
	c->id = id;
	c->primary = primary;
	opt.owner = c;
	err = core::device_get(unsigned(slot_of(id)), &c->dev);
	if (!err && (err = core::stream_create(c->dev, opt, &c->deflt)))
		core::device_put(c->dev);
	if (err) {
		contexts->put(c);
		return err;
	}
	/*
	 * Set last: a thread that is about to take the previous context of this slot must not find a
	 * half-initialised one.
	 */
	store_release(&c->generation, fetch_add_relaxed(&next_generation, 1) + 1);
	contexts->publish(c);
	*out = c;
	return 0;
}

static void end_stream(core::stream *s, bool is_default, bool force)
{
	void *handle = core::stream_handle(s);

	if (!is_default)
		report_stream_state(handle, ACL_RT_STREAM_STATE_DESTROY_PRE);
	forget_subscriptions(s);
	force ? core::stream_destroy_force(handle) : core::stream_destroy(handle);
	forget_allocator(handle);
}

static bool owned(const core::stream *s, const void *arg)
{
	return owner_of(s) == arg;
}

int context_allows_end(const context *c)
{
	int err = 0;

	for (size_t at = 0; core::stream *s = err ? nullptr : core::stream_next(&at, owned, c);) {
		err = core::call_allows_wait(s);
		core::stream_unref(s);
	}
	return err;
}

bool context_destroy(context *c, bool force)
{
	const no_cancel no_exit;
	const void *handle = context_handle(c);

	if (!handle || !core::handle_end(c, handle))
		return false;
	/* Threads for which it is current notice that it has changed. */
	store_release(&c->generation, u64(0));
	core::grace_wait();
	c->calls.drain();
	capture_discard(c, force);
	for (size_t at = 0; core::stream *s = core::stream_next(&at, owned, c);) {
		end_stream(s, s == c->deflt, force);
		core::stream_unref(s);
	}
	/* Those that other threads are destroying have it as their owner until they have ended. */
	core::stream_owner_wait(c, force);
	core::device_put(c->dev);
	contexts->put(c);
	return true;
}

context *context_find(const void *handle)
{
	return contexts->find(handle);
}

/* ---- streams ---------------------------------------------------------------------------------------- */

aclError bad_stream(const char *call, const void *handle)
{
	return fault(call, ACL_ERROR_RT_INVALID_HANDLE,
		     "stream %p is not a live stream: it was destroyed or never was one", handle);
}

aclError foreign_stream(const char *call, const void *handle)
{
	return fault(call, ACL_ERROR_RT_STREAM_CONTEXT, "stream %p belongs to another context than this thread's",
		     handle);
}

/* Fails in a child of fork, or without memory for the thread's first call. */
static aclError fail_guard(const char *call, int err)
{
	return core::forked() ? no_context(call) : core_fault(call, err, at::memory);
}

static aclError take_stream(const char *call, aclrtStream handle, stream_guard *out)
{
	const int err = out->take(handle);

	if (unlikely(err && err != -EBADF))
		return fail_guard(call, err);
	/* The library's own streams have no owner. */
	if (unlikely(err || !owner_of(*out)))
		return bad_stream(call, handle);
	return ACL_SUCCESS;
}

static aclError take_default(const char *call, stream_guard *out)
{
	const context_guard c;

	if (unlikely(!c))
		return no_context(call);
	out->take_live(c->deflt);
	return ACL_SUCCESS;
}

aclError get_stream_alone(const char *call, aclrtStream handle, stream_guard *out)
{
	return handle ? take_stream(call, handle, out) : take_default(call, out);
}

aclError get_any_stream(const char *call, aclrtStream handle, stream_guard *out)
{
	const aclError err = get_stream_alone(call, handle, out);

	return likely(err || !handle || has_context()) ? err : no_context(call);
}

aclError get_stream(const char *call, aclrtStream handle, stream_guard *out)
{
	const aclError err = get_any_stream(call, handle, out);

	return unlikely(err) || !handle || likely(owner_of(*out) == current_now()) ? err : foreign_stream(call, handle);
}

aclError get_device(const char *call, core::device_guard *out)
{
	const context_guard c;

	if (!c)
		return no_context(call);
	out->take_live(c->dev);
	return ACL_SUCCESS;
}

} // namespace usdma::acl
