/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "lib/hccl/table.h"

namespace hccl {
namespace {

constexpr size_t max_dispatchers = 4096;
constinit dispatcher table[max_dispatchers];

dispatcher *take_slot()
{
	for (dispatcher &d : table) {
		u32 expected = dispatcher::unused;

		/* acquire: the destroying thread's writes to the slot are visible */
		if (usdma::cmpxchg_acquire(&d.state, &expected, dispatcher::making))
			return &d;
	}
	return nullptr;
}

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
	uintptr_t at = uintptr_t(handle), from = uintptr_t(table);
	dispatcher *d = static_cast<dispatcher *>(handle);

	if (at < from || at >= from + sizeof(table) || (at - from) % sizeof(dispatcher))
		return nullptr;
	/* acquire: pairs with the release in HcclDispatcherInit, which publishes the fields */
	return usdma::load_acquire(&d->state) == dispatcher::live ? d : nullptr;
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
	d = hccl::take_slot();
	if (!d)
		return HCCL_E_MEMORY;
	d->type = type;
	usdma::store_relaxed(&d->wait_seconds, u32(NOTIFY_DEFAULT_WAIT_TIME));
	if (HcclResult ret = hccl::set_device(d, devicePhyId)) {
		usdma::store_release(&d->state, dispatcher::unused);
		return ret;
	}
	usdma::store_release(&d->state, dispatcher::live); /* the fields before the state */
	*out = d;
	return HCCL_SUCCESS;
}

HcclResult HcclDispatcherDestroy(HcclDispatcher handle)
{
	dispatcher *d = find_dispatcher(handle);
	u32 expected = dispatcher::live;

	if (!handle)
		return HCCL_SUCCESS;
	if (!d || !usdma::cmpxchg_seq_cst(&d->state, &expected, dispatcher::making))
		return HCCL_E_PTR;
	if (d->device_set) {
		if (aclError code = aclrtResetDevice(d->device))
			hccl::acl_failed("aclrtResetDevice", code);
	}
	usdma::store_release(&d->state, dispatcher::unused); /* after all writes to the slot */
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
