/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/acl/state.h"
#include "lib/acl/report_thread.h"

#include "lib/core/config.h"

#include <cstdlib>
#include <pthread.h>
#include <vector>

namespace usdma::acl {

inline constexpr size_t max_contexts = 4096;
static constinit core::immortal<core::slab<context, max_contexts>> contexts;
static u64 next_generation;
static s32 default_device = -1;

usdma_tls thread_local constinit thread_state self{};

/* ---- visible devices -------------------------------------------------------------------------------- */

struct visible_set {
	int n = 0; /* or -errno */
	u8 slot[core::max_devices] = {};
};

/* A list "2,0,1": the first entry that is no device, or a repeated one, ends it. */
static void parse_visible(const char *list, int present, visible_set *v)
{
	bool seen[core::max_devices] = {};

	v->n = 0;
	for (const char *at = list; *at;) {
		char *end;
		const long id = strtol(at, &end, 10);

		if (end == at || (*end && *end != ',') || id < 0 || id >= present || seen[id])
			return;
		seen[id] = true;
		v->slot[v->n++] = u8(id);
		at = *end ? end + 1 : end;
	}
}

static visible_set make_visible()
{
	const char *list = core::config_env("ASCEND_RT_VISIBLE_DEVICES");
	visible_set v;

	v.n = core::device_count();
	for (int i = 0; i < v.n; i++)
		v.slot[i] = u8(i);
	if (v.n > 0 && list && *list)
		parse_visible(list, v.n, &v);
	return v;
}

static const visible_set &visible()
{
	static const visible_set v = make_visible();

	return v;
}

int visible_count()
{
	return visible().n;
}

int slot_of(s64 id)
{
	const visible_set &v = visible();

	return id >= 0 && id < v.n ? v.slot[id] : -1;
}

int user_of(unsigned slot)
{
	const visible_set &v = visible();

	for (int i = 0; i < v.n; i++)
		if (v.slot[i] == slot)
			return i;
	return -1;
}

aclError no_device(const char *call, s64 id)
{
	if (visible_count() < 0) /* a bad USDMA_DEVICES: core's text says what is wrong with it */
		return fault(call, ACL_ERROR_RT_INVALID_DEVICEID, "device %lld: the device list cannot be used: %s",
			     static_cast<long long>(id), core::config_get().error.c_str());
	return fault(call, ACL_ERROR_RT_INVALID_DEVICEID, "device %lld does not exist, there are %d",
		     static_cast<long long>(id), visible_count());
}

/* ---- threads ---------------------------------------------------------------------------------------- */

/* The child of a fork has the forking thread's memory; its context must not be used there. */
static void forget_in_child()
{
	self.ctx = nullptr;
}

void set_current(context *c)
{
	static const int watch = pthread_atfork(nullptr, nullptr, forget_in_child);

	(void)watch;
	self.generation = c ? c->generation : 0;
	self.ctx = c;
}

void set_default_device(s32 id)
{
	store_relaxed(&default_device, id);
}

context *current_slow()
{
	const s32 id = load_relaxed(&default_device);

	if (id < 0 || core::forked() || aclrtSetDevice(id))
		return nullptr;
	return self.ctx;
}

aclError no_context(const char *call)
{
	if (core::forked())
		return fault(call, ACL_ERROR_RT_INTERNAL_ERROR,
			     "this process is a fork of one that uses the device, which stays with the parent: call exec first");
	return fault(call, ACL_ERROR_RT_CONTEXT_NULL,
		     "this thread has no context: call aclrtSetDevice or aclrtSetCurrentContext in it first");
}

void note_task()
{
	self.tasks++;
}

/* ---- contexts --------------------------------------------------------------------------------------- */

int context_create(s32 id, bool primary, context **out)
{
	context *c = contexts->get();
	core::stream_options opt;
	int err;

	if (!c)
		return fail(ENOMEM, "%zu contexts are there, there can be no more", max_contexts);
	c->id = id;
	c->primary = primary;
	c->generation = __atomic_add_fetch(&next_generation, 1, __ATOMIC_RELAXED);
	opt.owner = c;
	err = core::device_get(unsigned(slot_of(id)), &c->dev);
	if (!err && (err = core::stream_create(c->dev, opt, &c->deflt)))
		core::device_put(c->dev);
	if (err) {
		contexts->put(c);
		return err;
	}
	contexts->enliven(c);
	*out = c;
	return 0;
}

struct collected {
	const context *c;
	std::vector<core::stream *> streams;
};

static std::vector<core::stream *> streams_of(const context *c)
{
	collected found{c, {}};

	core::stream_each(
		[](core::stream *s, void *arg) {
			auto *f = static_cast<collected *>(arg);

			if (owner_of(s) == f->c)
				f->streams.push_back(s);
		},
		&found);
	return found.streams;
}

void context_destroy(context *c, bool force)
{
	store_release(&c->alive, u64(0));
	/* Threads for which it is current notice that it is another one now. */
	store_relaxed(&c->generation, u64(0));
	for (core::stream *s : streams_of(c)) {
		if (s != c->deflt)
			tell_stream_state(s, ACL_RT_STREAM_STATE_DESTROY_PRE);
		forget_subscriptions(s);
		force ? core::stream_destroy_force(s) : core::stream_destroy(s);
	}
	core::device_put(c->dev);
	contexts->put(c);
}

bool context_valid(const void *handle)
{
	return contexts->holds(handle);
}

/* ---- streams ---------------------------------------------------------------------------------------- */

aclError bad_stream(const char *call, const void *handle)
{
	return fault(call, ACL_ERROR_RT_INVALID_HANDLE, "stream %p is not a live stream: it was destroyed or never was one",
		     handle);
}

aclError foreign_stream(const char *call, const void *handle)
{
	return fault(call, ACL_ERROR_RT_STREAM_CONTEXT, "stream %p belongs to another context than this thread's", handle);
}

aclError get_any_stream(const char *call, aclrtStream handle, core::stream **out)
{
	context *c;

	if (handle) {
		if (unlikely(!stream_live(handle)))
			return bad_stream(call, handle);
		*out = as_stream(handle);
		return ACL_SUCCESS;
	}
	c = current();
	if (unlikely(!c))
		return no_context(call);
	*out = c->deflt;
	return ACL_SUCCESS;
}

aclError get_stream(const char *call, aclrtStream handle, core::stream **out)
{
	context *c;

	if (handle && unlikely(!stream_live(handle)))
		return bad_stream(call, handle);
	c = current();
	if (unlikely(!c))
		return no_context(call);
	*out = handle ? as_stream(handle) : c->deflt;
	if (unlikely(owner_of(*out) != c))
		return foreign_stream(call, handle);
	return ACL_SUCCESS;
}

} // namespace usdma::acl
