/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
/* A task as recorded by a virtual dispatcher. */
#ifndef USDMA_HCCL_DISPATCHER_TASK_TYPES_H
#define USDMA_HCCL_DISPATCHER_TASK_TYPES_H

#include "adapter_rts_common.h"

/* Bits of reduceAttr in HcclReduceAsync. They have no effect: the copy engine does every reduction here. */
constexpr u64 INLINE_REDUCE_BIT = 0x01;
constexpr u64 INLINE_REDUCE_BITMASK = 0x01;
constexpr u64 RDMA_REDUCE_BITMASK = 0x08;

namespace hccl {

enum class TaskLogicType { TRANSPORT_TYPE, DISPATCHER_TYPE, TYPE_RESERVED };

enum class TaskLogicFuncType {
	TRANSPORT_TXACK_TYPE,
	TRANSPORT_RXACK_TYPE,
	TRANSPORT_TXASYNC_TYPE,
	TRANSPORT_RXASYNC_TYPE,
	TRANSPORT_TXDATASIGNAL_TYPE,
	TRANSPORT_RXDATASIGNAL_TYPE,
	DISPATCHER_SIGNALWAIT_TYPE = 100,
	DISPATCHER_SIGNALRECORD_TYPE,
	DISPATCHER_MEMCPYASYNC_TYPE,
	TYPE_RESERVED
};

struct ParaSignalWait {
	void *signal;
	u32 userRank;
	u32 remoteRank;
	s32 stage;
};

struct ParaSignalRecord {
	void *signal;
	u32 userRank;
	u64 offset;
	s32 stage;
};

struct ParaMemAsync {
	void *dst;
	uint64_t destMax;
	void *src;
	u64 count;
	HcclRtMemcpyKind kind;
};

struct TaskLogicCmdInfo {
	TaskLogicType taskLogicType;
	u32 index;
};

struct DispatcherTaskLogicPara {
	ParaSignalWait signalWait;
	ParaSignalRecord signalRecord;
	ParaMemAsync memAsync;
};

struct TaskLogicPara {
	DispatcherTaskLogicPara dispatcherTaskLogicPara;
};

/* Only the part of taskLogicPara that taskFuncType selects is set, the rest is zero. */
struct TaskLogicInfo {
	TaskLogicCmdInfo taskLogicCmd = {TaskLogicType::TYPE_RESERVED, 0};
	TaskLogicFuncType taskFuncType = TaskLogicFuncType::TYPE_RESERVED;
	TaskLogicPara taskLogicPara = {};

	TaskLogicInfo() = default;
	TaskLogicInfo(u32 index, TaskLogicType type, TaskLogicFuncType func)
		: taskLogicCmd{type, index}, taskFuncType(func)
	{
	}
};

} // namespace hccl

#endif
