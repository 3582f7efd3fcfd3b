/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory: device, pinned and registered host memory, virtual ranges, sharing between processes and
 * devices.  Included by acl_rt.h.
 * Device pointers are never valid for the CPU: touching one from the host faults.  They begin at
 * 0x100000000000, or elsewhere if that range is in use in the process.
 */
#ifndef USDMA_ACL_RT_MEMORY_H
#define USDMA_ACL_RT_MEMORY_H

#include "acl_rt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- device memory --------------------------------------------------------------------------------- */

/*
 * size bytes of the current device's memory, contents undefined, at least 512-byte aligned; the
 * caller's until aclrtFree.  Pages by policy.  Does not wait.  100000: NULL, size 0 or too large;
 * 107002; 207001: exhausted (devPtr is not written).
 */
ACL_FUNC_VISIBILITY aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
/* As aclrtMalloc, without the 32 bytes of slack behind the block. */
ACL_FUNC_VISIBILITY aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
/* As aclrtMalloc with ACL_MEM_MALLOC_NORMAL_ONLY; other policies 207000. */
ACL_FUNC_VISIBILITY aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy);
/*
 * As aclrtMalloc; cfg (may be NULL): MODULE_ID is accepted, DEVICE_ID must name the current device.
 * 100000: as aclrtMalloc, or attrs NULL; 107000: another attribute or device.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocWithCfg(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
						aclrtMallocConfig *cfg);
/* As aclrtMallocWithCfg. */
ACL_FUNC_VISIBILITY aclError aclrtMallocForTaskScheduler(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
							 aclrtMallocConfig *cfg);
/*
 * Frees a block of aclrtMalloc (or aclrtMemAllocManaged).  Does not wait: work that uses it should
 * have ended; its space is reused only after work submitted before has ended.  100000: NULL; 107000: not
 * the start of a live block.
 */
ACL_FUNC_VISIBILITY aclError aclrtFree(void *devPtr);
/* Waits for the current device, then frees.  As aclrtFree, 107002, and a task's error. */
ACL_FUNC_VISIBILITY aclError aclrtFreeWithDevSync(void *devPtr);
/*
 * Free and total bytes of the current device; 0 for a pool that the device lacks. 100000: NULL; 107016: no such
 * attribute; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total);
/*
 * Up to inputNum entries of memory usage by user; outputNum: number of users. 100000: NULL or inputNum 0; 107001:
 * no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum,
						  size_t *outputNum);
/*
 * The class of an address (any address inside a block), its device and page size.  100000: NULL;
 * 507899: a device address that is not allocated.
 */
ACL_FUNC_VISIBILITY aclError aclrtPointerGetAttributes(const void *ptr, aclrtPtrAttributes *attributes);
/*
 * The block that holds ptr; pbase or psize may be NULL.  100000: ptr NULL; 107000: both outputs NULL,
 * or ptr is not in a block.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAddressRange(void *ptr, void **pbase, size_t *psize);
/*
 * checkResult: 1 when all addresses are device memory of memType (ACL_RT_MEM_TYPE_*).  100000: NULL or
 * size 0; 107000: reserve or memType wrong.
 */
ACL_FUNC_VISIBILITY aclError aclrtCheckMemType(void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult,
					       uint32_t reserve);
/* Nothing to do: device memory is coherent.  100000: NULL or size 0. */
ACL_FUNC_VISIBILITY aclError aclrtMemFlush(void *devPtr, size_t size);
/* Nothing to do: device memory is coherent.  100000: NULL or size 0. */
ACL_FUNC_VISIBILITY aclError aclrtMemInvalidate(void *devPtr, size_t size);

/* ---- host memory ----------------------------------------------------------------------------------- */

/*
 * size bytes of pinned host memory for asynchronous copies, at least 64-byte aligned, the caller's
 * until aclrtFreeHost.  100000: NULL or size 0; 107002; 207001: exhausted.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocHost(void **hostPtr, size_t size);
/*
 * As aclrtMallocHost; attributes MODULE_ID, and VA_FLAG 0.  100000: as there, or attrs NULL; 107000:
 * another attribute; 207000: VA_FLAG 1.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocHostWithCfg(void **ptr, uint64_t size, aclrtMallocConfig *cfg);
/* 100000: NULL; 107000: not a live block of aclrtMallocHost. */
ACL_FUNC_VISIBILITY aclError aclrtFreeHost(void *hostPtr);
/* Waits for the current device, then frees.  As aclrtFreeHost, 107002, and a task's error. */
ACL_FUNC_VISIBILITY aclError aclrtFreeHostWithDevSync(void *hostPtr);
/*
 * Pins the caller's memory [ptr, ptr + size) until aclrtHostUnregister; *devPtr: the address that
 * kernels would use.  Both are multiples of 4096.  Memory inside a block of aclrtMallocHost may be
 * registered too, until the block is freed.  type: MAPPED, IOMEMORY, READONLY or the last two together.
 * 100000: NULL or size 0; 207000: another type; 107002; 507899: ptr or size is not aligned; 507910:
 * overlaps a registration; 107000: not all of it is mapped readable and writable; 207001: cannot be pinned.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostRegister(void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr);
/*
 * The same with flags ACL_HOST_REG_*.  PINNED makes copies with the range asynchronous.  100000: NULL
 * or size 0; 107000: no or another flag, or not mapped so; 107002; 507899: not aligned; 507910: overlaps;
 * 207001: cannot be pinned.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostRegisterV2(void *ptr, uint64_t size, uint32_t flag);
/* 100000: NULL; 507911: not the start of a registration. */
ACL_FUNC_VISIBILITY aclError aclrtHostUnregister(void *ptr);
/*
 * The device's address of registered memory (for kernels; copies take the host address).  100000: NULL
 * or flag not 0; 107000: not mapped.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostGetDevicePointer(void *pHost, void **pDevice, uint32_t flag);
/*
 * Whether a component of the device can access host memory: the DMA engines can. 100000: NULL; 107001: no such
 * device; 107000: no such component.
 */
ACL_FUNC_VISIBILITY aclError aclrtHostMemMapCapabilities(uint32_t deviceId, aclrtHacType hacType,
							 aclrtHostMemMapCapability *capabilities);

/* ---- memset ---------------------------------------------------------------------------------------- */

/*
 * Stores the low 8 bits of value into count bytes of device or host memory. Returns when done. 0 for count 0;
 * 100000: NULL; 107000: count > maxCount; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count);
/*
 * The same, in stream order for device memory; host memory is set by the calling thread at once. As aclrtMemset,
 * and 107017, 107003 for the stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
					      aclrtStream stream);
/*
 * Stores the 32-bit value N times. Returns when done. 0 for N 0; 100000: NULL, not 4-aligned, memSize < 4 N, or
 * pageable memory; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N);
/* The same, in stream order for device memory; host memory at once.  As aclrtMemsetD32, and 107017, 107003. */
ACL_FUNC_VISIBILITY aclError aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N,
						 aclrtStream stream);

/* ---- managed memory -------------------------------------------------------------------------------- */

/* 207000: no device here migrates pages.  100000: NULL or flag not ACL_RT_MEM_ATTACH_GLOBAL; 107000: size 0. */
ACL_FUNC_VISIBILITY aclError aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedAdvise(const void *const ptr, uint64_t size,
						   aclrtMemManagedAdviseType advise, aclrtMemManagedLocation location);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchAsync(const void *ptr, size_t size,
							  aclrtMemManagedLocation location, uint32_t flags,
							  aclrtStream stream);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedPrefetchBatchAsync(const void **ptrs, size_t *sizes, size_t count,
							       aclrtMemManagedLocation *prefetchLocs,
							       size_t *prefetchLocIdxs, size_t numPrefetchLocs,
							       uint64_t flags, aclrtStream stream);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute, const void *ptr,
						    size_t size, void *data, size_t dataSize);
/* 207000.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attributes, size_t numAttributes,
						     const void *ptr, size_t size, void **data, size_t *dataSizes);

/* ---- virtual ranges -------------------------------------------------------------------------------- */

/*
 * Reserves size bytes of device addresses (rounded up to 2 MiB) until aclrtReleaseMemAddress; they take no
 * memory, and 32 TiB are usually possible.  expectPtr: NULL, or the address wanted.  flags 0, or 1 for huge
 * pages; alignment 0 or a power of two.  100000: NULL, size 0 or other flags; 107000: the address is
 * unavailable, alignment, or more than 256 TiB; 107002; 207001: the process has not enough addresses left.
 */
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddress(void **virPtr, size_t size, size_t alignment, void *expectPtr,
						    uint64_t flags);
/* 207000: only other devices have such addresses. 100000: NULL or size 0. */
ACL_FUNC_VISIBILITY aclError aclrtReserveMemAddressNoUCMemory(void **virPtr, size_t size, size_t alignment,
							      void *expectPtr, uint64_t flags);
/* 100000: NULL; 107000: not the start of a reservation, or something is still mapped there. */
ACL_FUNC_VISIBILITY aclError aclrtReleaseMemAddress(void *virPtr);
/*
 * Physical memory of a device, or pinned host memory, without an address; size a multiple of the
 * granularity.  100000: NULL, size 0, flags not 0, or a property that does not fit; 107000: size;
 * 107001: no such device; 207001: exhausted.
 */
ACL_FUNC_VISIBILITY aclError aclrtMallocPhysical(aclrtDrvMemHandle *handle, size_t size,
						 const aclrtPhysicalMemProp *prop, uint64_t flags);
/* Invalidates the handle; the memory stays until it is unmapped. 100000: NULL; 107017: not a live handle. */
ACL_FUNC_VISIBILITY aclError aclrtFreePhysical(aclrtDrvMemHandle handle);
/*
 * Maps the whole of handle at virPtr inside a reservation; offset 0.  100000: NULL, size 0, flags not
 * 0; 107000: sizes or granularity differ, not reserved, or mapped already; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtMapMem(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
					 uint64_t flags);
/* As aclrtMapMem; copies are refused until aclrtMemSetAccess. */
ACL_FUNC_VISIBILITY aclError aclrtMemMapNoAccess(void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle,
						 uint64_t flags);
/* 100000: NULL; 107000: not the start of a mapping. */
ACL_FUNC_VISIBILITY aclError aclrtUnmapMem(void *virPtr);
/*
 * Grants READWRITE access to the locations; virPtr and size exactly as mapped. 100000: NULL or count 0; 107000:
 * not mapped, or other flags.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemSetAccess(void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count);
/* The access of a location. 100000: NULL; 107000: not mapped. */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAccess(void *virPtr, aclrtMemLocation *location, uint64_t *flag);
/*
 * 2 MiB for device memory, 1 GiB for HUGE1G, 4 KiB for the host's normal pages (MINIMUM). 100000: NULL; 107000:
 * invalid prop; 207000: no such option.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationGranularity(aclrtPhysicalMemProp *prop,
							      aclrtMemGranularityOptions option, size_t *granularity);
/*
 * Another handle of the memory mapped at virPtr; each must be freed. 100000: NULL; 107000: not the start of a
 * mapping.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemRetainAllocationHandle(void *virPtr, aclrtDrvMemHandle *handle);
/* 100000: NULL; 107017: not a live handle. */
ACL_FUNC_VISIBILITY aclError aclrtMemGetAllocationPropertiesFromHandle(aclrtDrvMemHandle handle,
								       aclrtPhysicalMemProp *prop);
/*
 * A number with which permitted processes can import the memory. flags 0, or 1: any process of this user is
 * permitted. 100000: NULL or type not NONE; 107000: flags, or exported already; 107017; 207000: another process's
 * memory, or a device whose memory cannot be shared.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle, aclrtMemHandleType handleType,
							     uint64_t flags, uint64_t *shareableHandle);
/*
 * The same; shareableHandle: DEFAULT: a uint64_t *; FABRIC: an aclrtMemFabricHandle *, 128 bytes that hold a random key
 * and are valid in all processes of this user on this host. 100000: NULL; 107000: flags, no such type, or DEFAULT and
 * exported already; FABRIC: 107002; 507899: exported already.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
							       aclrtMemSharedHandleType shareType,
							       void *shareableHandle);
/* Permits more processes to import it.  100000: NULL or 0; 107000: no such export. */
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid, size_t pidNum);
/*
 * The same.  100000: NULL or 0; 107000: no such type, no such number, not a FABRIC handle, or FABRIC and all pids 0;
 * FABRIC: 107017: not exported (any more); 507899: exported by another process; 207006: exported for any process.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
							       aclrtMemSharedHandleType shareType, int32_t *pid,
							       size_t pidNum);
/*
 * Imports memory that this or another process exported, for a device; each import is freed with aclrtFreePhysical,
 * in any order with the export. 100000: NULL; 107001: no such device; 107000: no such export; 207006: this process is
 * not permitted; 207001: cannot be mapped here.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
							       aclrtDrvMemHandle *handle);
/*
 * The same, for the current device. 100000: NULL or flags not 0; 107002; 107000: no such type, no such number, or
 * not a FABRIC handle; FABRIC: 107017: nothing is exported under it (any more), or its key is wrong; 507899: this
 * process is not permitted; 207000: of another host or pid namespace.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemImportFromShareableHandleV2(void *shareableHandle,
								 aclrtMemSharedHandleType shareType, uint64_t flags,
								 aclrtDrvMemHandle *handle);
/*
 * Nothing to map: copies between any two devices of this process work.  100000: NULL or size 0; 107000:
 * flags not 0 or not device memory; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags);
/* 207000: there is one link.  100000: NULL or size 0. */
ACL_FUNC_VISIBILITY aclError aclrtMemMapSelectedLink(void *virPtrDst, size_t size, void *virPtrSrc, uint32_t linkIdx);
/* 207000: there is one link.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemMapSetLink(aclrtDrvMemHandle handle, aclrtMemLinkType adviceLink);

/* ---- sharing between processes --------------------------------------------------------------------- */

/*
 * A printable key (64 characters and a NUL; len at least 65) with which other processes can import [devPtr, devPtr
 * + size). flags 0, or 1: any process of this user is permitted. 100000: NULL; 107000: size or len 0 or too small,
 * flags, or not device memory of one block; 207000: another process's memory, or a device whose memory cannot be
 * shared.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len, uint64_t flags);
/* Permits more processes to import it.  100000: NULL; 107000: num 0 or no such key. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num);
/*
 * Maps the memory of another process; unmap it with aclrtIpcMemClose. Both processes must be in one pid namespace
 * with its /proc mounted: otherwise 207000, and the text says which is missing. flags 0, or 1: also enable peer
 * access. 100000: NULL; 107000: flags, or no such key; 107002; 207006: this process is not permitted; 207001:
 * cannot be mapped here.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags);
/* Closes the importer's mapping, or the export itself. 100000: NULL; 107000: no such key. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemClose(const char *key);
/* Accepted for live keys: there is one link.  100000: NULL; 107000: no such attribute or key. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr);
/* As aclrtIpcMemSetImportPid, for processes of this machine.  100000: NULL; 107000: num 0 or no such key. */
ACL_FUNC_VISIBILITY aclError aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids, size_t num);

/* ---- peer access ----------------------------------------------------------------------------------- */

/* 1: copies between the two devices work.  107000: NULL; 100000: the same device; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId);
/*
 * Lets the current device access the peer's memory. 200006: flags not 0; 107002; 100000: the current device
 * itself; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags);
/*
 * Undoes aclrtDeviceEnablePeerAccess. 107002; 100000: the current device itself; 107001: no such device; 107000:
 * not enabled.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId);
/* 1: enabled.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId, int32_t *status);

#ifdef __cplusplus
}
#endif

#endif
