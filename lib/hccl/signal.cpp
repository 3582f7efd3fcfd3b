/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "lib/hccl/table.h"

using namespace hccl;

HcclResult HcclSignalRecord(HcclDispatcher dispatcherPtr, HcclRtNotify signal, Stream &stream, u32 userRank, u64 offset,
			    s32 stage, bool, u64)
{
	dispatcher *d = find_dispatcher(dispatcherPtr);
	TaskLogicInfo info(0, TaskLogicType::DISPATCHER_TYPE, TaskLogicFuncType::DISPATCHER_SIGNALRECORD_TYPE);

	if (!d || !signal)
		return HCCL_E_PTR;
	if (d->records_tasks()) {
		info.taskLogicPara.dispatcherTaskLogicPara.signalRecord = {signal, userRank, offset, stage};
		return stream.AddTaskLogicInfo(info);
	}
	if (!stream.ptr())
		return HCCL_E_PTR;
	if (aclError code = aclrtRecordNotify(signal, stream.ptr()))
		return acl_failed("aclrtRecordNotify", code);
	return HCCL_SUCCESS;
}

HcclResult HcclSignalWait(HcclDispatcher dispatcherPtr, HcclRtNotify signal, Stream &stream, u32 userRank,
			  u32 remoteUserRank, s32 stage, bool)
{
	dispatcher *d = find_dispatcher(dispatcherPtr);
	TaskLogicInfo info(0, TaskLogicType::DISPATCHER_TYPE, TaskLogicFuncType::DISPATCHER_SIGNALWAIT_TYPE);

	if (!d || !signal)
		return HCCL_E_PTR;
	if (d->records_tasks()) {
		info.taskLogicPara.dispatcherTaskLogicPara.signalWait = {signal, userRank, remoteUserRank, stage};
		return stream.AddTaskLogicInfo(info);
	}
	if (!stream.ptr())
		return HCCL_E_PTR;
	if (aclError code = aclrtWaitAndResetNotify(signal, stream.ptr(), usdma::load_relaxed(&d->wait_seconds)))
		return acl_failed("aclrtWaitAndResetNotify", code);
	return HCCL_SUCCESS;
}
