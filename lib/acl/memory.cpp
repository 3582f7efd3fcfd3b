/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory: allocation, attributes, usage. */
#include "lib/acl/state.h"
#include "lib/core/memory/memory.h"

#include <cstdio>
#include <cstring>

namespace usdma::acl {

/* Up to this size the huge-first policies use normal pages. */
inline constexpr u64 huge_from = MiB;
inline constexpr u64 slack = 32;

static core::page_policy policy_of(u32 policy, u64 size)
{
	switch (policy & 0xff) {
	case ACL_MEM_MALLOC_HUGE_ONLY:
	case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
		return core::page_policy::huge_only;
	case ACL_MEM_MALLOC_NORMAL_ONLY:
	case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
		return core::page_policy::normal_only;
	case ACL_MEM_MALLOC_HUGE1G_ONLY:
	case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
		return core::page_policy::huge1g_only;
	default: /* huge first, and unknown policies */
		return size > huge_from ? core::page_policy::huge_first : core::page_policy::normal_only;
	}
}

static aclError allocate(const char *call, void **out, size_t size, u32 policy, u64 extra)
{
	u64 addr;
	int err;

	if (!out)
		return bad_arg(call, "devPtr is NULL");
	if (!size || size > ~size_t(0) - 64)
		return bad_arg(call, "size %zu is 0 or too large", size);
	const context_guard c;
	if (!c)
		return no_context(call);
	const core::page_policy pages = policy_of(policy, size);
	if (pages == core::page_policy::huge1g_only)
		extra = 0;
	err = core::device_alloc(c->dev, align_up<u64>(size, slack) + extra, pages, &addr);
	if (err)
		return core_fault(call, err, at::memory);
	*out = reinterpret_cast<void *>(addr);
	return ACL_SUCCESS;
}

static aclError check_config(const char *call, const aclrtMallocConfig *cfg)
{
	if (!cfg || !cfg->numAttrs)
		return ACL_SUCCESS;
	if (!cfg->attrs)
		return bad_arg(call, "cfg->attrs is NULL and numAttrs is %zu", cfg->numAttrs);
	for (size_t i = 0; i < cfg->numAttrs; i++) {
		const aclrtMallocAttribute &a = cfg->attrs[i];
		const u32 what = number_in(a.attr);
		const context_guard c;

		if (what == ACL_RT_MEM_ATTR_MODULE_ID ||
		    (what == ACL_RT_MEM_ATTR_DEVICE_ID && c && a.value.deviceId == u32(c->id)))
			continue;
		return fault(call, ACL_ERROR_RT_PARAM_INVALID,
			     "cfg->attrs[%zu]: attribute %u is not for device memory, "
			     "or names another device than the current one",
			     i, what);
	}
	return ACL_SUCCESS;
}

static aclError allocate_with(const char *call, void **out, size_t size, u32 policy, const aclrtMallocConfig *cfg)
{
	if (!out)
		return bad_arg(call, "devPtr is NULL");
	if (!size)
		return bad_arg(call, "size is 0");
	const aclError err = check_config(call, cfg);
	return err ? err : allocate(call, out, size, policy, slack);
}

static aclError release(const char *call, void *ptr)
{
	if (!ptr)
		return bad_arg(call, "devPtr is NULL");
	core::memory_check_free(ptr);
	return check(call, core::device_free(reinterpret_cast<u64>(ptr)), at::memory);
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total)
{
	if (!free || !total)
		return bad_arg(__func__, "free or total is NULL");
	if (attr < ACL_DDR_MEM || attr > ACL_MEM_P2P_HUGE1G)
		return fault(__func__, ACL_ERROR_RT_INVALID_MEMORY_TYPE, "attr %d is unknown", attr);
	const context_guard c;
	if (!c)
		return no_context(__func__);
	/* There is one pool, whatever its pages are called. */
	const core::heap_info h = core::device_heap_info(c->dev);
	*free = h.free;
	*total = h.total;
	return ACL_SUCCESS;
}

aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum, size_t *outputNum)
{
	const int slot = slot_of(deviceId);

	if (!memUsageInfo || !outputNum || !inputNum)
		return bad_arg(__func__, "memUsageInfo or outputNum is NULL, or inputNum is 0");
	if (slot < 0)
		return no_device(__func__, deviceId);
	const core::slot_guard dev{unsigned(slot)};
	memset(memUsageInfo, 0, sizeof(*memUsageInfo));
	snprintf(memUsageInfo->name, sizeof(memUsageInfo->name), "this process");
	if (dev) {
		const core::heap_info h = core::device_heap_info(dev.get());

		memUsageInfo->curMemSize = h.total - h.free;
		memUsageInfo->memPeakSize = h.peak;
	}
	*outputNum = 1;
	return ACL_SUCCESS;
}

aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes)
{
	if (!ptr || !attributes)
		return bad_arg(__func__, "ptr or attributes is NULL");
	if (core::forked())
		return no_context(__func__);
	const core::translation p = core::translate(ptr);
	*attributes = {};
	attributes->pageSize = p.reg ? p.reg->page_size : u32(os_page_size());
	switch (p.cls) {
	case core::mem_class::device:
		if (!p.size)
			return fault(__func__, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
				     "ptr %p is a device address that is not allocated", ptr);
		attributes->location = {u32(user_of(p.slot)), ACL_MEM_LOCATION_TYPE_DEVICE};
		break;
	case core::mem_class::host:
		attributes->location = {0, ACL_MEM_LOCATION_TYPE_HOST};
		break;
	default:
		attributes->location = {0, ACL_MEM_LOCATION_TYPE_UNREGISTERED};
	}
	return ACL_SUCCESS;
}

aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize)
{
	if (!ptr)
		return bad_arg(__func__, "ptr is NULL");
	if (!pbase && !psize)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "pbase and psize are both NULL");
	if (core::forked())
		return no_context(__func__);
	const core::translation p = core::translate(ptr);
	if (!p.size)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "ptr %p is not in a block of this library", ptr);
	if (pbase)
		*pbase = reinterpret_cast<void *>(p.base);
	if (psize)
		*psize = p.size;
	return ACL_SUCCESS;
}

aclError aclrtCheckMemType(void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult, uint32_t reserve)
{
	constexpr u32 valid = ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD;

	if (!addrList || !checkResult || !size)
		return bad_arg(__func__, "addrList or checkResult is NULL, or size is 0");
	if (reserve || !memType || (memType & ~valid))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "reserve is not 0, or memType 0x%x is unknown",
			     memType);
	if (!has_context())
		return no_context(__func__);
	*checkResult = (memType & ACL_RT_MEM_TYPE_DEV) != 0;
	for (u32 i = 0; i < size; i++) {
		const core::translation p = core::translate(addrList[i]);

		if (p.cls != core::mem_class::device || !p.size)
			*checkResult = 0;
	}
	return ACL_SUCCESS;
}

} // extern "C"

#include "lib/acl/calls_memory.h"
