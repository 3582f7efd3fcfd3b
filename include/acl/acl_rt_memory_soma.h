/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream-ordered memory pools.  Included by acl_rt.h.
 * Memory of a pool belongs to the work of a stream between aclrtMemPoolMallocAsync and
 * aclrtMemPoolFreeAsync; freed blocks are cached for the next allocation.
 */
#ifndef USDMA_ACL_RT_MEMORY_SOMA_H
#define USDMA_ACL_RT_MEMORY_SOMA_H

#include "acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
	ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 0x1,
	ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC = 0x2,
	ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 0x3,
	ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD = 0x4,
	ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT = 0x5,
	ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH = 0x6,
	ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT = 0x7,
	ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH = 0x8
} aclrtMemPoolAttr;

typedef struct {
	aclrtMemAllocationType allocType; /* PINNED */
	aclrtMemHandleType handleType;    /* NONE */
	aclrtMemLocation location;        /* DEVICE and its id */
	size_t maxSize;
	unsigned char reserved[32];
} aclrtMemPoolProps;

/* ---- pools ----------------------------------------------------------------------------------------- */

/*
 * Creates a pool of a device's memory. maxSize: bytes, 0: no limit. 100000: NULL, allocType not PINNED, location
 * not DEVICE; 107001: no such device; 107000: handleType not NONE.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps);
/* Blocks in use stay valid until they are freed. 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolDestroy(const aclrtMemPool memPool);
/*
 * The reuse switches (uint32_t, 0 or 1), the release threshold (uint64_t, most bytes cached), and the high marks
 * (uint64_t, only 0). 100000: NULL; 107000: no such attribute, or read-only; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);
/* As above; memory attributes are uint64_t bytes.  100000: NULL; 107000: no such attribute; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value);
/*
 * size bytes for work submitted to the stream from now on (size 0: does nothing, returns 0). 100000: NULL, also
 * the stream; 107017; 107003; 207001: exhausted, or over maxSize; 507013 and its kind: the stream has stopped.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool, aclrtStream stream);
/*
 * Frees the block when the stream gets to this call. 100000: NULL, also the stream; 107000: not a live block of a
 * pool; 107017; 107003; 507013 and its kind: the stream has stopped, and the block stays.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolFreeAsync(void *ptr, aclrtStream stream);
/* Releases unused memory until the pool holds at most minBytesToKeep. 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep);

#ifdef __cplusplus
}
#endif

#endif
