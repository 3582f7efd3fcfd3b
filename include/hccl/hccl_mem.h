/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
/* Memory of HCCL that a process describes to another one, which maps it; by devices of hccl_net_dev.h. */
#ifndef USDMA_HCCL_MEM_H
#define USDMA_HCCL_MEM_H

#include "hccl_comm.h"
#include "hcomm_res_defs.h"

extern "C" {

typedef void *HcclNetDev;
using HcclNetDevCtx = void *;

typedef enum { HCCL_MEM_TYPE_DEVICE = 0, HCCL_MEM_TYPE_HOST = 1, HCCL_MEM_TYPE_NUM = 2 } HcclMemType;

typedef struct {
	HcclMemType type;
	void *addr;
	uint64_t size;
} HcclMem;

typedef struct {
	void *addr;
	uint64_t len;
	void *handle;
} HcclBuf;

typedef struct {
	uint32_t remoteSdid;
	int32_t remotePid;
} HcclMemGrantInfo;

/*
 * Registers memory, which stays the caller's. E_PTR: NULL; E_PARA: size 0, an unknown type, not a block of device
 * memory, no such device; E_AGAIN: the same is registered, and has one use more; E_INTERNAL: it overlaps other memory
 * of that device; E_MEMORY.
 */
HCCL_API HcclResult HcclMemReg(HcclNetDev netDev, const HcclMem *mem, HcclBuf *buf);
/* E_PTR; E_PARA: not registered; E_AGAIN: it has uses left. */
HCCL_API HcclResult HcclMemDereg(const HcclBuf *buf);
/* *outDesc is valid until it is deregistered. E_PTR; E_PARA: not registered; E_NOT_SUPPORT: memory without a file. */
HCCL_API HcclResult HcclMemExport(HcclBuf *buf, char **outDesc, uint64_t *outDescLen);
/* Lets a process import it, after HcclMemExport(). E_PTR; E_PARA: not registered; E_RUNTIME. */
HCCL_API HcclResult HcclMemGrant(HcclBuf *localBuf, const HcclMemGrantInfo *remoteGrantInfo);
/*
 * outBuf->addr: where the memory is in this process, for the copies of ACL; until HcclMemClose(). E_PTR; E_PARA: no
 * such description, no such device; E_NOT_SUPPORT: host memory of another process; E_RUNTIME: not granted, lost.
 */
HCCL_API HcclResult HcclMemImport(const char *description, uint32_t descLen, bool isRemote, HcclBuf *outBuf,
				  HcclNetDevCtx netDevCtx);
/* E_PTR; E_PARA: not imported. */
HCCL_API HcclResult HcclMemClose(HcclBuf *buf);
/* Nothing is to be done here. E_PTR; E_PARA: no elements, no such device, memory that is not registered there. */
HCCL_API HcclResult HcclMemRemap(HcclNetDev netDev, const HcclMem *memArray, uint64_t arraySize);

} // extern "C"

#endif
