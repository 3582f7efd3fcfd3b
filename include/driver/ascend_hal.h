/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of the driver below ACL that programs call or look up by name: host memory that devices access, memory and
 * addresses apart from each other, numbers of devices. Link with -lascend_hal (beside libascendcl.so).
 *
 * Each does what the ACL function does that its comment names, with the same sizes in bytes and ownership; any thread
 * may call it. A thread without a context uses that of the device, which halDeviceOpen or aclrtSetDevice must have set
 * in this process. Errors: 2 no such device; 3 a value; 4 a handle; 6 no memory; 9 no device is set; 11 no such object;
 * 46 not permitted; 0xfffe not supported here; 7 any other. aclGetRecentErrMsg has the text.
 */
#ifndef USDMA_ASCEND_HAL_H
#define USDMA_ASCEND_HAL_H

#include "ascend_hal_define.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define USDMA_HAL_API __attribute__((visibility("default")))

typedef enum tagDrvError {
	DRV_ERROR_NONE = 0,
	DRV_ERROR_NO_DEVICE = 1,
	DRV_ERROR_INVALID_DEVICE = 2,
	DRV_ERROR_INVALID_VALUE = 3,
	DRV_ERROR_INVALID_HANDLE = 4,
	DRV_ERROR_OUT_OF_MEMORY = 6,
	DRV_ERROR_INNER_ERR = 7,
	DRV_ERROR_PARA_ERROR = 8,
	DRV_ERROR_UNINIT = 9,
	DRV_ERROR_NOT_EXIST = 11,
	DRV_ERROR_OPER_NOT_PERMITTED = 46,
	DRV_ERROR_NOT_SUPPORT = 0xfffe
} drvError_t;

/* How halHostRegister maps. */
enum drvRegisterTpye {
	HOST_MEM_MAP_DEV = 0,         /* host memory for the device */
	HOST_SVM_MAP_DEV = 1,         /* the same */
	DEV_SVM_MAP_HOST = 2,         /* device memory for the CPU: not supported */
	HOST_MEM_MAP_DEV_PCIE_TH = 3, /* as the first */
	DEV_MEM_MAP_HOST = 4          /* not supported */
};

enum drv_mem_side { MEM_HOST_SIDE = 0, MEM_DEV_SIDE = 1, MEM_HOST_NUMA_SIDE = 2, MEM_MAX_SIDE = 3 };
enum drv_mem_pg_type {
	MEM_NORMAL_PAGE_TYPE = 0,
	MEM_HUGE_PAGE_TYPE = 1,
	MEM_GIANT_PAGE_TYPE = 2,
	MEM_MAX_PAGE_TYPE = 3
};
enum drv_mem_type {
	MEM_HBM_TYPE = 0,
	MEM_DDR_TYPE = 1,
	MEM_P2P_HBM_TYPE = 2,
	MEM_P2P_DDR_TYPE = 3,
	MEM_TS_DDR_TYPE = 4,
	MEM_MAX_TYPE = 5
};

/* An aclrtDrvMemHandle. */
typedef struct drv_mem_handle drv_mem_handle_t;

struct drv_mem_prop {
	uint32_t side;  /* enum drv_mem_side */
	uint32_t devid; /* the device, or the NUMA node */
	uint32_t module_id;
	uint32_t pg_type;  /* enum drv_mem_pg_type */
	uint32_t mem_type; /* enum drv_mem_type; on the host side all are the same */
	uint64_t reserve;
};

typedef enum { MEM_HANDLE_TYPE_NONE = 0, MEM_HANDLE_TYPE_FABRIC = 1, MEM_HANDLE_TYPE_MAX = 2 } drv_mem_handle_type;

typedef enum {
	MEM_ALLOC_GRANULARITY_MINIMUM = 0,
	MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
	MEM_ALLOC_GRANULARITY_INVALID = 2
} drv_mem_granularity_options;

typedef enum {
	MEM_ACCESS_TYPE_NONE = 0,
	MEM_ACCESS_TYPE_READ = 1,
	MEM_ACCESS_TYPE_READWRITE = 3,
	MEM_ACCESS_TYPE_MAX = 0x7FFFFFFF
} drv_mem_access_type;

struct drv_mem_location {
	uint32_t id;
	enum drv_mem_side side;
};

struct drv_mem_access_desc {
	drv_mem_access_type type;
	struct drv_mem_location location;
	unsigned int rsv[2];
};

enum ShareHandleAttrType { SHR_HANDLE_ATTR_NO_WLIST_IN_SERVER = 0, SHR_HANDLE_ATTR_TYPE_MAX = 1 };
#define SHR_HANDLE_WLIST_ENABLE 0x0
#define SHR_HANDLE_NO_WLIST_ENABLE 0x1
struct ShareHandleAttr {
	unsigned int enableFlag; /* SHR_HANDLE_NO_WLIST_ENABLE: any process of this user may import it */
	unsigned int rsv[8];
};

/* A drv_mem_handle_type's handle: a number for NONE, a FABRIC handle. */
#define MEM_SHARE_HANDLE_LEN 128
struct MemShareHandle {
	uint8_t share_info[MEM_SHARE_HANDLE_LEN];
};

/* Opaque: nothing is read from them or written to them. */
typedef struct halDevOpenIn halDevOpenIn;
typedef struct halDevOpenOut halDevOpenOut;
typedef struct halDevCloseIn halDevCloseIn;

/* ---- devices --------------------------------------------------------------------------------------- */

/* aclrtGetDeviceCount */
USDMA_HAL_API drvError_t drvGetDevNum(uint32_t *num_dev);
/* The numbers of the first len devices: 0 to len - 1. */
USDMA_HAL_API drvError_t drvGetDevIDs(uint32_t *devices, uint32_t len);
/* aclrtGetPhyDevIdByUserDevId */
USDMA_HAL_API drvError_t drvDeviceGetPhyIdByIndex(uint32_t devIndex, uint32_t *phyId);
/* aclrtGetUserDevIdByPhyDevId */
USDMA_HAL_API drvError_t drvDeviceGetIndexByPhyId(uint32_t phyId, uint32_t *devIndex);
/* rtGetDeviceInfo */
USDMA_HAL_API drvError_t halGetDeviceInfo(uint32_t devId, int32_t moduleType, int32_t infoType, int64_t *value);
/* 1: this is the host's side. */
USDMA_HAL_API drvError_t drvGetPlatformInfo(uint32_t *info);
/* 65, which halMemImportFromShareableHandle takes for the host. */
USDMA_HAL_API drvError_t halGetHostID(uint32_t *host_id);
/* getpid(2) */
USDMA_HAL_API pid_t drvDeviceGetBareTgid(void);
/* aclrtSetDevice */
USDMA_HAL_API drvError_t halDeviceOpen(uint32_t devid, halDevOpenIn *in, halDevOpenOut *out);
/* aclrtResetDevice */
USDMA_HAL_API drvError_t halDeviceClose(uint32_t devid, halDevCloseIn *in);
/* No effect. */
USDMA_HAL_API void halSetRuntimeApiVer(int Version);

/* ---- host memory ----------------------------------------------------------------------------------- */

/*
 * As aclrtHostRegister with ACL_HOST_REGISTER_MAPPED, in any thread: memory until halHostUnregister, and the device's
 * address of it. DRV_ERROR_UNINIT: the process has not opened the device.
 */
USDMA_HAL_API drvError_t halHostRegister(void *srcPtr, uint64_t size, uint32_t flag, uint32_t devid, void **dstPtr);
/* aclrtHostUnregister */
USDMA_HAL_API drvError_t halHostUnregister(void *srcPtr, uint32_t devid);
USDMA_HAL_API drvError_t halHostUnregisterEx(void *srcPtr, uint32_t devid, uint32_t flag);
/* aclrtHostMemMapCapabilities; acc_module_type: an aclrtHacType */
USDMA_HAL_API drvError_t halHostRegisterCapabilities(uint32_t devid, uint32_t acc_module_type, uint32_t *mem_map_cap);

/* ---- addresses and memory -------------------------------------------------------------------------- */

/* aclrtReserveMemAddress; flags: bit 0, huge pages; bits 8 and 9, which name devices that use it, have no effect */
USDMA_HAL_API drvError_t halMemAddressReserve(void **ptr, size_t size, size_t alignment, void *addr, uint64_t flag);
/* aclrtReleaseMemAddress */
USDMA_HAL_API drvError_t halMemAddressFree(void *ptr);
/* aclrtMallocPhysical; the CPU can access memory of the host side where it is mapped */
USDMA_HAL_API drvError_t halMemCreate(drv_mem_handle_t **handle, size_t size, const struct drv_mem_prop *prop,
				      uint64_t flag);
/* aclrtFreePhysical */
USDMA_HAL_API drvError_t halMemRelease(drv_mem_handle_t *handle);
/* aclrtMapMem */
USDMA_HAL_API drvError_t halMemMap(void *ptr, size_t size, size_t offset, drv_mem_handle_t *handle, uint64_t flag);
/* aclrtUnmapMem */
USDMA_HAL_API drvError_t halMemUnmap(void *ptr);
/* aclrtMemSetAccess */
USDMA_HAL_API drvError_t halMemSetAccess(void *ptr, size_t size, struct drv_mem_access_desc *desc, size_t count);
/* aclrtMemGetAccess */
USDMA_HAL_API drvError_t halMemGetAccess(void *ptr, struct drv_mem_location *location, uint64_t *flags);
/* aclrtMemGetAllocationGranularity */
USDMA_HAL_API drvError_t halMemGetAllocationGranularity(const struct drv_mem_prop *prop,
							drv_mem_granularity_options option, size_t *granularity);
/* aclrtMemExportToShareableHandle: processes that are allowed can import it */
USDMA_HAL_API drvError_t halMemExportToShareableHandle(drv_mem_handle_t *handle, drv_mem_handle_type handle_type,
						       uint64_t flags, uint64_t *share_handle);
/* Allows all processes of this user; a list once enabled stays. 11: this process has not exported it. */
USDMA_HAL_API drvError_t halMemShareHandleSetAttribute(uint64_t share_handle, enum ShareHandleAttrType type,
						       struct ShareHandleAttr attr);
/* aclrtMemImportFromShareableHandle; devid: the device that accesses it, or the host's id: the thread's device */
USDMA_HAL_API drvError_t halMemImportFromShareableHandle(uint64_t share_handle, uint32_t devid,
							 drv_mem_handle_t **handle);

/* aclrtMemRetainAllocationHandle */
USDMA_HAL_API drvError_t halMemRetainAllocationHandle(drv_mem_handle_t **handle, void *ptr);
/* aclrtMemSetPidToShareableHandle */
USDMA_HAL_API drvError_t halMemSetPidToShareableHandle(uint64_t share_handle, int pid[], uint32_t pid_num);
/* aclrtMemExportToShareableHandleV2, aclrtMemImportFromShareableHandleV2; devid as above */
USDMA_HAL_API drvError_t halMemExportToShareableHandleV2(drv_mem_handle_t *handle, drv_mem_handle_type handle_type,
							 uint64_t flags, struct MemShareHandle *share_handle);
USDMA_HAL_API drvError_t halMemImportFromShareableHandleV2(drv_mem_handle_type handle_type,
							   struct MemShareHandle *share_handle, uint32_t devid,
							   drv_mem_handle_t **handle);
/* Its number for halMemShareHandleSetAttribute; the server's is 0. 3: it is not of that kind; 0xfffe: another host's.
 */
USDMA_HAL_API drvError_t halMemTransShareableHandle(drv_mem_handle_type handle_type,
						    struct MemShareHandle *share_handle, uint32_t *server_id,
						    uint64_t *shareable_handle);

/* ---- refused: 0xfffe, a copy engine has none of it ------------------------------------------------- */

struct DVattribute;
struct halSqCqInputInfo;
struct halSqCqOutputInfo;
struct halSqCqFreeInfo;
struct halSqCqQueryInfo;
struct halTaskSendInfo;
struct halReportRecvInfo;
struct halResourceIdInputInfo;
struct halResourceIdOutputInfo;
struct halResourceConfigInfo;
struct tag_hal_chip_info;

USDMA_HAL_API drvError_t halGetAPIVersion(int *halAPIVersion);
USDMA_HAL_API drvError_t halGetChipInfo(unsigned int devId, struct tag_hal_chip_info *chipInfo);
USDMA_HAL_API drvError_t halGetDeviceInfoByBuff(uint32_t devId, int32_t moduleType, int32_t infoType, void *buf,
						int32_t *size);
USDMA_HAL_API drvError_t halMemCtl(int type, void *param_value, size_t param_value_size, void *out_value,
				   size_t *out_size_ret);
USDMA_HAL_API drvError_t halMemAlloc(void **pp, unsigned long long size, unsigned long long flag);
USDMA_HAL_API drvError_t halMemFree(void *pp);
USDMA_HAL_API drvError_t drvMemGetAttribute(uint64_t vptr, struct DVattribute *attr);
USDMA_HAL_API drvError_t halSqCqAllocate(uint32_t devId, struct halSqCqInputInfo *in, struct halSqCqOutputInfo *out);
USDMA_HAL_API drvError_t halSqCqFree(uint32_t devId, struct halSqCqFreeInfo *info);
USDMA_HAL_API drvError_t halSqCqQuery(uint32_t devId, struct halSqCqQueryInfo *info);
USDMA_HAL_API drvError_t halSqTaskSend(uint32_t devId, struct halTaskSendInfo *info);
USDMA_HAL_API drvError_t halCqReportRecv(uint32_t devId, struct halReportRecvInfo *info);
USDMA_HAL_API drvError_t halResourceIdAlloc(uint32_t devId, struct halResourceIdInputInfo *in,
					    struct halResourceIdOutputInfo *out);
USDMA_HAL_API drvError_t halResourceIdFree(uint32_t devId, struct halResourceIdInputInfo *in);
USDMA_HAL_API drvError_t halResourceConfig(uint32_t devId, struct halResourceIdInputInfo *in,
					   struct halResourceConfigInfo *para);

#ifdef __cplusplus
}
#endif

#endif
