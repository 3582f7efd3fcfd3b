/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the layer below ACL that programs look up with dlsym in libascendcl.so, or in libruntime.so, which is
 * another name of it.  Each behaves as the ACL function named in its comment and returns its codes.
 */
#ifndef USDMA_ACL_RT_COMPAT_H
#define USDMA_ACL_RT_COMPAT_H

#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* aclrtDeviceGetBareTgid */
ACL_FUNC_VISIBILITY int32_t rtDeviceGetBareTgid(uint32_t *pid);
/*
 * The device's number for moduleType 0 with infoType 18 (physical chip) or 26 (super pod's device); 0 for
 * everything else, which a copy engine lacks. 107000: NULL; 107001: no such device.
 */
ACL_FUNC_VISIBILITY int32_t rtGetDeviceInfo(uint32_t deviceId, int32_t moduleType, int32_t infoType, int64_t *val);
/* aclrtIpcMemGetExportKey with flags 0 */
ACL_FUNC_VISIBILITY int32_t rtIpcSetMemoryName(const void *ptr, uint64_t byteCount, char *name, uint32_t len);
/* aclrtIpcMemSetImportPid; sdid is ignored: it names a machine of a pod, and there is only one */
ACL_FUNC_VISIBILITY int32_t rtSetIpcMemorySuperPodPid(const char *name, uint32_t sdid, int32_t *pid, int32_t num);
/* aclrtIpcMemSetImportPid */
ACL_FUNC_VISIBILITY int32_t rtSetIpcMemPid(const char *name, int32_t *pid, int32_t num);
/* aclrtIpcMemClose, by the exporter */
ACL_FUNC_VISIBILITY int32_t rtIpcDestroyMemoryName(const char *name);
/* aclrtIpcMemImportByKey with flags 0 */
ACL_FUNC_VISIBILITY int32_t rtIpcOpenMemory(void **ptr, const char *name);
/* aclrtIpcMemClose, by the importer's address.  107000: not imported. */
ACL_FUNC_VISIBILITY int32_t rtIpcCloseMemory(const void *ptr);
/* aclrtDeviceEnablePeerAccess from the one to the other, by numbers; Disable.  107001: no such device. */
ACL_FUNC_VISIBILITY int32_t rtEnableP2P(uint32_t devIdDes, uint32_t phyIdSrc, uint32_t flag);
ACL_FUNC_VISIBILITY int32_t rtDisableP2P(uint32_t devIdDes, uint32_t phyIdSrc);
/* aclrtGetLogicDevIdByUserDevId */
ACL_FUNC_VISIBILITY int32_t rtGetLogicDevIdByUserDevId(const int32_t userDevId, int32_t *const logicDevId);
/* aclrtGetPhyDevIdByUserDevId, and back */
ACL_FUNC_VISIBILITY int32_t rtGetDevicePhyIdByIndex(uint32_t devIndex, uint32_t *phyId);
ACL_FUNC_VISIBILITY int32_t rtGetDeviceIndexByPhyId(uint32_t phyId, uint32_t *devIndex);
/* A number of the stream's queue, aclrtStreamGetId: there is no queue behind it that a program could write to. */
ACL_FUNC_VISIBILITY int32_t rtStreamGetSqid(const void *stm, uint32_t *sqId);
/* The same number twice. */
ACL_FUNC_VISIBILITY int32_t rtStreamGetCqid(const void *stm, uint32_t *cqId, uint32_t *logicCqId);
/* Refused: a notify here has no address. */
ACL_FUNC_VISIBILITY int32_t rtNotifyGetAddrOffset(void *notify, uint64_t *devAddrOffset);

/* aclrtPtrAttributes in the order of this layer. */
typedef struct tagRtPointerAttributes {
	uint32_t memoryType; /* 1 host, 2 device */
	aclrtMemLocationType locationType;
	uint32_t deviceID;
	uint32_t pageSize; /* bytes */
} rtPointerAttributes_t;

/* aclrtPointerGetAttributes */
ACL_FUNC_VISIBILITY int32_t rtPointerGetAttributes(rtPointerAttributes_t *attributes, const void *ptr);
/* aclrtMemcpyAsync; kind is ignored */
ACL_FUNC_VISIBILITY int32_t rtMemcpyAsyncWithoutCheckKind(void *dst, uint64_t destMax, const void *src, uint64_t cnt,
							  uint32_t kind, void *stm);

#ifdef __cplusplus
}
#endif

#endif
