/* SPDX-License-Identifier: BSD-3-Clause */
/* Sets, resets and waits for devices; their primary contexts. */
#include "lib/acl/capture.h"
#include "lib/acl/hooks.h"
#include "lib/acl/profile.h"

#include <mutex>

namespace usdma::acl {

struct primary {
	context *ctx = nullptr;
	u64 uses = 0;
};

struct primary_table {
	std::mutex lock; /* held while a device is opened or closed */
	primary of[core::max_devices];
};

static constinit core::no_destructor<primary_table> primaries;
static constinit core::no_destructor<hook_table<aclrtDeviceStateCallback>> state_hooks;
static constinit core::no_destructor<hook_table<aclrtDeviceTaskAbortCallback>> abort_hooks;

context *primary_of(unsigned slot)
{
	/* In a forked child the lock may be held forever by a thread of the parent. */
	if (core::forked())
		return nullptr;
	std::lock_guard guard(primaries->lock);

	return slot < core::max_devices ? primaries->of[slot].ctx : nullptr;
}

static aclError forked_fault(const char *call)
{
	core::fail_forked();
	return fault(call, ACL_ERROR_RT_INTERNAL_ERROR, "%s", error_text());
}

/*
 * Adds a use; the first creates the primary context. Made current under the lock so that it cannot be destroyed
 * before.
 */
static int use_primary(s32 id, unsigned slot)
{
	std::lock_guard guard(primaries->lock);
	primary &p = primaries->of[slot];
	int err = p.ctx ? 0 : refusals_take_effect();

	if (err || (!p.ctx && (err = context_create(id, true, &p.ctx))))
		return err;
	p.uses++;
	set_current_primary(p.ctx);
	return 0;
}

bool use_primary_again(unsigned slot)
{
	if (core::forked())
		return false;
	std::lock_guard guard(primaries->lock);
	context *const c = primaries->of[slot].ctx;

	if (c)
		set_current_primary(c);
	return c;
}

/* Drops a use (or all); *last: the context, if that was the last use. */
static aclError unuse_primary(const char *call, s32 id, unsigned slot, bool all, context **last)
{
	std::lock_guard guard(primaries->lock);
	primary &p = primaries->of[slot];

	*last = nullptr;
	if (!p.uses)
		return fault(call, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "device %d is not set, or was reset already",
			     id);
	if (const int err = p.uses == 1 && !all ? context_allows_end(p.ctx) : 0)
		return core_fault(call, err, at::wait);
	p.uses = all ? 0 : p.uses - 1;
	if (!p.uses)
		std::swap(*last, p.ctx);
	return ACL_SUCCESS;
}

static aclError reset(const char *call, s32 id, bool all)
{
	const int slot = slot_of(id);
	context *last;
	aclError err;

	if (core::forked())
		return forked_fault(call);
	if (slot < 0)
		return no_device(call, id);
	err = unuse_primary(call, id, unsigned(slot), all, &last);
	if (err || !last)
		return err;
	state_hooks->call(id, ACL_RT_DEVICE_STATE_RESET_PRE);
	if (self().ctx == last)
		set_current(nullptr);
	context_destroy(last, all);
	state_hooks->call(id, ACL_RT_DEVICE_STATE_RESET_POST);
	return ACL_SUCCESS;
}

static aclError synchronize(const char *call, deadline until)
{
	core::device_guard dev;
	aclError code = get_device(call, &dev);

	if (!code)
		code = capture_allows_sync(call);
	if (code)
		return code;
	core::error_list unlisted;
	const int late = core::device_sync(dev, until);
	if (late == -EDEADLK || (late == -ETIMEDOUT && !dev->lost()))
		return core_fault(call, late, at::wait);
	/*
	 * A stream's failure is also reported here but stays pending: the stream's own synchronisation must return
	 * it.
	 */
	return synchronized(call, dev, &unlisted, late ? late : core::device_peek_error(dev, &unlisted));
}

static aclError abort_device(const char *call, core::device *dev, deadline until)
{
	const int bad = core::device_abort(dev, deadline::sooner(until, deadline::in_ms(core::config_get().hang_ms)));

	if (until.passed())
		return fault(call, ACL_ERROR_RT_TIMEOUT, "not done in time: %s", bad ? error_text() : "it took longer");
	return check(call, bad, at::task);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtSetDevice(int32_t deviceId)
{
	const int slot = slot_of(deviceId);
	int err;

	if (core::forked())
		return forked_fault(__func__);
	if (slot < 0)
		return no_device(__func__, deviceId);
	const bool opens = !primary_of(unsigned(slot));
	if (opens)
		state_hooks->call(deviceId, ACL_RT_DEVICE_STATE_SET_PRE);
	err = use_primary(deviceId, unsigned(slot));
	if (err)
		return core_fault(__func__, err, at::open);
	if (opens)
		state_hooks->call(deviceId, ACL_RT_DEVICE_STATE_SET_POST);
	return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
	const int n = visible_count();

	if (!count)
		return bad_arg(__func__, "count is NULL");
	if (n < 0 && n != -EINVAL)
		return core_fault(__func__, n, at::memory);
	if (n <= 0)
		return fault(
			__func__, ACL_ERROR_RT_NO_DEVICE, "%s",
			n < 0 ? core::config_get().error.c_str() :
				"no device is configured, or ASCEND_RT_VISIBLE_DEVICES leaves none (its numbers must "
				"ascend)");
	*count = uint32_t(n);
	return ACL_SUCCESS;
}

aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout)
{
	const int slot = slot_of(deviceId);

	if (core::forked())
		return forked_fault(__func__);
	if (slot < 0)
		return no_device(__func__, deviceId);
	const core::slot_guard dev{unsigned(slot)};
	if (!primary_of(unsigned(slot)) || !dev)
		return fault(__func__, ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, "device %d is not set", deviceId);
	const deadline until = timeout ? deadline::in_ms(timeout) : deadline::never();
	hook_table<aclrtDeviceTaskAbortCallback>::short_name who[2];
	const int before = abort_hooks->call_checked(&who[0], deviceId, ACL_RT_DEVICE_TASK_ABORT_PRE, timeout);
	const aclError err = abort_device(__func__, dev.get(), until);
	const int after = abort_hooks->call_checked(&who[1], deviceId, ACL_RT_DEVICE_TASK_ABORT_POST, timeout);
	if (before || after)
		return fault(__func__, ACL_ERROR_RT_INTERNAL_ERROR,
			     "the tasks are aborted, but callback %s returned %d %s it", who[before ? 0 : 1].text,
			     before ? before : after, before ? "before" : "after");
	return err;
}

} // extern "C"

#include "lib/acl/calls_device.h"
