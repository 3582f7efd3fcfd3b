/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: creation, destruction, synchronisation, attributes. */
#include "runtime/rt.h"
#include "lib/acl/capture.h"
#include "lib/acl/hooks.h"
#include "lib/acl/report_thread.h"
#include "lib/acl/soc.h"
#include "lib/acl/state.h"
#include "lib/core/config/config.h"
#include "lib/core/stream/stopped.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace usdma::acl {

inline constexpr size_t most_streams = 65536; /* the core's limit */
/* Streams whose synchronisation does not wait: the host does not track their work. */
inline constexpr u32 unwaited = ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;
inline constexpr u32 valid_flags = unwaited | ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_HUGE;

static constinit core::no_destructor<hook_table<aclrtStreamStateCallback>> state_hooks;

void report_stream_state(aclrtStream handle, aclrtStreamState state)
{
	state_hooks->call(handle, state);
}

/* An NPU has about 1984 (FAQ of the runtime: EE1023 beyond). */
static size_t streams_of_profile()
{
	return core::config_get().profile == core::product::none ? most_streams : 1984;
}

static bool profile_is_full()
{
	return streams_of_profile() < most_streams && core::stream_live() >= streams_of_profile();
}

/* A word with two numbers: the tag, and above it the priority, which no stream here is scheduled by. */
static void set_half(u64 *word, unsigned half, u32 value)
{
	u64 now = load_relaxed(word);

	while (!cmpxchg_acq_rel(word, &now, (now & ~(u64(~0u) << 32 * half)) | u64(value) << 32 * half))
		;
}

static u32 half_of(const u64 *word, unsigned half)
{
	return u32(load_relaxed(word) >> 32 * half);
}

static s32 id_of(const core::stream *s)
{
	return s32(s->id & 0x7fffffff);
}

static void set_priority(core::stream *s, u32 priority)
{
	set_half(&s->user[word_tag], 1, std::min(priority, most_priority));
}

static aclError create(const char *call, aclrtStream *out, u32 priority, u32 flags)
{
	core::stream_options opt;
	core::stream *s;
	int err;

	if (!out)
		return bad_arg(call, "stream is NULL");
	const context_guard c;
	if (!c)
		return no_context(call);
	if (profile_is_full())
		return fault(call, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
			     "there are %zu streams, as many as the product of the profile has", core::stream_live());
	opt.owner = c.get();
	opt.flags = flags & valid_flags;
	err = core::stream_create(c->dev, opt, &s);
	if (err == -ENOSPC)
		return fault(call, ACL_ERROR_RT_NO_STREAM_RESOURCE, "%s", error_text());
	if (err)
		return core_fault(call, err, at::memory);
	set_priority(s, priority);
	*out = core::stream_handle(s);
	report_stream_state(*out, ACL_RT_STREAM_STATE_CREATE_POST);
	return ACL_SUCCESS;
}

/* Runs the state callbacks first; they may do anything with the stream. */
static aclError announce_end(const char *call, aclrtStream handle, bool waits)
{
	stream_guard s;
	const aclError err = get_stream(call, handle, &s);

	if (err)
		return err;
	if (s == owner_of(s)->deflt)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID,
			     "stream %p is a context's default stream: it is destroyed with the context", handle);
	if (captures(s))
		return stream_captured(call, s);
	if (const int bad = waits ? core::call_allows_wait(s) : 0)
		return core_fault(call, bad, at::wait);
	s.drop();
	report_stream_state(handle, ACL_RT_STREAM_STATE_DESTROY_PRE);
	if (!s.take(handle))
		forget_subscriptions(s);
	return ACL_SUCCESS;
}

static aclError destroy(const char *call, aclrtStream handle, bool force)
{
	if (!handle)
		return bad_arg(call, "stream is NULL");
	const aclError err = announce_end(call, handle, !force);
	if (err)
		return err;
	if (force)
		capture_abort(handle);
	const int bad = force ? core::stream_destroy_force(handle) : core::stream_destroy(handle);
	if (bad == -EBADF)
		return bad_stream(call, handle);
	if (!core::stream_valid(handle))
		forget_allocator(handle);
	return check(call, bad, at::task);
}

/* Fast path: usually the work has ended, or will within a microsecond, so no reference is taken. */
static bool is_done(aclrtStream handle)
{
	const core::read_section in;
	const context *c = in ? current_now() : nullptr;

	if (!c || (handle && !stream_live(handle)))
		return false;
	return core::stream_spin(handle ? as_stream(handle) : c->deflt);
}

/* Completed work is reported inside the read section; everything else needs a reference, as it may block. */
static inline bool query_quick(aclrtStream stream)
{
	const core::read_section in;

	return in && current_now() && stream_live(stream) && core::stream_is_done(core::stream_of(stream));
}

[[gnu::noinline]] static aclError query_slow(aclrtStream stream, aclrtStreamStatus *status)
{
	stream_guard s;
	aclError err;
	int state;

	err = get_any_stream("aclrtStreamQuery", stream, &s);
	if (err)
		return err;
	if (captures(s))
		return stream_captured("aclrtStreamQuery", s);
	if (const aclError failed = context_failure(owner_of(s)))
		return fault("aclrtStreamQuery", failed, "a task of stream %p's context failed, which stopped it",
			     stream);
	state = s->opt.flags & unwaited ? 0 : core::stream_query(s);
	if (state < 0)
		return core_fault("aclrtStreamQuery", state, at::task);
	*status = state ? ACL_STREAM_STATUS_NOT_READY : ACL_STREAM_STATUS_COMPLETE;
	return ACL_SUCCESS;
}

static aclError synchronize(const char *call, aclrtStream handle, deadline until)
{
	if (likely(is_done(handle)))
		return ACL_SUCCESS;

	stream_guard s;
	const aclError err = get_any_stream(call, handle, &s);
	core::error_list unlisted;
	int bad;

	if (unlikely(err) || (s->opt.flags & unwaited))
		return err;
	if (captures(s))
		return stream_captured(call, s);
	/*
	 * Wait and error are separate steps: a task may have timed out as well, and its error differs from that of
	 * the caller's deadline.
	 */
	bad = core::stream_wait(s, until);
	if (unlikely(bad == -EDEADLK || (bad == -ETIMEDOUT && !until.is_never() && !s->dev->lost())))
		return core_fault(call, bad, at::wait);
	if (likely(!bad))
		bad = core::stream_take_error(s, &unlisted);
	else
		core::stream_list_new(s, &unlisted);
	return synchronized(call, s, &unlisted, bad);
}

static aclError abort_and_wait(const char *call, aclrtStream handle)
{
	stream_guard s;
	const aclError err = get_stream(call, handle, &s);

	if (err)
		return err;
	capture_abort(handle);
	return check(call, core::stream_abort_wait(s, deadline::in_ms(core::config_get().hang_ms)), at::task);
}

/* Documents of aclrtSetStreamFailureMode: streams of a context have one mode; after a failure none accepts work. */
static aclError set_failure_mode(const char *call, const core::stream *s, u64 mode)
{
	const bool stops = s->mode == core::fail_mode::stop;

	if (stops == ((mode & ACL_STOP_ON_FAILURE) != 0))
		return ACL_SUCCESS;
	if (stops)
		return unsupported(call, "a stream that stops on failure cannot be set back to continue");
	if (owner_of(s) != current_now())
		return foreign_stream(call, core::stream_handle(s));
	core::streams_stop_at_failures(owner_of(s));
	return ACL_SUCCESS;
}

static aclError set_attr(const char *call, core::stream *s, aclrtStreamAttr attr, const aclrtStreamAttrValue &v)
{
	switch (attr) {
	case ACL_STREAM_ATTR_FAILURE_MODE:
		if (s == owner_of(s)->deflt)
			return fault(call, ACL_ERROR_RT_PARAM_INVALID, "the default stream has no such attribute");
		return set_failure_mode(call, s, v.failureMode);
	case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
		return v.overflowSwitch ? unsupported(call, "copies do no arithmetic that could overflow") :
					  ACL_SUCCESS;
	case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
		set_half(&s->user[word_tag], 0, v.userCustomTag);
		return ACL_SUCCESS;
	case ACL_STREAM_ATTR_CACHE_OP_INFO:
		store_relaxed(&s->user[word_cache], u64(v.cacheOpInfoSwitch));
		return ACL_SUCCESS;
	case ACL_STREAM_ATTR_PRIORITY:
		set_priority(s, v.streamPriority);
		return ACL_SUCCESS;
	}
	return fault(call, ACL_ERROR_RT_PARAM_INVALID, "attribute %d is unknown", attr);
}

static aclError get_attr(const char *call, const core::stream *s, aclrtStreamAttr attr, aclrtStreamAttrValue *v)
{
	memset(v, 0, sizeof(*v));
	switch (attr) {
	case ACL_STREAM_ATTR_FAILURE_MODE:
		v->failureMode = s->mode == core::fail_mode::stop ? ACL_STOP_ON_FAILURE : ACL_CONTINUE_ON_FAILURE;
		return ACL_SUCCESS;
	case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
		return ACL_SUCCESS;
	case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
		v->userCustomTag = half_of(&s->user[word_tag], 0);
		return ACL_SUCCESS;
	case ACL_STREAM_ATTR_CACHE_OP_INFO:
		v->cacheOpInfoSwitch = u32(load_relaxed(&s->user[word_cache]));
		return ACL_SUCCESS;
	case ACL_STREAM_ATTR_PRIORITY:
		v->streamPriority = half_of(&s->user[word_tag], 1);
		return ACL_SUCCESS;
	}
	return fault(call, ACL_ERROR_RT_PARAM_INVALID, "attribute %d is unknown", attr);
}

/* Reads a number of 4 or 8 bytes; false: another size. */
static bool read_number(const void *from, size_t size, u64 *out)
{
	u32 four;

	if (size == sizeof(u64))
		memcpy(out, from, sizeof(u64));
	else if (size == sizeof(four)) {
		memcpy(&four, from, sizeof(four));
		*out = four;
	}
	return size == sizeof(u64) || size == sizeof(four);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr, const void *attrValue,
				 size_t valueSize)
{
	u64 value;

	if (!handle || !attrValue)
		return bad_arg(__func__, "handle or attrValue is NULL");
	if (!read_number(attrValue, valueSize, &value))
		return bad_arg(__func__, "valueSize is %zu, it must be 4 or 8", valueSize);
	if (attr == ACL_RT_STREAM_FLAG) {
		handle->flag = value;
	} else if (attr == ACL_RT_STREAM_PRIORITY && valueSize == sizeof(u32) && value <= most_priority) {
		handle->priority = u32(value);
	} else if (attr == ACL_RT_STREAM_WORK_ADDR_PTR && valueSize == sizeof(u64)) {
		handle->workptr = reinterpret_cast<void *>(value);
	} else if (attr == ACL_RT_STREAM_WORK_SIZE && valueSize == sizeof(u64)) {
		handle->workSize = value;
	} else {
		return bad_arg(__func__, "attr %d is unknown, or %zu bytes or the value %llu do not fit it", attr,
			       valueSize, static_cast<unsigned long long>(value));
	}
	return ACL_SUCCESS;
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
	if (unlikely(!status))
		return bad_arg(__func__, "status is NULL");
	if (unlikely(!query_quick(stream)))
		return query_slow(stream, status);
	*status = ACL_STREAM_STATUS_COMPLETE;
	return ACL_SUCCESS;
}

aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value)
{
	stream_guard s;

	if (!value)
		return bad_arg(__func__, "value is NULL");
	const aclError err = get_stream(__func__, stream, &s);
	if (!err && captures(s) &&
	    (stmAttrType == ACL_STREAM_ATTR_USER_CUSTOM_TAG || stmAttrType == ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK))
		return stream_captured(__func__, s);
	return err ? err : set_attr(__func__, s, stmAttrType, *value);
}

/* As the attribute: off is what there is. */
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag)
{
	stream_guard s;
	const aclError err = get_any_stream(__func__, stream, &s);
	aclrtStreamAttrValue v{};

	if (!err && captures(s))
		return stream_captured(__func__, s);
	v.overflowSwitch = flag;
	return err ? err : set_attr(__func__, s, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, v);
}

} // extern "C"

#include "lib/acl/calls_stream.h"
