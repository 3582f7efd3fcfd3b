/* SPDX-License-Identifier: BSD-3-Clause */
/* libascend_hal.so: names of the driver over libascendcl.so. */
#include "runtime/rt.h"
#include <driver/ascend_hal.h>
#include "driver/base/error.h"
#include "lib/acl/state.h"
#include "lib/share/vmm.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/guard.h"

#include <cerrno>
#include <cstring>
#include <iterator>
#include <unistd.h>

using namespace usdma;

namespace {

constexpr uint32_t host_number = 65; /* of the driver: after those of 64 devices and one */

/* The driver's code for an ACL one. */
drvError_t drv(aclError code)
{
	switch (code) {
	case ACL_SUCCESS:
		return DRV_ERROR_NONE;
	case ACL_ERROR_INVALID_PARAM:
	case ACL_ERROR_RT_PARAM_INVALID:
	case ACL_ERROR_RT_ADDR_UNALIGNED:
	case ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
		return DRV_ERROR_INVALID_VALUE;
	case ACL_ERROR_RT_INVALID_DEVICEID:
		return DRV_ERROR_INVALID_DEVICE;
	case ACL_ERROR_RT_NO_DEVICE:
		return DRV_ERROR_NO_DEVICE;
	case ACL_ERROR_RT_INVALID_HANDLE:
		return DRV_ERROR_INVALID_HANDLE;
	case ACL_ERROR_RT_MEMORY_ALLOCATION:
		return DRV_ERROR_OUT_OF_MEMORY;
	case ACL_ERROR_RT_CONTEXT_NULL:
	case ACL_ERROR_RT_CONTEXT_RELEASE_ERROR:
		return DRV_ERROR_UNINIT;
	case ACL_ERROR_HOST_MEMORY_NOT_REGISTERED:
		return DRV_ERROR_NOT_EXIST;
	case ACL_ERROR_RT_NO_PERMISSION:
		return DRV_ERROR_OPER_NOT_PERMITTED;
	case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
	case ACL_ERROR_FEATURE_UNSUPPORTED:
		return DRV_ERROR_NOT_SUPPORT;
	default:
		return DRV_ERROR_INNER_ERR;
	}
}

/* The same for -errno. */
drvError_t drv_of(int err)
{
	switch (err) {
	case 0:
		return DRV_ERROR_NONE;
	case -EINVAL:
	case -EEXIST:
	case -EFAULT:
		return DRV_ERROR_INVALID_VALUE;
	case -ENOENT:
		return DRV_ERROR_NOT_EXIST;
	case -ENOMEM:
		return DRV_ERROR_OUT_OF_MEMORY;
	case -EPERM:
		return DRV_ERROR_OPER_NOT_PERMITTED;
	case -EOPNOTSUPP:
		return DRV_ERROR_NOT_SUPPORT;
	default:
		return DRV_ERROR_INNER_ERR;
	}
}

constexpr drvError_t not_supported = DRV_ERROR_NOT_SUPPORT;

constexpr uint64_t register_grain = 4096; /* as aclrtHostRegister's */

/* By mem_type and pg_type of a device's memory, and by pg_type of the host's. */
constexpr aclrtMemAttr device_memory[][3] = {
	{ACL_HBM_MEM_NORMAL, ACL_HBM_MEM_HUGE, ACL_HBM_MEM_HUGE1G},
	{ACL_DDR_MEM_NORMAL, ACL_DDR_MEM_HUGE, ACL_DDR_MEM_HUGE},
	{ACL_MEM_P2P_NORMAL, ACL_MEM_P2P_HUGE, ACL_MEM_P2P_HUGE1G},
	{ACL_DDR_MEM_P2P_NORMAL, ACL_DDR_MEM_P2P_HUGE, ACL_DDR_MEM_P2P_HUGE},
};
constexpr aclrtMemAttr host_memory[] = {ACL_MEM_NORMAL, ACL_MEM_HUGE, ACL_MEM_HUGE1G};
constexpr aclrtMemLocationType sides[] = {ACL_MEM_LOCATION_TYPE_HOST, ACL_MEM_LOCATION_TYPE_DEVICE,
					  ACL_MEM_LOCATION_TYPE_HOST_NUMA};

/* False: a value is unknown. */
bool acl_prop(const drv_mem_prop *p, aclrtPhysicalMemProp *out)
{
	*out = {};
	if (!p || p->side >= std::size(sides) || p->pg_type >= std::size(host_memory))
		return false;
	if (p->side == MEM_DEV_SIDE && p->mem_type >= std::size(device_memory))
		return false;
	out->location = {p->side == MEM_HOST_SIDE ? 0 : p->devid, sides[p->side]};
	out->memAttr = p->side == MEM_DEV_SIDE ? device_memory[p->mem_type][p->pg_type] : host_memory[p->pg_type];
	return true;
}

bool acl_location(const drv_mem_location &l, aclrtMemLocation *out)
{
	if (unsigned(l.side) >= std::size(sides))
		return false;
	*out = {l.id, sides[l.side]};
	return true;
}

/* In any thread, whose last error of the runtime stays: this is not a call of that. */
aclError slot_of(uint32_t devid, uint32_t *slot)
{
	const aclError before = acl::self().last_error;
	const aclError code = rtGetDevicePhyIdByIndex(devid, slot);

	acl::self().last_error = before;
	return code;
}

drvError_t store(uint32_t *to, uint32_t value)
{
	if (!to)
		return DRV_ERROR_INVALID_VALUE;
	*to = value;
	return DRV_ERROR_NONE;
}

/* Host memory is created and imported through a device: the thread's. */
bool is_host(uint32_t id)
{
	return id == host_number;
}

aclrtMemSharedHandleType share_type(drv_mem_handle_type type)
{
	return type == MEM_HANDLE_TYPE_FABRIC ? ACL_MEM_SHARE_HANDLE_TYPE_FABRIC : ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT;
}

/* ACL imports for the device of the thread's context. */
class on_device {
public:
	explicit on_device(uint32_t id)
	{
		if (aclrtGetCurrentContext(&before_) == ACL_SUCCESS && is_host(id))
			return;
		code_ = aclrtSetDevice(int32_t(id));
		set_ = !code_;
		id_ = int32_t(id);
	}
	~on_device()
	{
		if (before_)
			(void)aclrtSetCurrentContext(before_);
		if (set_)
			(void)aclrtResetDevice(id_);
	}
	on_device(const on_device &) = delete;
	on_device &operator=(const on_device &) = delete;
	aclError failed() const { return code_; }

private:
	aclrtContext before_ = nullptr;
	aclError code_ = ACL_SUCCESS;
	bool set_ = false;
	int32_t id_ = 0;
};

} // namespace

extern "C" {

drvError_t drvGetDevNum(uint32_t *num_dev)
{
	return drv(aclrtGetDeviceCount(num_dev));
}

drvError_t drvGetDevIDs(uint32_t *devices, uint32_t len)
{
	uint32_t count;

	if (!devices)
		return DRV_ERROR_INVALID_VALUE;
	if (const aclError code = aclrtGetDeviceCount(&count))
		return drv(code);
	for (uint32_t i = 0; i < len && i < count; i++)
		devices[i] = i;
	return len <= count ? DRV_ERROR_NONE : DRV_ERROR_INVALID_VALUE;
}

drvError_t halHostRegister(void *srcPtr, uint64_t size, uint32_t flag, uint32_t devid, void **dstPtr)
{
	uint32_t slot;

	if (!srcPtr || !dstPtr || flag > DEV_MEM_MAP_HOST)
		return DRV_ERROR_INVALID_VALUE;
	if (flag == DEV_SVM_MAP_HOST || flag == DEV_MEM_MAP_HOST)
		return DRV_ERROR_NOT_SUPPORT;
	if ((reinterpret_cast<uint64_t>(srcPtr) | size) % register_grain || !size)
		return DRV_ERROR_INVALID_VALUE;
	if (const aclError code = slot_of(devid, &slot))
		return drv(code);
	const core::slot_guard dev{slot};
	if (!dev)
		return DRV_ERROR_UNINIT;
	const int err = core::host_register(srcPtr, size, core::host_reg_over_pinned | core::host_reg_charged,
					    dev.get(), ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED);
	if (!err)
		*dstPtr = srcPtr; /* one address serves host and device */
	return drv_of(err);
}

drvError_t halHostRegisterCapabilities(uint32_t devid, uint32_t acc_module_type, uint32_t *mem_map_cap)
{
	aclrtHostMemMapCapability can;

	if (!mem_map_cap || acc_module_type > ACL_RT_HAC_TYPE_CCU)
		return DRV_ERROR_INVALID_VALUE;
	const aclError code = aclrtHostMemMapCapabilities(devid, aclrtHacType(acc_module_type), &can);
	if (!code)
		*mem_map_cap = can;
	return drv(code);
}

drvError_t halMemCreate(drv_mem_handle_t **handle, size_t size, const struct drv_mem_prop *prop, uint64_t flag)
{
	aclrtPhysicalMemProp p;

	if (!acl_prop(prop, &p))
		return DRV_ERROR_INVALID_VALUE;
	return drv(aclrtMallocPhysical(reinterpret_cast<aclrtDrvMemHandle *>(handle), size, &p, flag));
}

drvError_t halMemSetAccess(void *ptr, size_t size, struct drv_mem_access_desc *desc, size_t count)
{
	aclrtMemAccessDesc one = {};

	if (!desc || !count)
		return DRV_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		if (desc[i].type != MEM_ACCESS_TYPE_READWRITE || !acl_location(desc[i].location, &one.location))
			return DRV_ERROR_INVALID_VALUE;
	/* Once: what one device of the process can access all can. */
	one.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE;
	return drv(aclrtMemSetAccess(ptr, size, &one, 1));
}

drvError_t halMemGetAccess(void *ptr, struct drv_mem_location *location, uint64_t *flags)
{
	aclrtMemLocation l;

	if (!location || !acl_location(*location, &l))
		return DRV_ERROR_INVALID_VALUE;
	return drv(aclrtMemGetAccess(ptr, &l, flags));
}

drvError_t halMemGetAllocationGranularity(const struct drv_mem_prop *prop, drv_mem_granularity_options option,
					  size_t *granularity)
{
	aclrtPhysicalMemProp p;

	if (!acl_prop(prop, &p) || unsigned(option) >= MEM_ALLOC_GRANULARITY_INVALID)
		return DRV_ERROR_INVALID_VALUE;
	return drv(aclrtMemGetAllocationGranularity(&p, aclrtMemGranularityOptions(option), granularity));
}

drvError_t halMemExportToShareableHandle(drv_mem_handle_t *handle, drv_mem_handle_type handle_type, uint64_t flags,
					 uint64_t *share_handle)
{
	if (handle_type != MEM_HANDLE_TYPE_NONE || flags)
		return DRV_ERROR_INVALID_VALUE;
	return drv(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, share_handle));
}

drvError_t halMemShareHandleSetAttribute(uint64_t share_handle, enum ShareHandleAttrType type,
					 struct ShareHandleAttr attr)
{
	if (type != SHR_HANDLE_ATTR_NO_WLIST_IN_SERVER || attr.enableFlag > SHR_HANDLE_NO_WLIST_ENABLE)
		return DRV_ERROR_INVALID_VALUE;
	if (attr.enableFlag == SHR_HANDLE_WLIST_ENABLE)
		return DRV_ERROR_NONE; /* as it is exported */
	return drv_of(core::physical_allow_all(share_handle));
}

drvError_t halMemImportFromShareableHandle(uint64_t share_handle, uint32_t devid, drv_mem_handle_t **handle)
{
	int32_t id = int32_t(devid);

	if (is_host(devid))
		if (const aclError code = aclrtGetDevice(&id))
			return drv(code);
	return drv(aclrtMemImportFromShareableHandle(share_handle, id, reinterpret_cast<aclrtDrvMemHandle *>(handle)));
}

drvError_t halMemImportFromShareableHandleV2(drv_mem_handle_type handle_type, struct MemShareHandle *share_handle,
					     uint32_t devid, drv_mem_handle_t **handle)
{
	if (!share_handle || !handle || unsigned(handle_type) >= MEM_HANDLE_TYPE_MAX)
		return DRV_ERROR_INVALID_VALUE;
	const on_device here(devid);
	if (here.failed())
		return drv(here.failed());
	return drv(aclrtMemImportFromShareableHandleV2(share_handle, share_type(handle_type), 0,
						       reinterpret_cast<aclrtDrvMemHandle *>(handle)));
}

drvError_t halMemTransShareableHandle(drv_mem_handle_type handle_type, struct MemShareHandle *share_handle,
				      uint32_t *server_id, uint64_t *shareable_handle)
{
	if (!share_handle || !server_id || !shareable_handle || unsigned(handle_type) >= MEM_HANDLE_TYPE_MAX)
		return DRV_ERROR_INVALID_VALUE;
	core::fabric_handle fabric;
	memcpy(&fabric, share_handle, sizeof(fabric));
	uint64_t number;
	memcpy(&number, share_handle, sizeof(number));
	const int err = handle_type == MEM_HANDLE_TYPE_FABRIC ? core::fabric_number(&fabric, &number) : 0;
	if (err)
		return drv_of(err);
	*server_id = 0;
	*shareable_handle = number;
	return DRV_ERROR_NONE;
}

} // extern "C"

#include "lib/ascend/calls_hal.h"
