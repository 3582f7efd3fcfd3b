/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/acl/event.h"
#include "lib/acl/capture.h"
#include "lib/core/stream/stopped.h"

#include <algorithm>

namespace usdma::acl {

inline constexpr size_t most_events = 65536; /* the core's limit */
inline constexpr u32 flag_bits = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE |
				 ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
inline constexpr u32 ex_bits = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | 0x4 | ACL_EVENT_TIME_LINE |
			       ACL_EVENT_IPC;
inline constexpr u32 alone = ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
/* Other processes or graphs record these: they have neither a time nor a number here. */
inline constexpr u32 of_others = ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
/* Streams can wait only for events that have one of these. */
inline constexpr u32 waitable = ACL_EVENT_SYNC | alone;

static u32 op_wait_s; /* 0: none */
/* Of operators, which do not run here; the most that the milliseconds of aclrtGetOpExecuteTimeout() hold. */
static u64 op_execute_us;
static constexpr u64 execute_interval_us = 1000, most_execute_us = u64(UINT32_MAX) * 1000;

deadline default_wait()
{
	const u32 s = load_relaxed(&op_wait_s);

	return s ? deadline::in_ms(u64(s) * 1000) : deadline::never();
}

aclError get_event(const char *call, aclrtEvent handle, event_guard *out)
{
	if (unlikely(!handle))
		return bad_arg(call, "event is NULL");
	const int err = out->take(handle);
	if (unlikely(err == -EBADF))
		return fault(call, ACL_ERROR_RT_INVALID_HANDLE,
			     "event %p is not a live event: it was destroyed or never was one", handle);
	return likely(!err) ? ACL_SUCCESS : core::forked() ? no_context(call) : core_fault(call, err, at::memory);
}

static bool can_wait(const core::event *e)
{
	return kind_of(e) == kind_default || (flags_of(e) & waitable);
}

static bool has_time(const core::event *e)
{
	return kind_of(e) == kind_default || (flags_of(e) & ACL_EVENT_TIME_LINE);
}

static bool has_flag(const core::event *e, u32 flag)
{
	return kind_of(e) != kind_default && flags_of(e) & flag;
}

/* Kernels alone use such an event. */
static aclError device_only(const char *call, core::event *e)
{
	if (!has_flag(e, ACL_EVENT_DEVICE_USE_ONLY))
		return ACL_SUCCESS;
	return fault(call, ACL_ERROR_RT_PARAM_INVALID, "event %p was made with ACL_EVENT_DEVICE_USE_ONLY",
		     core::event_handle(e));
}

/* ---- creation --------------------------------------------------------------------------------------- */

static u32 core_flags(event_kind kind, u32 flags)
{
	u32 f = 0;

	if (kind == kind_default || (flags & ACL_EVENT_TIME_LINE))
		f |= core::event_timing;
	if (kind == kind_flag && (flags & ACL_EVENT_SYNC))
		f |= core::event_wait_future;
	return f;
}

aclError create_event(const char *call, aclrtEvent *out, event_kind kind, u32 flags)
{
	core::event *e;
	int err;

	const context_guard c;
	if (!c)
		return no_context(call);
	err = core::event_create(c->dev, core_flags(kind, flags), &e);
	if (err == -ENOSPC)
		return fault(call, ACL_ERROR_RT_NO_EVENT_RESOURCE, "%s", error_text());
	if (err)
		return core_fault(call, err, at::memory);
	e->user[word_context] = reinterpret_cast<u64>(context_handle(c.get()));
	e->user[word_flags] = kind << 32 | flags;
	*out = core::event_handle(e);
	return ACL_SUCCESS;
}

static aclError create_checked(const char *call, aclrtEvent *out, event_kind kind, u32 flags, u32 valid)
{
	if (!out)
		return bad_arg(call, "event is NULL");
	if (!flags || (flags & ~valid))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "flag 0x%x: none, or unknown bits", flags);
	if ((flags & alone) && (flags & (flags - 1)))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID,
			     "flag 0x%x: IPC, EXTERNAL and DEVICE_USE_ONLY cannot be combined", flags);
	return create_event(call, out, kind, flags);
}

/* ---- recording and waiting -------------------------------------------------------------------------- */

static aclError record(const char *call, aclrtEvent event, aclrtStream stream, bool external = false)
{
	event_guard e;
	stream_guard s;
	aclError err = get_event(call, event, &e);

	if (!err)
		err = device_only(call, e);
	if (!err)
		err = get_stream(call, stream, &s);
	if (unlikely(err))
		return err;
	/* Of another device's stream: fails there (FAQ "multi_devices_stream_tasks_deliver_fail"); waits may be. */
	if (unlikely(e->dev != s->dev))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "event %p belongs to another device than the stream",
			     event);
	const noted_task task(s);
	const int bad = external || (share_of(e) && captures(s)) ? err_captured :
			share_of(e)                              ? shared_record(e, s) :
								   core::event_record(e, s);
	if (unlikely(bad == err_captured))
		return capture_record(call, s, e, external);
	if (unlikely(!bad && is_captured(e)))
		capture_forget(e);
	return check(call, bad, at::submit);
}

static aclError wait(const char *call, aclrtStream stream, aclrtEvent event, deadline until, bool external = false)
{
	event_guard e;
	stream_guard s;
	aclError err = get_event(call, event, &e);

	if (!err)
		err = device_only(call, e);
	if (!err)
		err = get_stream(call, stream, &s);
	if (unlikely(err))
		return err;
	if (!can_wait(e))
		return unsupported(call, "event %p was made without ACL_EVENT_SYNC: streams cannot wait for it", event);
	const noted_task task(s);
	if ((captures(s) || is_captured(e) || external) && capture_wait(call, s, e, external, &err))
		return err;
	if (share_of(e))
		return check(call, shared_wait(e, s, until), at::submit);
	if (kind_of(e) == kind_default && core::event_query(e) == core::event_state::never)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "event %p was never recorded", event);
	return check(call, core::stream_wait_event(s, e, until), at::submit);
}

/* Events that the host cannot see: those of a capture in progress (107028), and EXTERNAL ones (207000). */
static aclError hidden(const char *call, core::event *e)
{
	if (kind_of(e) == kind_flag && flags_of(e) & ACL_EVENT_EXTERNAL)
		return unsupported(call, "event %p was made with ACL_EVENT_EXTERNAL", core::event_handle(e));
	return is_captured(e) ? event_captured(call, e) : ACL_SUCCESS;
}

/* A failure that has stopped the context of this handle is what the runtime says of all of its events. */
static aclError check_context(const char *call, const void *handle)
{
	aclError failed = ACL_SUCCESS;
	{
		const core::read_section in;

		if (const context *c = in ? context_find(handle) : nullptr)
			failed = context_failure(c);
	}
	return likely(!failed) ? ACL_SUCCESS : fault(call, failed, "a task of the context failed, which stopped it");
}

static aclError check_context(const char *call, const core::event *e)
{
	return check_context(call, reinterpret_cast<const void *>(e->user[word_context]));
}

/* What its stream never comes to is not reached. */
static core::event_state state_of(core::event *e)
{
	const core::event_state state = share_of(e) ? shared_query(e) : core::event_query(e);

	return state == core::event_state::done && core::event_is_behind_failure(e) ? core::event_state::pending :
										      state;
}

static aclError synchronize(const char *call, aclrtEvent event, deadline until)
{
	event_guard e;
	const aclError err = get_event(call, event, &e);
	core::error_list unlisted;
	int bad;

	if (err)
		return err;
	if (const aclError refused = hidden(call, e))
		return refused;
	/*
	 * Wait and error are separate steps: a task may have timed out as well, and its error differs from that of
	 * the caller's deadline.
	 */
	bad = share_of(e) ? shared_sync(e, until) : core::event_wait(e, until);
	if (unlikely(bad == -EDEADLK || (bad == -ETIMEDOUT && !until.is_never())))
		return core_fault(call, bad, at::event);
	if (likely(!bad) && !share_of(e))
		bad = core::event_see_error(e, &unlisted);
	return likely(!bad) ? check_context(call, e) : synchronized(call, e, &unlisted, bad);
}

static aclError time_of(const char *call, aclrtEvent event, core::event *e, u64 *ns)
{
	int bad;

	if (is_captured(e))
		return event_captured(call, e);
	if (has_flag(e, of_others))
		return unsupported(call, "event %p was made with ACL_EVENT_IPC or ACL_EVENT_EXTERNAL", event);
	if (core::event_query(e) != core::event_state::never && !has_time(e))
		return fault(call, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
			     "event %p was made without ACL_EVENT_TIME_LINE", event);
	bad = core::event_time_ns(e, ns);
	if (bad == -ENOENT)
		return fault(call, ACL_ERROR_RT_INTERNAL_ERROR, "event %p: %s", event, error_text());
	if (bad)
		return fault(call, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "event %p: %s", event, error_text());
	return ACL_SUCCESS;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtCreateEvent(aclrtEvent *event)
{
	if (!event)
		return bad_arg(__func__, "event is NULL");
	return create_event(__func__, event, kind_default,
			    ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE | ACL_EVENT_CAPTURE_STREAM_PROGRESS);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
	return create_checked(__func__, event, kind_flag, flag, flag_bits);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
	aclrtEvent made = nullptr;
	const aclError err = create_checked(__func__, event ? &made : nullptr, kind_ex, flag, ex_bits);

	if (err)
		return err;
	const int bad = flag == ACL_EVENT_IPC ? share_event(as_event(made)) : 0;
	if (bad)
		core::event_destroy(as_event(made));
	else
		*event = made;
	return check(__func__, bad, at::memory);
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
	event_guard e;
	const aclError err = get_event(__func__, event, &e);

	return err ? err : check(__func__, core::event_destroy(event), at::submit);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream)
{
	event_guard e;
	stream_guard s;
	aclError err = get_event(__func__, event, &e);

	if (!err)
		err = device_only(__func__, e);
	if (!err)
		err = get_stream(__func__, stream, &s);
	if (err)
		return err;
	if (kind_of(e) == kind_ex || !can_wait(e))
		return unsupported(__func__, "event %p is an Ex event, or was made without ACL_EVENT_SYNC", event);
	const noted_task task(s);
	const int bad = core::event_reset(e, s);
	return bad == err_captured ? capture_reset(__func__, s, e) : check(__func__, bad, at::submit);
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
	event_guard e;

	if (!status)
		return bad_arg(__func__, "status is NULL");
	const aclError err = get_event(__func__, event, &e);
	if (err)
		return err;
	if (const aclError refused = hidden(__func__, e))
		return refused;
	if (const aclError failed = check_context(__func__, e))
		return failed;
	const core::event_state state = state_of(e);
	const bool complete = state == core::event_state::done ||
			      (state == core::event_state::never && kind_of(e) == kind_ex);
	*status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
	return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
	event_guard first, second;
	u64 from = 0, to = 0;
	aclError err;

	if (!ms || !startEvent || !endEvent)
		return bad_arg(__func__, "ms, startEvent or endEvent is NULL");
	err = get_event(__func__, startEvent, &first);
	if (!err)
		err = get_event(__func__, endEvent, &second);
	if (!err)
		err = time_of(__func__, startEvent, first, &from);
	if (!err)
		err = time_of(__func__, endEvent, second, &to);
	if (!err)
		*ms = float(double(s64(to - from)) / 1e6);
	return err;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp)
{
	event_guard e;
	u64 ns = 0;

	if (!timestamp)
		return bad_arg(__func__, "timestamp is NULL");
	aclError err = get_event(__func__, event, &e);
	if (!err)
		err = time_of(__func__, event, e, &ns);
	if (!err)
		*timestamp = ns / ns_per_us;
	return err;
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag)
{
	if (!event || flag > ACL_EVENT_WAIT_EXTERNAL)
		return bad_arg(__func__, "event is NULL, or flag %u is unknown", flag);
	if (flag == ACL_EVENT_WAIT_EXTERNAL && timeout)
		return bad_arg(__func__, "timeout is %u s, with EXTERNAL it must be 0", timeout);
	return wait(__func__, stream, event, timeout ? deadline::in_ms(u64(timeout) * 1000) : deadline::never(),
		    flag == ACL_EVENT_WAIT_EXTERNAL);
}

aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout)
{
	if (!actualTimeout)
		return bad_arg(__func__, "actualTimeout is NULL");
	const u64 us = std::min(timeout, most_execute_us);
	*actualTimeout = (us + execute_interval_us - 1) / execute_interval_us * execute_interval_us;
	store_relaxed(&op_execute_us, *actualTimeout);
	return ACL_SUCCESS;
}

} // extern "C"

#include "lib/acl/calls_event.h"
