/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned host memory, and registered host memory of the caller. */
#include "lib/acl/state.h"
#include "lib/core/memory/memory.h"

namespace usdma::acl {

static aclError check_config(const char *call, const aclrtMallocConfig *cfg)
{
	if (!cfg || !cfg->numAttrs)
		return ACL_SUCCESS;
	if (!cfg->attrs)
		return bad_arg(call, "cfg->attrs is NULL and numAttrs is %zu", cfg->numAttrs);
	for (size_t i = 0; i < cfg->numAttrs; i++) {
		const aclrtMallocAttribute &a = cfg->attrs[i];
		const u32 what = number_in(a.attr);

		if (what == ACL_RT_MEM_ATTR_VA_FLAG && a.value.vaFlag == 1)
			return unsupported(call, "cfg->attrs[%zu]: one address for host and device (VA_FLAG 1)", i);
		if (what != ACL_RT_MEM_ATTR_MODULE_ID && what != ACL_RT_MEM_ATTR_VA_FLAG)
			return fault(call, ACL_ERROR_RT_PARAM_INVALID,
				     "cfg->attrs[%zu]: attribute %u is not for host memory", i, what);
	}
	return ACL_SUCCESS;
}

static aclError allocate(const char *call, void **out, u64 size, const aclrtMallocConfig *cfg)
{
	if (!out)
		return bad_arg(call, "hostPtr is NULL");
	if (!size)
		return bad_arg(call, "size is 0");
	const aclError err = check_config(call, cfg);
	if (err)
		return err;
	const context_guard c;
	if (!c)
		return no_context(call);
	return check(call, core::host_alloc_charged(size, -1, out, c->dev), at::memory);
}

static aclError release(const char *call, void *ptr)
{
	if (!ptr)
		return bad_arg(call, "hostPtr is NULL");
	core::memory_check_free(ptr);
	return check(call, core::host_free(ptr), at::memory);
}

/* Ascend's driver refuses other ranges. */
static constexpr u64 register_grain = 4096;

static aclError register_range(const char *call, void *ptr, u64 size, u32 flags)
{
	const u32 how = flags & ACL_HOST_REG_READONLY ? u32(core::host_reg_readonly) : 0;
	int err;

	const context_guard c;
	if (!c)
		return no_context(call);
	if ((reinterpret_cast<u64>(ptr) | size) % register_grain)
		return fault(call, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "ptr %p and size %llu must be multiples of 4096",
			     ptr, static_cast<unsigned long long>(size));
	err = core::host_register(ptr, size, how | core::host_reg_over_pinned | core::host_reg_charged, c->dev, flags);
	if (err == -EEXIST)
		return fault(call, ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "%s", error_text());
	return check(call, err, at::memory);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr)
{
	constexpr u32 valid = ACL_HOST_REGISTER_IOMEMORY | ACL_HOST_REGISTER_READONLY;

	if (!ptr || !devPtr || !size)
		return bad_arg(__func__, "ptr or devPtr is NULL, or size is 0");
	if (u32(type) & ~valid)
		return unsupported(__func__, "type 0x%x: only MAPPED, IOMEMORY and READONLY are supported", u32(type));
	const aclError err = register_range(__func__, ptr, size, u32(type | ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED));
	if (!err)
		*devPtr = ptr; /* one address serves host and device */
	return err;
}

aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag)
{
	constexpr u32 valid = ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED;

	if (!ptr || !size)
		return bad_arg(__func__, "ptr is NULL or size is 0");
	if (!flag || (flag & ~valid))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "flag 0x%x: none, or not one of ACL_HOST_REG_*",
			     flag);
	return register_range(__func__, ptr, size, flag);
}

aclError aclrtHostUnregister(void *ptr)
{
	int err;

	if (!ptr)
		return bad_arg(__func__, "ptr is NULL");
	if (!has_context())
		return no_context(__func__);
	err = core::host_unregister(ptr);
	if (err == -ENOENT)
		return fault(__func__, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
			     "ptr %p is not the start of a registered range", ptr);
	return check(__func__, err, at::memory);
}

} // extern "C"

#include "lib/acl/calls_host.h"
