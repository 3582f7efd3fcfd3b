/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and copies. */
#ifndef USDMA_RUNTIME_MEM_H
#define USDMA_RUNTIME_MEM_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of rtMemType_t: one of the kinds, one of the policies. */
#define RT_MEMORY_DEFAULT (0x0U)
#define RT_MEMORY_HBM (0x2U)
#define RT_MEMORY_RDMA_HBM (0x3U)
#define RT_MEMORY_DDR (0x4U)
#define RT_MEMORY_SPM (0x8U)
#define RT_MEMORY_P2P_HBM (0x10U)
#define RT_MEMORY_P2P_DDR (0x11U)
#define RT_MEMORY_DDR_NC (0x20U)
#define RT_MEMORY_TS (0x40U)
#define RT_MEMORY_HOST (0x81U)
#define RT_MEMORY_SVM (0x90U)
#define RT_MEMORY_POLICY_NONE (0x0U)
#define RT_MEMORY_POLICY_HUGE_PAGE_FIRST (0x400U)
#define RT_MEMORY_POLICY_HUGE_PAGE_ONLY (0x800U)
#define RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY (0x1000U)
#define RT_MEMORY_POLICY_HUGE_PAGE_FIRST_P2P (0x2000U)
#define RT_MEMORY_POLICY_HUGE_PAGE_ONLY_P2P (0x4000U)
#define RT_MEMORY_POLICY_DEFAULT_PAGE_ONLY_P2P (0x8000U)
#define RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY (0x10000U)
#define RT_MEMORY_POLICY_HUGE1G_PAGE_ONLY_P2P (0x20000U)
typedef uint32_t rtMemType_t;

typedef enum tagRtMemcpyKind {
	RT_MEMCPY_HOST_TO_HOST = 0,
	RT_MEMCPY_HOST_TO_DEVICE = 1,
	RT_MEMCPY_DEVICE_TO_HOST = 2,
	RT_MEMCPY_DEVICE_TO_DEVICE = 3,
	RT_MEMCPY_MANAGED = 4,               /* 107000 */
	RT_MEMCPY_ADDR_DEVICE_TO_DEVICE = 5, /* 107000 */
	RT_MEMCPY_HOST_TO_DEVICE_EX = 6,     /* ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE */
	RT_MEMCPY_DEVICE_TO_HOST_EX = 7,
	RT_MEMCPY_DEFAULT = 8,
	RT_MEMCPY_RESERVED = 9
} rtMemcpyKind_t;

typedef enum tagRtRecudeKind {
	RT_MEMCPY_SDMA_AUTOMATIC_ADD = 10,
	RT_MEMCPY_SDMA_AUTOMATIC_MAX = 11,
	RT_MEMCPY_SDMA_AUTOMATIC_MIN = 12,
	RT_MEMCPY_SDMA_AUTOMATIC_EQUAL = 13,
	RT_RECUDE_KIND_END = 14
} rtRecudeKind_t;

typedef enum tagRtDataType {
	RT_DATA_TYPE_FP32 = 0,
	RT_DATA_TYPE_FP16 = 1,
	RT_DATA_TYPE_INT16 = 2,
	RT_DATA_TYPE_INT4 = 3,
	RT_DATA_TYPE_INT8 = 4,
	RT_DATA_TYPE_INT32 = 5,
	RT_DATA_TYPE_BFP16 = 6,
	RT_DATA_TYPE_BFP32 = 7,
	RT_DATA_TYPE_UINT8 = 8,
	RT_DATA_TYPE_UINT16 = 9,
	RT_DATA_TYPE_UINT32 = 10,
	RT_DATA_TYPE_END = 11
} rtDataType_t;

/* As aclrtMemAttr. */
typedef enum tagRtMemInfoType {
	RT_MEMORYINFO_DDR = 0,
	RT_MEMORYINFO_HBM = 1,
	RT_MEMORYINFO_DDR_HUGE = 2,
	RT_MEMORYINFO_DDR_NORMAL = 3,
	RT_MEMORYINFO_HBM_HUGE = 4,
	RT_MEMORYINFO_HBM_NORMAL = 5,
	RT_MEMORYINFO_DDR_P2P_HUGE = 6,
	RT_MEMORYINFO_DDR_P2P_NORMAL = 7,
	RT_MEMORYINFO_HBM_P2P_HUGE = 8,
	RT_MEMORYINFO_HBM_P2P_NORMAL = 9,
	RT_MEMORYINFO_HBM_HUGE1G = 10,
	RT_MEMORYINFO_HBM_P2P_HUGE1G = 11
} rtMemInfoType_t;

typedef enum tagRtMemoryType {
	RT_MEMORY_TYPE_HOST = 1,
	RT_MEMORY_TYPE_DEVICE = 2,
	RT_MEMORY_TYPE_SVM = 3,
	RT_MEMORY_TYPE_DVPP = 4,
	RT_MEMORY_TYPE_USER = 5
} rtMemoryType_t;

/* As aclrtMemLocationType. */
typedef enum {
	RT_MEMORY_LOC_HOST = 0,
	RT_MEMORY_LOC_DEVICE = 1,
	RT_MEMORY_LOC_UNREGISTERED = 2,
	RT_MEMORY_LOC_MANAGED = 3,
	RT_MEMORY_LOC_HOST_NUMA = 4,
	RT_MEMORY_LOC_MAX = 5
} rtMemLocationType;

/* aclrtPtrAttributes in the order of this layer. */
typedef struct tagRtPointerAttributes {
	rtMemoryType_t memoryType; /* host or device */
	rtMemLocationType locationType;
	uint32_t deviceID;
	uint32_t pageSize; /* bytes */
} rtPointerAttributes_t;

/*
 * aclrtMallocAlign32 with the policy of type; moduleId has no effect. 107000: also for a kind of memory that is not
 * the device's, as RT_MEMORY_HOST.
 */
ACL_FUNC_VISIBILITY rtError_t rtMalloc(void **devPtr, uint64_t size, rtMemType_t type, const uint16_t moduleId);
/* aclrtMallocCached */
ACL_FUNC_VISIBILITY rtError_t rtMallocCached(void **devPtr, uint64_t size, rtMemType_t type, const uint16_t moduleId);
ACL_FUNC_VISIBILITY rtError_t rtFree(void *devPtr);
ACL_FUNC_VISIBILITY rtError_t rtFreeWithDevSync(void *devPtr);
/* aclrtMallocHost; moduleId has no effect */
ACL_FUNC_VISIBILITY rtError_t rtMallocHost(void **hostPtr, uint64_t size, const uint16_t moduleId);
ACL_FUNC_VISIBILITY rtError_t rtFreeHost(void *hostPtr);
ACL_FUNC_VISIBILITY rtError_t rtFreeHostWithDevSync(void *hostPtr);
/* aclrtMemFlush, aclrtMemInvalidate */
ACL_FUNC_VISIBILITY rtError_t rtFlushCache(void *devPtr, size_t size);
ACL_FUNC_VISIBILITY rtError_t rtInvalidCache(void *devPtr, size_t size);
ACL_FUNC_VISIBILITY rtError_t rtMemcpy(void *dst, uint64_t destMax, const void *src, uint64_t count,
				       rtMemcpyKind_t kind);
ACL_FUNC_VISIBILITY rtError_t rtMemcpyEx(void *dst, uint64_t destMax, const void *src, uint64_t count,
					 rtMemcpyKind_t kind);
ACL_FUNC_VISIBILITY rtError_t rtMemcpyAsync(void *dst, uint64_t destMax, const void *src, uint64_t count,
					    rtMemcpyKind_t kind, rtStream_t stream);
/* aclrtMemcpyAsync; kind is ignored */
ACL_FUNC_VISIBILITY rtError_t rtMemcpyAsyncWithoutCheckKind(void *dst, uint64_t destMax, const void *src,
							    uint64_t count, rtMemcpyKind_t kind, rtStream_t stream);
/* aclrtMemcpyAsync; qosCfg has no effect */
ACL_FUNC_VISIBILITY rtError_t rtMemcpyAsyncWithCfg(void *dst, uint64_t destMax, const void *src, uint64_t count,
						   rtMemcpyKind_t kind, rtStream_t stream, uint32_t qosCfg);
ACL_FUNC_VISIBILITY rtError_t rtMemcpy2d(void *dst, uint64_t dpitch, const void *src, uint64_t spitch, uint64_t width,
					 uint64_t height, rtMemcpyKind_t kind);
ACL_FUNC_VISIBILITY rtError_t rtMemcpy2dAsync(void *dst, uint64_t dpitch, const void *src, uint64_t spitch,
					      uint64_t width, uint64_t height, rtMemcpyKind_t kind, rtStream_t stream);
ACL_FUNC_VISIBILITY rtError_t rtMemset(void *devPtr, uint64_t maxCount, uint32_t value, uint64_t count);
ACL_FUNC_VISIBILITY rtError_t rtMemsetAsync(void *devPtr, uint64_t maxCount, uint32_t value, uint64_t count,
					    rtStream_t stream);
/* aclrtReduceAsync; destMax has no effect */
ACL_FUNC_VISIBILITY rtError_t rtReduceAsync(void *dst, uint64_t destMax, const void *src, uint64_t count,
					    rtRecudeKind_t kind, rtDataType_t type, rtStream_t stream);
/* aclrtGetMemInfo */
ACL_FUNC_VISIBILITY rtError_t rtMemGetInfo(size_t *freeSize, size_t *totalSize);
ACL_FUNC_VISIBILITY rtError_t rtMemGetInfoEx(rtMemInfoType_t memInfoType, size_t *freeSize, size_t *totalSize);
ACL_FUNC_VISIBILITY rtError_t rtPointerGetAttributes(rtPointerAttributes_t *attributes, const void *ptr);
/* aclrtIpcMemGetExportKey with flags 0 */
ACL_FUNC_VISIBILITY rtError_t rtIpcSetMemoryName(const void *ptr, uint64_t byteCount, char_t *name, uint32_t len);
/* aclrtIpcMemSetImportPid; sdid is ignored: it names a machine of a pod, and there is only one */
ACL_FUNC_VISIBILITY rtError_t rtSetIpcMemorySuperPodPid(const char_t *name, uint32_t sdid, int32_t *pid, int32_t num);
/* aclrtIpcMemSetImportPid */
ACL_FUNC_VISIBILITY rtError_t rtSetIpcMemPid(const char_t *name, int32_t *pid, int32_t num);
/* aclrtIpcMemClose, by the exporter */
ACL_FUNC_VISIBILITY rtError_t rtIpcDestroyMemoryName(const char_t *name);
/* aclrtIpcMemImportByKey with flags 0 */
ACL_FUNC_VISIBILITY rtError_t rtIpcOpenMemory(void **ptr, const char_t *name);
/* aclrtIpcMemClose, by the importer's address.  107000: not imported. */
ACL_FUNC_VISIBILITY rtError_t rtIpcCloseMemory(const void *ptr);

#ifdef __cplusplus
}
#endif

#endif
