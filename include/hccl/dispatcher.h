/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
/*
 * Tasks on streams: copies, reductions, notifies.  For C++ (the arguments are references to classes), with C names.
 * Link with -lusdma-hccl (pkg-config usdma-hccl).
 * Everything here is asynchronous like aclrtMemcpyAsync: synchronise the stream.
 * remoteUserRank, ranks, stages and linkType are for traces; they change nothing.
 */
#ifndef USDMA_HCCL_DISPATCHER_H
#define USDMA_HCCL_DISPATCHER_H

#include "adapter_rts_common.h"
#include "dispatcher_task_types.h"
#include "hccl_common.h"
#include "mem_device_pub.h"
#include "mem_host_pub.h"
#include "stream_pub.h"

enum class DispatcherType {
	DISPATCHER_NORMAL = 0,
	DISPATCHER_VIRTURAL = 1, /* records tasks in the stream object, runs none */
	DISPATCHER_AICPU = 2     /* E_NOT_SUPPORT */
};

extern "C" {

/*
 * Creates a dispatcher, the caller's until HcclDispatcherDestroy. Sets the device if the thread has no context
 * yet, unless devicePhyId is -1 (HOST_DEVICE_ID). E_PTR: dispatcher NULL; E_NOT_SUPPORT: type; E_RUNTIME: the
 * device; E_MEMORY: 4096 live ones.
 */
USDMA_HCCL_API HcclResult HcclDispatcherInit(DispatcherType type, const s32 devicePhyId, HcclDispatcher *dispatcher);
/* Resets the device if Init had set it.  NULL: HCCL_SUCCESS.  E_PTR: not live. */
USDMA_HCCL_API HcclResult HcclDispatcherDestroy(HcclDispatcher dispatcher);

/*
 * Copies src.size() bytes to dst. stream without a handle: host memory, copied synchronously. E_PTR: dispatcher,
 * dst.ptr() or src.ptr() NULL, or dst.size() < src.size(); E_INTERNAL: an invalid synchronous copy (overlap,
 * device memory, dst of size 0); E_RUNTIME: an ACL error.
 */
USDMA_HCCL_API HcclResult HcclD2DMemcpyAsync(HcclDispatcher dispatcherPtr, hccl::DeviceMem &dst,
					     const hccl::DeviceMem &src, hccl::Stream &stream,
					     u32 remoteUserRank = INVALID_VALUE_RANKID,
					     hccl::LinkType inLinkType = hccl::LinkType::LINK_ONCHIP);

/*
 * Copies count bytes.  E_PTR: dispatcher, dst, src or the stream's handle NULL; E_PARA: destMax < count, or kind;
 * E_RUNTIME: an ACL error.
 */
USDMA_HCCL_API HcclResult HcclMemcpyAsync(HcclDispatcher dispatcherPtr, void *dst, const uint64_t destMax,
					  const void *src, const uint64_t count, const HcclRtMemcpyKind kind,
					  hccl::Stream &stream, const u32 remoteUserRank, hccl::LinkType linkType);

/*
 * dst[i] = op(dst[i], src[i]) over count elements of device memory; count 0: nothing to do.  Integer types to 64
 * bits, FP16, BFP16, FP32, FP64; SUM, PROD, MAX, MIN.  E_PTR: dispatcher, dst, src or the stream's handle NULL;
 * E_NOT_SUPPORT: another type; E_PARA: no such type or operation, or count too large; E_RUNTIME: an ACL error.
 */
USDMA_HCCL_API HcclResult HcclReduceAsync(HcclDispatcher dispatcherPtr, void *src, uint64_t count,
					  const HcclDataType datatype, const HcclReduceOp reduceOp,
					  hccl::Stream &stream, void *dst, const u32 remoteUserRank,
					  const hccl::LinkType linkType, const u64 reduceAttr);

/* Sets a notify (aclrtRecordNotify).  E_PTR: dispatcher, signal or the stream's handle NULL; E_RUNTIME. */
USDMA_HCCL_API HcclResult HcclSignalRecord(HcclDispatcher dispatcherPtr, HcclRtNotify signal, hccl::Stream &stream,
					   u32 userRank, u64 offset, s32 stage, bool inchip, u64 signalAddr);
/*
 * Waits for a notify and clears it; after NOTIFY_DEFAULT_WAIT_TIME (or HcclSetExecTimeOut) seconds the wait ends
 * with an error of the stream. E_PTR, E_RUNTIME as above.
 */
USDMA_HCCL_API HcclResult HcclSignalWait(HcclDispatcher dispatcherPtr, HcclRtNotify signal, hccl::Stream &stream,
					 u32 userRank, u32 remoteUserRank, s32 stage, bool inchip);
/* Timeout in seconds of later HcclSignalWait calls of this dispatcher; 0: none. E_PTR; E_PARA: negative. */
USDMA_HCCL_API HcclResult HcclSetExecTimeOut(HcclDispatcher dispatcherPtr, s32 execTimeOut = NOTIFY_DEFAULT_WAIT_TIME);

} // extern "C"

#endif
