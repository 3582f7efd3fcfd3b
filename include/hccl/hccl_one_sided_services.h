/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided operations of HCCL (libhcomm.so, which is a name of libhccl.so): a rank reads and writes memory that
 * another rank of its group has registered, by the other rank's addresses. The errors' causes are in
 * HcclGetErrorString() and aclGetRecentErrMsg(). Any thread may call at any time.
 */
#ifndef USDMA_HCCL_ONE_SIDED_SERVICES_H
#define USDMA_HCCL_ONE_SIDED_SERVICES_H

#include "hccl_comm.h"
#include "hcomm_res_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HCCL_MEM_DESC_LENGTH = 511 };

/* Of HcclRegisterMem(), or anything of the caller: it is carried as it is. */
typedef struct {
	char desc[HCCL_MEM_DESC_LENGTH + 1];
} HcclMemDesc;

typedef struct {
	HcclMemDesc *array;
	uint32_t arrayLength;
} HcclMemDescs;

typedef struct {
	void *localAddr, *remoteAddr;
	uint64_t count; /* elements */
	HcclDataType dataType;
} HcclOneSideOpDesc;

typedef enum { HCCL_TOPO_FULLMESH = 0, HCCL_TOPO_NUM } HcclTopoType;

typedef struct {
	HcclTopoType topoType;
	uint64_t rsvd0, rsvd1, rsvd2;
} HcclPrepareConfig;

/*
 * As HcclCommInitClusterInfoConfig, with the rank table itself in place of a file's name. E_PARA also: config has no
 * hcclCommName, or a communicator of this process and device has it.
 */
HCCL_API HcclResult HcclCommInitClusterInfoMemConfig(const char *rankTableString, uint32_t rank, HcclCommConfig *config,
						     HcclComm *comm);

/*
 * Registers memory of this process: of a device, or any of the host. It stays the caller's. E_PTR: NULL; E_PARA: size
 * 0, an unknown type, not a block of device memory, or a part of memory of that type that is registered; the same again
 * is the same handle, until it is deregistered once. E_MEMORY.
 */
HCCL_API HcclResult HcclRegisterGlobalMem(const CommMem *mem, void **memHandle);
/* E_PARA: no such memory, or a communicator has it. */
HCCL_API HcclResult HcclDeregisterGlobalMem(void *memHandle);
/*
 * Memory for the other ranks of a group, from HcclCommPrepare() on. HcclCommDestroy() is refused (E_PARA) while some is
 * bound. E_PTR: no communicator; E_PARA: no such memory, or bound (not bound) to it.
 */
HCCL_API HcclResult HcclCommBindMem(HcclComm comm, void *memHandle);
HCCL_API HcclResult HcclCommUnbindMem(HcclComm comm, void *memHandle);
/*
 * All ranks call it, and get the others' bound memory; again: nothing. timeout: seconds, 0: HCCL_CONNECT_TIMEOUT, -1:
 * for ever. E_PTR; E_PARA: timeout below -1, an unknown topology; E_TIMEOUT: a rank did not call it; E_REMOTE: a rank
 * is lost; E_UNAVAIL: the communicator is being destroyed; E_NOT_SUPPORT: device memory without a file; E_RUNTIME;
 * E_MEMORY. It may be tried again.
 */
HCCL_API HcclResult HcclCommPrepare(HcclComm comm, const HcclPrepareConfig *prepareConfig, const int timeout);

/*
 * Copies descNum ranges, at most 256, to or from another rank in the stream's order; 0: nothing. All are checked before
 * the first is submitted. Host memory of another process is copied at once, behind the stream's work. E_PTR: no
 * communicator, NULL; E_PARA: no such rank, this rank, more than 256, a range that is not in memory which that rank
 * gave; E_INTERNAL: not prepared; E_NOT_SUPPORT: an unknown type; E_REMOTE: the rank is lost; E_RUNTIME: an ACL call
 * failed.
 */
HCCL_API HcclResult HcclBatchPut(HcclComm comm, uint32_t remoteRank, HcclOneSideOpDesc *desc, uint32_t descNum,
				 void *stream);
HCCL_API HcclResult HcclBatchGet(HcclComm comm, uint32_t remoteRank, HcclOneSideOpDesc *desc, uint32_t descNum,
				 void *stream);

/* Memory for one rank, described for HcclExchangeMemDesc. The own rank: nothing. Errors as HcclRegisterGlobalMem. */
HCCL_API HcclResult HcclRegisterMem(HcclComm comm, uint32_t remoteRank, int type, void *addr, uint64_t size,
				    HcclMemDesc *desc);
/* E_NOT_FOUND: not of HcclRegisterMem(). */
HCCL_API HcclResult HcclDeregisterMem(HcclComm comm, HcclMemDesc *desc);
/*
 * Both ranks call it, and each gets the other's descriptors, *actualNum of them. The own rank: nothing. Errors as
 * HcclCommPrepare; E_PARA also: no such rank, more descriptors than remote holds.
 */
HCCL_API HcclResult HcclExchangeMemDesc(HcclComm comm, uint32_t remoteRank, HcclMemDescs *local, int timeout,
					HcclMemDescs *remote, uint32_t *actualNum);
/* Memory of another rank, by its descriptor, for HcclBatchPut and HcclBatchGet. E_PARA: not of HcclRegisterMem(). */
HCCL_API HcclResult HcclEnableMemAccess(HcclComm comm, HcclMemDesc *remoteMemDesc, CommMem *remoteMem);
/* E_NOT_FOUND: not enabled. */
HCCL_API HcclResult HcclDisableMemAccess(HcclComm comm, HcclMemDesc *remoteMemDesc);
/* Nothing is to be done here. E_PTR; E_PARA: 0 elements, memory that is not registered. */
HCCL_API HcclResult HcclRemapRegistedMemory(HcclComm *comm, CommMem *memInfoArray, uint64_t commSize,
					    uint64_t arraySize);

#ifdef __cplusplus
}
#endif

#endif
