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

} // extern "C"

#include "lib/acl/calls_cores.h"
