/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of cores. There are none here; programs divide their work by the numbers, limit them, and expect those of
 * the SoC that aclrtGetSocName() names.
 */
#include "lib/acl/cores.h"

#include "driver/base/barrier.h"
#include "lib/acl/state.h"

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

static u32 limit_of(unsigned slot, aclrtDevResLimitType type)
{
	const u32 set = load_relaxed(&limits[slot][type]);

	return set ? set : cores[type];
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
	if (const aclError err = check_type(__func__, type))
		return err;
	if (!value || value > cores[type])
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "value is %u, it must be 1 to %u", value,
			     cores[type]);
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
	*value = limit_of(c->dev->slot, type);
	return ACL_SUCCESS;
}

} // extern "C"
