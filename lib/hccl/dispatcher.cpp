/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/base/slab.h"
#include "lib/hccl/table.h"

namespace hccl {
namespace {

constinit usdma::no_destructor<usdma::core::slab<dispatcher, 4096, usdma::core::handle_kind::dispatcher>> table;

HcclResult set_device(dispatcher *d, s32 phy)
{
	aclrtContext context = nullptr;

	d->device_set = false;
	d->device = HOST_DEVICE_ID;
	if (phy == HOST_DEVICE_ID)
		return HCCL_SUCCESS;
	if (aclError code = aclrtGetLogicDevIdByPhyDevId(phy, &d->device))
		return acl_failed("aclrtGetLogicDevIdByPhyDevId", code);
	if (aclrtGetCurrentContext(&context) == ACL_SUCCESS)
		return HCCL_SUCCESS;
	if (aclError code = aclrtSetDevice(d->device))
		return acl_failed("aclrtSetDevice", code);
	d->device_set = true;
	return HCCL_SUCCESS;
}

} // namespace

dispatcher *find_dispatcher(HcclDispatcher handle)
{
	return table->find(handle);
}

} // namespace hccl

using hccl::dispatcher;
using hccl::find_dispatcher;

HcclResult HcclDispatcherInit(DispatcherType type, const s32 devicePhyId, HcclDispatcher *out)
{
	dispatcher *d;

	if (!out)
		return HCCL_E_PTR;
	if (type != DispatcherType::DISPATCHER_NORMAL && type != DispatcherType::DISPATCHER_VIRTURAL) {
		log_warn("hccl: dispatcher type %d needs an AI CPU, which a copy engine lacks", int(type));
		return HCCL_E_NOT_SUPPORT;
	}
	d = hccl::table->get();
	if (!d)
		return HCCL_E_MEMORY;
	d->type = type;
	usdma::store_relaxed(&d->wait_seconds, u32(NOTIFY_DEFAULT_WAIT_TIME));
	if (HcclResult ret = hccl::set_device(d, devicePhyId)) {
		hccl::table->put(d);
		return ret;
	}
	hccl::table->publish(d);
	*out = reinterpret_cast<HcclDispatcher>(d->alive);
	return HCCL_SUCCESS;
}

HcclResult HcclDispatcherDestroy(HcclDispatcher handle)
{
	dispatcher *d = find_dispatcher(handle);

	if (!handle)
		return HCCL_SUCCESS;
	if (!d || !usdma::core::handle_end(d, handle))
		return HCCL_E_PTR;
	if (d->device_set) {
		if (aclError code = aclrtResetDevice(d->device))
			hccl::acl_failed("aclrtResetDevice", code);
	}
	hccl::table->put(d);
	return HCCL_SUCCESS;
}

HcclResult HcclSetExecTimeOut(HcclDispatcher handle, s32 execTimeOut)
{
	dispatcher *d = find_dispatcher(handle);

	if (!d)
		return HCCL_E_PTR;
	if (execTimeOut < 0)
		return HCCL_E_PARA;
	usdma::store_relaxed(&d->wait_seconds, u32(execTimeOut));
	return HCCL_SUCCESS;
}
