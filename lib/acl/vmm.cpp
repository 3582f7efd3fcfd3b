/* SPDX-License-Identifier: BSD-3-Clause */
/* Virtual memory management over lib/core/vmm. */
#include "lib/share/vmm.h"
#include "lib/core/memory/memory.h"

#include "lib/acl/state.h"

#include <cstring>

namespace usdma::acl {

/* ---- properties ------------------------------------------------------------------------------------- */

static bool is_1g(aclrtMemAttr a)
{
	return a == ACL_HBM_MEM_HUGE1G || a == ACL_HBM_MEM_P2P_HUGE1G || a == ACL_MEM_HUGE1G || a == ACL_MEM_P2P_HUGE1G;
}

static bool is_ddr(aclrtMemAttr a)
{
	return a == ACL_DDR_MEM_HUGE || a == ACL_DDR_MEM_NORMAL || a == ACL_DDR_MEM_P2P_HUGE ||
	       a == ACL_DDR_MEM_P2P_NORMAL;
}

static bool on_host(const aclrtPhysicalMemProp &p)
{
	return p.location.type == ACL_MEM_LOCATION_TYPE_HOST || p.location.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA;
}

/* nullptr: valid; else the reason why not. */
static const char *fault_in(const aclrtPhysicalMemProp &p)
{
	if (p.handleType != ACL_MEM_HANDLE_TYPE_NONE)
		return "handleType must be NONE";
	if (p.allocationType != ACL_MEM_ALLOCATION_TYPE_PINNED)
		return "allocationType must be PINNED";
	if (!on_host(p) && p.location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
		return "location.type must be DEVICE, HOST or HOST_NUMA";
	if (p.memAttr < ACL_DDR_MEM_HUGE || p.memAttr > ACL_MEM_P2P_HUGE1G || p.memAttr == ACL_HBM_MEM_P2P_HUGE ||
	    p.memAttr == ACL_HBM_MEM_P2P_NORMAL || p.memAttr == ACL_HBM_MEM_P2P_HUGE1G)
		return "memAttr is not one for physical memory";
	if (is_ddr(p.memAttr) && p.location.type == ACL_MEM_LOCATION_TYPE_DEVICE)
		return "DDR memory is the host's";
	/* As the runtime's ACL layer: of host memory these two are accepted, and mean nothing. */
	if (on_host(p) && !is_ddr(p.memAttr) && p.memAttr < ACL_MEM_NORMAL && p.memAttr != ACL_HBM_MEM_HUGE &&
	    p.memAttr != ACL_HBM_MEM_NORMAL)
		return "HBM memory is a device's";
	return nullptr;
}

static aclrtPhysicalMemProp *prop_of(core::physical *p)
{
	return static_cast<aclrtPhysicalMemProp *>(core::physical_user(p, sizeof(aclrtPhysicalMemProp)));
}

using physical_guard = object_guard<core::physical, core::physical_enter, core::physical_leave>;

static aclError get_physical(const char *call, const void *handle, physical_guard *out)
{
	if (core::forked())
		return no_context(call);
	if (!out->take(handle))
		return fault(call, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live handle of physical memory", handle);
	return ACL_SUCCESS;
}

/*
 * The device that owns the memory, or through which host memory is accessed: the first one in threads without a
 * context, as the runtime needs none for it.
 */
static aclError device_of(const char *call, const aclrtPhysicalMemProp &p, core::device **dev)
{
	const context_guard c;
	const s64 id = !on_host(p) ? p.location.id : c ? c->id : 0;
	const int slot = slot_of(id);

	if (slot < 0)
		return no_device(call, id);
	return check(call, core::device_get(unsigned(slot), dev), at::open);
}

static aclError create(const char *call, aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp &prop)
{
	const u64 align = is_1g(prop.memAttr) ? GiB : core::vmm_grain;
	core::physical *p = nullptr;
	core::device *dev = nullptr;
	aclError code = device_of(call, prop, &dev);
	int err;

	if (code)
		return code;
	err = on_host(prop) ?
		      core::physical_host(
			      dev, size,
			      prop.location.type == ACL_MEM_LOCATION_TYPE_HOST_NUMA ? int(prop.location.id) : -1, &p) :
		      core::physical_device(dev, size, align, &p);
	core::device_put(dev); /* the memory holds its own reference */
	if (err)
		return core_fault(call, err, at::memory);
	*prop_of(p) = prop;
	*handle = core::physical_handle(p);
	return ACL_SUCCESS;
}

static aclError reserve(const char *call, void **out, size_t size, size_t alignment, void *expected, u64 flags)
{
	u64 va;

	if (!out || !size || flags > 1)
		return bad_arg(call, "virPtr is NULL, size is 0, or flags 0x%llx are unknown",
			       static_cast<unsigned long long>(flags));
	if (core::forked())
		return no_context(call);
	const int err = core::vmm_reserve(size, alignment, reinterpret_cast<u64>(expected), &va);
	if (!err)
		*out = reinterpret_cast<void *>(va);
	return check(call, err, at::memory);
}

static aclError map(const char *call, void *va, size_t size, size_t offset, aclrtDrvMemHandle handle, u64 flags,
		    bool access)
{
	physical_guard p;

	if (!va || !handle || !size || flags)
		return bad_arg(call, "virPtr or handle is NULL, size is 0, or flags are not");
	const aclError err = get_physical(call, handle, &p);
	if (err)
		return err;
	if (offset)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "offset is %zu, it must be 0", offset);
	return check(call, core::vmm_map(reinterpret_cast<u64>(va), size, p, access), at::memory);
}

static aclError bad_share_type(const char *call, aclrtMemSharedHandleType type)
{
	return fault(call, ACL_ERROR_RT_PARAM_INVALID, "shareType %u is unknown", number_in(type));
}

static aclError export_check(const char *call, aclrtDrvMemHandle handle, u64 flags, physical_guard *p)
{
	if (flags & ~u64(ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "flags 0x%llx are unknown",
			     static_cast<unsigned long long>(flags));
	return get_physical(call, handle, p);
}

static aclError export_number(const char *call, aclrtDrvMemHandle handle, u64 flags, u64 *number)
{
	physical_guard p;
	const aclError err = export_check(call, handle, flags, &p);

	return err ? err : check(call, core::physical_export(p, flags != 0, number), at::memory);
}

static aclError export_fabric(const char *call, aclrtDrvMemHandle handle, u64 flags, void *out)
{
	core::fabric_handle made;
	physical_guard p;

	if (!has_context())
		return no_context(call);
	aclError err = export_check(call, handle, flags, &p);
	if (!err)
		err = check(call, core::physical_export_fabric(p, flags != 0, &made), at::fabric);
	if (!err)
		memcpy(out, &made, sizeof(made));
	return err;
}

/* The caller's 128 bytes have no alignment. */
static core::fabric_handle fabric_in(const void *from)
{
	core::fabric_handle h;

	static_assert(sizeof(h) == sizeof(aclrtMemFabricHandle));
	memcpy(&h, from, sizeof(h));
	return h;
}

static aclError allow_fabric(const char *call, const void *handle, const s32 *pids, size_t n)
{
	const core::fabric_handle h = fabric_in(handle);

	return check(call, core::physical_allow_fabric(&h, pids, n), at::fabric);
}

static aclrtDrvMemHandle finish_import(core::physical *p, s32 id)
{
	aclrtPhysicalMemProp *prop = prop_of(p);
	const bool host = core::physical_on_host(p);

	*prop = {};
	prop->memAttr = host ? ACL_DDR_MEM_NORMAL : ACL_HBM_MEM_HUGE;
	prop->location = {host ? 0 : u32(id), host ? ACL_MEM_LOCATION_TYPE_HOST : ACL_MEM_LOCATION_TYPE_DEVICE};
	return core::physical_handle(p);
}

static aclError import_number(const char *call, u64 number, s32 id, aclrtDrvMemHandle *handle)
{
	const int slot = slot_of(id);
	core::device *dev = nullptr;
	core::physical *p = nullptr;
	int err;

	if (slot < 0)
		return no_device(call, id);
	if (!has_context())
		return no_context(call);
	err = core::device_get(unsigned(slot), &dev);
	if (err)
		return core_fault(call, err, at::open);
	err = core::physical_import(number, dev, &p);
	core::device_put(dev);
	if (err)
		return core_fault(call, err, at::memory);
	*handle = finish_import(p, id);
	return ACL_SUCCESS;
}

/* For the device of the thread's context, which holds it open. */
static aclError import_fabric(const char *call, const void *from, const context_guard &c, aclrtDrvMemHandle *handle)
{
	const core::fabric_handle h = fabric_in(from);
	core::physical *p = nullptr;
	const int err = core::physical_import_fabric(&h, c->dev, &p);

	if (err)
		return core_fault(call, err, at::fabric);
	*handle = finish_import(p, c->id);
	return ACL_SUCCESS;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtReleaseMemAddress(void *virPtr)
{
	if (!virPtr)
		return bad_arg(__func__, "virPtr is NULL");
	const int err = core::vmm_release(reinterpret_cast<u64>(virPtr));
	if (err == -EBUSY)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "%s", error_text());
	return check(__func__, err, at::memory);
}

aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count)
{
	if (!virPtr || !desc || !count)
		return bad_arg(__func__, "virPtr or desc is NULL, or count is 0");
	for (size_t i = 0; i < count; i++)
		if (desc[i].flags != ACL_RT_MEM_ACCESS_FLAGS_READWRITE)
			return fault(__func__, ACL_ERROR_RT_PARAM_INVALID,
				     "desc[%zu].flags is %d, it must be READWRITE", i, desc[i].flags);
	return check(__func__, core::vmm_set_access(reinterpret_cast<u64>(virPtr), size), at::memory);
}

aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag)
{
	bool granted, host;

	if (!virPtr || !location || !flag)
		return bad_arg(__func__, "virPtr, location or flag is NULL");
	const int err = core::vmm_get_access(reinterpret_cast<u64>(virPtr), &granted, &host);
	if (err)
		return core_fault(__func__, err, at::memory);
	/* Every device can access mapped memory; the CPU only host memory. */
	const bool reaches = granted && (host || location->type == ACL_MEM_LOCATION_TYPE_DEVICE);
	*flag = reaches ? ACL_RT_MEM_ACCESS_FLAGS_READWRITE : ACL_RT_MEM_ACCESS_FLAGS_NONE;
	return ACL_SUCCESS;
}

aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option,
					  size_t *granularity)
{
	const char *wrong;

	if (!prop || !granularity)
		return bad_arg(__func__, "prop or granularity is NULL");
	if (option != ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM && option != ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED)
		return unsupported(__func__, "option %d is unknown", option);
	wrong = fault_in(*prop);
	if (wrong)
		return bad_arg(__func__, "prop: %s", wrong);
	const bool small = on_host(*prop) && option == ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM &&
			   (prop->memAttr == ACL_DDR_MEM_NORMAL || prop->memAttr == ACL_DDR_MEM_P2P_NORMAL ||
			    prop->memAttr == ACL_MEM_NORMAL || prop->memAttr == ACL_MEM_P2P_NORMAL);
	*granularity = is_1g(prop->memAttr) ? GiB : small ? os_page_size() : core::vmm_grain;
	return ACL_SUCCESS;
}

aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle)
{
	core::physical *p = nullptr;

	if (!virPtr || !handle)
		return bad_arg(__func__, "virPtr or handle is NULL");
	const int err = core::vmm_retain(reinterpret_cast<u64>(virPtr), &p);
	if (!err)
		*handle = core::physical_handle(p);
	return check(__func__, err, at::memory);
}

aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags, aclrtMemSharedHandleType shareType,
					   void *shareableHandle)
{
	if (!handle || !shareableHandle)
		return bad_arg(__func__, "handle or shareableHandle is NULL");
	if (shareType == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
		return export_fabric(__func__, handle, flags, shareableHandle);
	if (shareType != ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT)
		return bad_share_type(__func__, shareType);
	return export_number(__func__, handle, flags, static_cast<u64 *>(shareableHandle));
}

aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType, int32_t *pid,
					   size_t pidNum)
{
	if (!shareableHandle || !pid || !pidNum)
		return bad_arg(__func__, "shareableHandle or pid is NULL, or pidNum is 0");
	if (shareType == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
		return allow_fabric(__func__, shareableHandle, pid, pidNum);
	if (shareType != ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT)
		return bad_share_type(__func__, shareType);
	return check(__func__, core::physical_allow(*static_cast<u64 *>(shareableHandle), pid, pidNum), at::memory);
}

aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle, aclrtMemSharedHandleType shareType, uint64_t flags,
					     aclrtDrvMemHandle *handle)
{
	if (!shareableHandle || !handle || flags)
		return bad_arg(__func__, "shareableHandle or handle is NULL, or flags are not 0");
	const context_guard c;
	if (!c)
		return no_context(__func__);
	if (shareType == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC)
		return import_fabric(__func__, shareableHandle, c, handle);
	if (shareType != ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT)
		return bad_share_type(__func__, shareType);
	return import_number(__func__, *static_cast<u64 *>(shareableHandle), c->id, handle);
}

aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags)
{
	if (!devPtr || !size || flags)
		return bad_arg(__func__, "devPtr is NULL, size is 0, or flags are not 0");
	if (slot_of(dstDevId) < 0)
		return no_device(__func__, dstDevId);
	const core::translation p = core::translate(devPtr);
	if (p.cls != core::mem_class::device || !range_within(reinterpret_cast<u64>(devPtr) - p.base, size, p.size))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID,
			     "%p and %zu bytes from there are not one block of device memory", devPtr, size);
	return ACL_SUCCESS; /* every device of the process can access it already */
}

} // extern "C"

#include "lib/acl/calls_vmm.h"
