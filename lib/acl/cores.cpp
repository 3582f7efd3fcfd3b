/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of cores. There are none here; programs divide their work by the numbers, limit them, and expect those of
 * the SoC that aclrtGetSocName() names.
 */
#include "driver/base/barrier.h"
#include "lib/acl/profile.h"
#include "lib/acl/state.h"

#include <mutex>

namespace usdma::acl {

/* By aclrtDevResLimitType. */
static constexpr u32 cores[] = {soc_cube_cores, soc_vector_cores};
/* As aclrtSetDeviceResLimit() has set them; 0: all. */
static u32 limits[core::max_devices][std::size(cores)];

static aclError check_type(const char *call, aclrtDevResLimitType type)
{
	return number_in(type) < std::size(cores) ?
		       ACL_SUCCESS :
		       fault(call, ACL_ERROR_RT_PARAM_INVALID, "type %u is unknown", number_in(type));
}

static aclError check_limit(const char *call, aclrtDevResLimitType type, u32 value)
{
	if (const aclError err = check_type(call, type))
		return err;
	return value && value <= cores[type] ?
		       ACL_SUCCESS :
		       fault(call, ACL_ERROR_RT_PARAM_INVALID, "value is %u, it must be 1 to %u", value, cores[type]);
}

static u32 limit_of(unsigned slot, aclrtDevResLimitType type)
{
	const u32 set = load_relaxed(&limits[slot][type]);

	return set ? set : cores[type];
}

/* ---- of a stream: a word of it, with 32 bits a type; 0: the device's ---------------------------------- */

static std::mutex stream_limits; /* held by writers */

static u32 limit_of(const core::stream *s, aclrtDevResLimitType type)
{
	const u32 set = u32(load_relaxed(&s->user[word_limits]) >> 32 * type);

	return set ? set : limit_of(s->dev->slot, type);
}

static void set_limit(core::stream *s, aclrtDevResLimitType type, u32 value)
{
	std::lock_guard guard(stream_limits);
	const u64 others = s->user[word_limits] & ~(u64(~0u) << 32 * type);

	store_relaxed(&s->user[word_limits], others | u64(value) << 32 * type);
}

static aclError take_stream(const char *call, aclrtStream handle, stream_guard *s)
{
	return handle ? get_any_stream(call, handle, s) : bad_arg(call, "stream is NULL");
}

/* Sets the stream whose limits count for this thread. */
static aclError use_limits(const char *call, aclrtStream handle, const void *use)
{
	stream_guard s;

	if (const aclError err = take_stream(call, handle, &s))
		return err;
	const void **mine = stream_of_limits();
	if (!mine)
		return core_fault(call, no_memory("a thread's limits"), at::memory);
	*mine = use;
	return ACL_SUCCESS;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value)
{
	if (!value)
		return bad_arg(__func__, "value is NULL");
	if (number_in(deviceInfo) > ACL_DEVICE_INFO_L2_SIZE)
		return bad_arg(__func__, "deviceInfo %u is unknown", number_in(deviceInfo));
	if (slot_of(deviceId) < 0)
		return no_device(__func__, deviceId);
	if (deviceInfo == ACL_DEVICE_INFO_L2_SIZE)
		return unsupported(__func__, "a copy engine has no L2 cache");
	*value = deviceInfo == ACL_DEVICE_INFO_AI_CORE_NUM ? soc_cube_cores : soc_vector_cores;
	return ACL_SUCCESS;
}

aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value)
{
	const int slot = slot_of(deviceId);

	if (!value)
		return bad_arg(__func__, "value is NULL");
	if (slot < 0)
		return no_device(__func__, deviceId);
	if (const aclError err = check_type(__func__, type))
		return err;
	*value = limit_of(unsigned(slot), type);
	return ACL_SUCCESS;
}

aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value)
{
	const int slot = slot_of(deviceId);

	if (slot < 0)
		return no_device(__func__, deviceId);
	if (const aclError err = check_limit(__func__, type, value))
		return err;
	store_relaxed(&limits[slot][type], value);
	return ACL_SUCCESS;
}

aclError aclrtResetDeviceResLimit(int32_t deviceId)
{
	const int slot = slot_of(deviceId);

	if (slot < 0)
		return no_device(__func__, deviceId);
	for (u32 &limit : limits[slot])
		store_relaxed(&limit, 0u);
	return ACL_SUCCESS;
}

aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value)
{
	if (!value)
		return bad_arg(__func__, "value is NULL");
	if (const aclError err = check_type(__func__, type))
		return err;
	const context_guard c;
	if (!c)
		return no_context(__func__);
	const void *const *mine = stream_of_limits();
	stream_guard s;
	if (mine && *mine && !s.take(*mine))
		*value = limit_of(s, type);
	else
		*value = limit_of(c->dev->slot, type);
	return ACL_SUCCESS;
}

aclError aclrtGetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t *value)
{
	stream_guard s;

	if (!value)
		return bad_arg(__func__, "value is NULL");
	if (const aclError err = take_stream(__func__, stream, &s))
		return err;
	if (const aclError err = check_type(__func__, type))
		return err;
	*value = limit_of(s, type);
	return ACL_SUCCESS;
}

aclError aclrtSetStreamResLimit(aclrtStream stream, aclrtDevResLimitType type, uint32_t value)
{
	stream_guard s;

	if (const aclError err = take_stream(__func__, stream, &s))
		return err;
	if (const aclError err = check_limit(__func__, type, value))
		return err;
	set_limit(s, type, value);
	return ACL_SUCCESS;
}

aclError aclrtResetStreamResLimit(aclrtStream stream)
{
	stream_guard s;

	if (const aclError err = take_stream(__func__, stream, &s))
		return err;
	set_limit(s, ACL_RT_DEV_RES_CUBE_CORE, 0);
	set_limit(s, ACL_RT_DEV_RES_VECTOR_CORE, 0);
	return ACL_SUCCESS;
}

aclError aclrtUseStreamResInCurrentThread(aclrtStream stream)
{
	return use_limits(__func__, stream, stream);
}

aclError aclrtUnuseStreamResInCurrentThread(aclrtStream stream)
{
	return use_limits(__func__, stream, nullptr);
}

aclError aclrtGetGroupCount(uint32_t *count)
{
	if (!count)
		return bad_arg(__func__, "count is NULL");
	*count = 0;
	return ACL_SUCCESS;
}

aclError aclrtCheckArchCompatibility(const char *socVersion, int32_t *canCompatible)
{
	if (!socVersion || !canCompatible)
		return bad_arg(__func__, "socVersion or canCompatible is NULL");
	*canCompatible = !strncmp(socVersion, profile_soc().family, strlen(profile_soc().family));
	return ACL_SUCCESS;
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode)
{
	if (!mode)
		return bad_arg(__func__, "mode is NULL");
	if (!has_context())
		return no_context(__func__);
	*mode = ACL_RT_OVERFLOW_MODE_INFNAN;
	return ACL_SUCCESS;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
	if (number_in(mode) > ACL_RT_OVERFLOW_MODE_INFNAN)
		return bad_arg(__func__, "mode %u is unknown", number_in(mode));
	if (!has_context())
		return no_context(__func__);
	return mode == ACL_RT_OVERFLOW_MODE_INFNAN ?
		       ACL_SUCCESS :
		       unsupported(__func__, "reductions here give infinities: they do not saturate");
}

} // extern "C"
