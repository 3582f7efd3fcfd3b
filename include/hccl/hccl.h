/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collective operations of HCCL over the copy and reduction engines (libhccl.so).
 *
 * Each returns when its work is in the stream, and runs there in order; synchronise the stream for the result. Buffers
 * are device memory of the communicator's device, and stay the caller's; counts are elements. All ranks call the same
 * operations with the same counts, types, reductions and roots, in the same order. A full stream makes a call wait
 * until there is space: each rank needs a thread of its own, or a group (HcclGroupStart). Input and output do not
 * overlap, or are in place as a call says. A call with a count of 0 does nothing and returns HCCL_SUCCESS, whatever its
 * other arguments; arrays of counts may have zeros.
 *
 * In a stream that is captured (aclmdlRICaptureBegin) the operation is recorded, on all ranks, and each replay of the
 * graph runs it as an operation of the communicator: after the one before, in order with those of the other ranks, with
 * the same errors and time limits. No other thread may be in an operation of it meanwhile. What cannot be recorded
 * invalidates the capture.
 *
 * HCCL_E_PTR: a NULL; HCCL_E_NOT_SUPPORT: no such type or reduction, a reduction of a type other than int8 to int64,
 * uint8 to uint64, fp16, bfp16, fp32, fp64, or what the product of USDMA_PROFILE has not; HCCL_E_PARA: a root or rank
 * out of range, memory that is too short or not a device's, more than 2^63 bytes. HCCL_E_RUNTIME: an ACL call failed.
 * All of them leave the group as it is, if nothing of the operation is in the stream; else the group fails.
 * HCCL_E_REMOTE, HCCL_E_TIMEOUT: the group has failed (HcclGetCommAsyncError); HCCL_E_SUSPENDING. When the last
 * operation is not complete hcclExecTimeOut, HCCL_EXEC_TIMEOUT or 1836 seconds after its call (0: no limit), the group
 * fails. When a group fails, the stream of what is not complete is aborted on each rank (107023). The cause of each
 * failure is in HcclGetErrorString() and aclGetRecentErrMsg().
 */
#ifndef USDMA_HCCL_H
#define USDMA_HCCL_H

#include "hccl_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * recvBuf: count elements on each rank, reduced over all sendBufs; the same bits on each rank. In place: recvBuf is
 * sendBuf.
 */
HCCL_API HcclResult HcclAllReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
				  HcclComm comm, aclrtStream stream);
/* The root's count elements to all. */
HCCL_API HcclResult HcclBroadcast(void *buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
				  aclrtStream stream);
/*
 * sendBuf: recvCount elements for each rank; rank r receives the reduction of the r-th parts. In place: recvBuf is the
 * own part of sendBuf; HCCL_E_PARA if it is another rank's part 0.
 */
HCCL_API HcclResult HcclReduceScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType,
				      HcclReduceOp op, HcclComm comm, aclrtStream stream);
/*
 * The same with parts by arrays of uint64_t in host memory, an entry for each rank: counts, the same on all ranks, and
 * offsets in elements. recvCount: the own count. HCCL_E_PARA also: it is not; in place.
 */
HCCL_API HcclResult HcclReduceScatterV(void *sendBuf, const void *sendCounts, const void *sendDispls, void *recvBuf,
				       uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
				       aclrtStream stream);
/*
 * The root's sendBuf: recvCount elements for each rank. Other ranks' sendBuf is ignored. In place: the root's recvBuf
 * is its part of sendBuf, or sendBuf.
 */
HCCL_API HcclResult HcclScatter(void *sendBuf, void *recvBuf, uint64_t recvCount, HcclDataType dataType, uint32_t root,
				HcclComm comm, aclrtStream stream);
/* recvBuf: sendCount elements of each rank, in the order of ranks. In place: sendBuf is the own part of recvBuf. */
HCCL_API HcclResult HcclAllGather(void *sendBuf, void *recvBuf, uint64_t sendCount, HcclDataType dataType,
				  HcclComm comm, aclrtStream stream);
/* The same with parts by arrays, as HcclReduceScatterV. sendCount: the own count. HCCL_E_PARA also: it is not. */
HCCL_API HcclResult HcclAllGatherV(void *sendBuf, uint64_t sendCount, void *recvBuf, const void *recvCounts,
				   const void *recvDispls, HcclDataType dataType, HcclComm comm, aclrtStream stream);
/* As HcclAllReduce, for the root only; in place too. Other ranks' recvBuf is ignored. */
HCCL_API HcclResult HcclReduce(void *sendBuf, void *recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
			       uint32_t root, HcclComm comm, aclrtStream stream);
/* What follows in the stream runs when all ranks have come to this call. */
HCCL_API HcclResult HcclBarrier(HcclComm comm, aclrtStream stream);
/* Complete when the peer's HcclRecv has taken the data. Two ranks that both send first: HcclBatchSendRecv. */
HCCL_API HcclResult HcclSend(void *sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
			     aclrtStream stream);
/* HCCL_E_PARA also: the own rank, which only a batch or a group can send to. */
HCCL_API HcclResult HcclRecv(void *recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
			     aclrtStream stream);
/*
 * All at once, so that exchanges do not block each other; the n-th item to a rank meets its n-th from this one. A rank
 * may send to itself. HCCL_E_PARA also: and does not receive that.
 */
HCCL_API HcclResult HcclBatchSendRecv(HcclSendRecvItem *sendRecvInfo, uint32_t itemNum, HcclComm comm,
				      aclrtStream stream);
/* sendCount elements to each rank, from each recvCount; both types must have one size. HCCL_E_PARA also: in place. */
HCCL_API HcclResult HcclAlltoAll(const void *sendBuf, uint64_t sendCount, HcclDataType sendType, const void *recvBuf,
				 uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream);
/* The same by arrays of uint64_t in host memory, an entry for each rank: counts, and offsets in elements. A buffer of
 * no element may be NULL. */
HCCL_API HcclResult HcclAlltoAllV(const void *sendBuf, const void *sendCounts, const void *sdispls,
				  HcclDataType sendType, const void *recvBuf, const void *recvCounts,
				  const void *rdispls, HcclDataType recvType, HcclComm comm, aclrtStream stream);
/* The same by a matrix of uint64_t, in host memory and the same on all ranks: row r, column c: elements from rank r to
 * rank c. The parts follow each other in both buffers. */
HCCL_API HcclResult HcclAlltoAllVC(const void *sendBuf, const void *sendCountMatrix, HcclDataType sendType,
				   const void *recvBuf, HcclDataType recvType, HcclComm comm, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif
