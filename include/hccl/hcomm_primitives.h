/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies, reductions and notifies of HCOMM. With a thread, a call puts its work into that stream and returns. Thread 0
 * and the calls without one use a stream of the channel: they wait until it is done, but for those named Nbi, which
 * HcommChannelFenceOnThread() waits for. Whatever the threads, the work of one channel is done in the order of the
 * calls: what a read finds is never older than what was written or read before it. Addresses of the other side are
 * those that it registered.
 *
 * Errors: E_NOT_FOUND: no such channel or thread; E_UNAVAIL: HcommChannelGetStatus() has not said that it is connected;
 * E_PTR: NULL; E_PARA: an address that is not in memory the other side gave or exported, an unknown notify, type or
 * operation; E_REMOTE: the other side is lost; E_TIMEOUT; E_NOT_SUPPORT: a reduction in host memory of another
 * process; E_RUNTIME: an ACL call failed; HcclGetErrorString() says more.
 */
#ifndef USDMA_HCOMM_PRIMITIVES_H
#define USDMA_HCOMM_PRIMITIVES_H

#include "acl/acl_rt.h"
#include "hcomm_res_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef HCOMM_TIMEOUT_FLOAT_TYPE
#define HCOMM_TIMEOUT_FLOAT_TYPE 1
#endif

typedef enum {
	HCOMM_REDUCE_SUM = 0,
	HCOMM_REDUCE_PROD = 1,
	HCOMM_REDUCE_MAX = 2,
	HCOMM_REDUCE_MIN = 3,
	HCOMM_REDUCE_RESERVED = 255
} HcommReduceOp;

typedef enum {
	HCOMM_DATA_TYPE_INT8 = 0,
	HCOMM_DATA_TYPE_INT16 = 1,
	HCOMM_DATA_TYPE_INT32 = 2,
	HCOMM_DATA_TYPE_FP16 = 3,
	HCOMM_DATA_TYPE_FP32 = 4,
	HCOMM_DATA_TYPE_INT64 = 5,
	HCOMM_DATA_TYPE_UINT64 = 6,
	HCOMM_DATA_TYPE_UINT8 = 7,
	HCOMM_DATA_TYPE_UINT16 = 8,
	HCOMM_DATA_TYPE_UINT32 = 9,
	HCOMM_DATA_TYPE_FP64 = 10,
	HCOMM_DATA_TYPE_BFP16 = 11,
	HCOMM_DATA_TYPE_INT128 = 12,
	HCOMM_DATA_TYPE_HIF8 = 14,
	HCOMM_DATA_TYPE_FP8E4M3 = 15,
	HCOMM_DATA_TYPE_FP8E5M2 = 16,
	HCOMM_DATA_TYPE_FP8E8M0 = 17,
	HCOMM_DATA_TYPE_RESERVED = 255
} HcommDataType;

typedef enum {
	HCOMM_TRANSFER_TYPE_INVALID = -1,
	HCOMM_TRANSFER_TYPE_WRITE = 0,
	HCOMM_TRANSFER_TYPE_WRITE_REDUCE = 1,
	HCOMM_TRANSFER_TYPE_WRITE_WITH_NOTIFY = 2,
	HCOMM_TRANSFER_TYPE_WRITE_REDUCE_WITH_NOTIFY = 3,
	HCOMM_TRANSFER_TYPE_READ = 4,
	HCOMM_TRANSFER_TYPE_READ_REDUCE = 5,
	HCOMM_TRANSFER_TYPE_NOTIFY_RECORD = 6
} HcommTransferType;

typedef struct {
	HcommTransferType transType;
	uint8_t reserved[4];
	union {
		uint8_t raws[56];
		struct {
			uint64_t len;
			void *dst;
			void *src;
		} write;
		struct {
			uint64_t len;
			void *dst;
			void *src;
		} read;
		struct {
			uint64_t count;
			void *dst;
			void *src;
			HcommReduceOp reduceOp;
			HcommDataType dataType;
		} reduce;
		struct {
			uint32_t notifyIdx;
		} notifyRecord;
		struct {
			uint64_t len;
			void *dst;
			void *src;
			uint32_t notifyIdx;
		} writeWithNotify;
		struct {
			uint64_t count;
			void *dst;
			void *src;
			HcommReduceOp reduceOp;
			HcommDataType dataType;
			uint32_t notifyIdx;
		} writeReduceWithNotify;
	} transferInfo;
} HcommBatchTransferDesc;

/* In the thread's stream, without a channel. */
HCOMM_API int32_t HcommLocalCopyOnThread(ThreadHandle thread, void *dst, const void *src, uint64_t len);
HCOMM_API int32_t HcommLocalReduceOnThread(ThreadHandle thread, void *dst, const void *src, uint64_t count,
					   HcommDataType dataType, HcommReduceOp reduceOp);
HCOMM_API int32_t HcommThreadNotifyRecordOnThread(ThreadHandle thread, ThreadHandle dstThread, uint32_t dstNotifyIdx);
/* timeOut: seconds, 0: for ever; the stream fails when it has passed. */
HCOMM_API int32_t HcommThreadNotifyWaitOnThread(ThreadHandle thread, uint32_t notifyIdx, uint32_t timeOut);

/* Local to remote. */
HCOMM_API int32_t HcommWriteOnThread(ThreadHandle thread, ChannelHandle channel, void *dst, const void *src,
				     uint64_t len);
HCOMM_API int32_t HcommWriteNbiOnThread(ThreadHandle thread, ChannelHandle channel, void *dst, const void *src,
					uint64_t len);
HCOMM_API int32_t HcommWriteNbi(ChannelHandle channel, void *dst, const void *src, uint64_t len);
/* And then records the other side's notify. */
HCOMM_API int32_t HcommWriteWithNotifyOnThread(ThreadHandle thread, ChannelHandle channel, void *dst, const void *src,
					       uint64_t len, uint32_t remoteNotifyIdx);
HCOMM_API int32_t HcommWriteWithNotifyNbiOnThread(ThreadHandle thread, ChannelHandle channel, void *dst,
						  const void *src, uint64_t len, uint32_t remoteNotifyIdx);
HCOMM_API int32_t HcommWriteWithNotifyNbi(ChannelHandle channel, void *dst, const void *src, uint64_t len,
					  uint32_t remoteNotifyIdx);
/* dst[i] = op(dst[i], src[i]), as HcclReduceAsync. */
HCOMM_API int32_t HcommWriteReduceOnThread(ThreadHandle thread, ChannelHandle channel, void *dst, const void *src,
					   uint64_t count, HcommDataType dataType, HcommReduceOp reduceOp);
HCOMM_API int32_t HcommWriteReduceWithNotifyOnThread(ThreadHandle thread, ChannelHandle channel, void *dst,
						     const void *src, uint64_t count, HcommDataType dataType,
						     HcommReduceOp reduceOp, uint32_t remoteNotifyIdx);
/* Remote to local. */
HCOMM_API int32_t HcommReadOnThread(ThreadHandle thread, ChannelHandle channel, void *dst, const void *src,
				    uint64_t len);
HCOMM_API int32_t HcommReadNbiOnThread(ThreadHandle thread, ChannelHandle channel, void *dst, const void *src,
				       uint64_t len);
HCOMM_API int32_t HcommReadNbi(ChannelHandle channel, void *dst, const void *src, uint64_t len);
HCOMM_API int32_t HcommReadReduceOnThread(ThreadHandle thread, ChannelHandle channel, void *dst, const void *src,
					  uint64_t count, HcommDataType dataType, HcommReduceOp reduceOp);
/* In the order of the list; at an error those before it are in the stream. E_PARA: a type of transfer is unknown. */
HCOMM_API int32_t HcommBatchTransferOnThread(ThreadHandle thread, ChannelHandle channel,
					     const HcommBatchTransferDesc *transferDescs, uint32_t transferDescNum);

HCOMM_API int32_t HcommChannelNotifyRecordOnThread(ThreadHandle thread, ChannelHandle channel,
						   uint32_t remoteNotifyIdx);
HCOMM_API int32_t HcommChannelNotifyRecord(ChannelHandle channel, uint32_t remoteNotifyIdx);
/* Clears it. timeOut as above; thread 0: E_TIMEOUT, and E_REMOTE as soon as the other side is lost. */
HCOMM_API int32_t HcommChannelNotifyWaitOnThread(ThreadHandle thread, ChannelHandle channel, uint32_t localNotifyIdx,
						 uint32_t timeOut);
HCOMM_API int32_t HcommChannelNotifyWait(ChannelHandle channel, uint32_t localNotifyIdx, uint32_t timeOut);
/* After HCCL_EXEC_TIMEOUT. */
HCOMM_API int32_t HcommChannelNotifyWaitOnThreadWithDefaultTimeout(ThreadHandle thread, ChannelHandle channel,
								   uint32_t localNotifyIdx);
HCOMM_API int32_t HcommThreadNotifyWaitOnThreadWithDefaultTimeout(ThreadHandle thread, uint32_t notifyIdx);

/* What follows in the channel is behind what was before; thread 0: waits, as HcommChannelDrainOnThread always does. */
HCOMM_API int32_t HcommChannelFenceOnThread(ThreadHandle thread, ChannelHandle channel);
HCOMM_API int32_t HcommChannelFence(ChannelHandle channel);
HCOMM_API int32_t HcommChannelDrainOnThread(ThreadHandle thread, ChannelHandle channel);
/* A thread's work is in order anyway. */
HCOMM_API int32_t HcommFenceOnThread(ThreadHandle thread);

/*
 * Around calls of one thread; they begin at once, not at the end. E_PTR: NULL; E_PARA: begun already, not begun by this
 * thread, or with another name.
 */
HCOMM_API int32_t HcommBatchModeStart(const char *batchTag);
HCOMM_API int32_t HcommBatchModeEnd(const char *batchTag);

/* E_NOT_SUPPORT: they are for a device's CPU, or name a notify by its number. */
HCOMM_API int32_t HcommAcquireComm(const char *commId);
HCOMM_API int32_t HcommReleaseComm(const char *commId);
HCOMM_API int32_t HcommAclrtNotifyRecordOnThread(ThreadHandle thread, uint64_t dstNotifyId);
HCOMM_API int32_t HcommAclrtNotifyWaitOnThread(ThreadHandle thread, uint64_t notifyId, uint32_t timeOut);
HCOMM_API int32_t HcommSetNotifyWaitTimeOut(float timeOut);
HCOMM_API int32_t HcommThreadResAcquireTimeOut(float timeOut);

#ifdef __cplusplus
}
#endif

#endif
