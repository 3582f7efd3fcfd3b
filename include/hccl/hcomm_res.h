/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints, memory and threads of HCOMM (libhcomm.so, which is a name of libhccl.so), on one host. Calls return
 * HcclResult's values; HcclGetErrorString() says why the thread's last one failed. A handle is never that of another
 * object, also after that was destroyed. Any thread may call at any time.
 */
#ifndef USDMA_HCOMM_RES_H
#define USDMA_HCOMM_RES_H

#include "hcomm_channel.h"
#include "hcomm_res_defs.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Of the thread's context, in which its channels then copy; any protocol. E_PTR: NULL; E_PARA: no location or protocol,
 * or a device that is not the thread's; E_RUNTIME: the thread has no context (aclrtSetDevice); E_MEMORY.
 */
HCOMM_API HcommResult HcommEndpointCreate(const EndpointDesc *endpoint, EndpointHandle *endpointHandle);
/* Its channels stay; once they are destroyed, its memory and its imports are. E_NOT_FOUND: no such endpoint. */
HCOMM_API HcommResult HcommEndpointDestroy(EndpointHandle endpointHandle);
/* A number that no other endpoint of this user and host has, until it is destroyed. E_NOT_FOUND; E_PTR; E_UNAVAIL. */
HCOMM_API HcommResult HcommEndpointGetListenPort(EndpointHandle endpointHandle, uint32_t *port);
/* No feature is there: *value is false. E_PTR: NULL; E_PARA: an unknown feature. */
HCOMM_API HcommResult HcommEndpointCheckFeature(HcommEndpointFeatureType featureType, const EndpointDesc *endpointDesc,
						bool *value);

/*
 * Registers memory that other sides may read and write: of a device, or any of the host, also of malloc(), which the
 * other side's CPU then copies. It stays the caller's. memTag: at most 255 characters, or NULL. E_NOT_FOUND: no such
 * endpoint; E_PTR: NULL; E_PARA: size 0, an unknown type, a tag that is too long, not a block of memory; E_AGAIN: it is
 * registered already, *memHandle has one use more; E_MEMORY.
 */
HCOMM_API HcommResult HcommMemReg(EndpointHandle endpointHandle, const char *memTag, const CommMem *mem,
				  HcommMemHandle *memHandle);
/* Sides that have imported it keep it. E_NOT_FOUND: no such endpoint, or memory of it; E_AGAIN: it has uses left. */
HCOMM_API HcommResult HcommMemUnreg(EndpointHandle endpointHandle, HcommMemHandle memHandle);
/*
 * Describes it for HcommMemImport() of another endpoint, of this or another process. *memDesc is valid until it is
 * deregistered. E_NOT_FOUND; E_PTR; E_NOT_SUPPORT: device memory without a file; E_RUNTIME.
 */
HCOMM_API HcommResult HcommMemExport(EndpointHandle endpointHandle, HcommMemHandle memHandle, void **memDesc,
				     uint32_t *memDescLen);
/*
 * outMem: as the exporter registered it, with its address, by which channels to that process then name it. Each import
 * is counted. E_NOT_FOUND: no such endpoint; E_PTR; E_PARA: no such description; E_RUNTIME: lost, or not opened.
 */
HCOMM_API HcommResult HcommMemImport(EndpointHandle endpointHandle, const void *memDesc, uint32_t descLen,
				     CommMem *outMem);
/* E_NOT_FOUND: no such endpoint, or not imported. */
HCOMM_API HcommResult HcommMemUnimport(EndpointHandle endpointHandle, const void *memDesc, uint32_t descLen);
/* Device memory, and its end: aclrtMalloc and aclrtFree. E_PTR, E_PARA: size 0; E_OOM; E_RUNTIME. */
HCOMM_API HcommResult HcommMemAlloc(void **ptr, size_t size);
HCOMM_API HcommResult HcommMemFree(void *ptr);

/*
 * A thread is a stream of the calling thread's context, with notifies. E_PTR: NULL; E_PARA: threadNum 0 or above 200,
 * more than 64 notifies; E_NOT_SUPPORT: the engines AIV and CCU; E_RUNTIME; E_MEMORY.
 */
HCOMM_API HcommResult HcommThreadAlloc(CommEngine engine, uint32_t threadNum, const uint32_t *notifyNumPerThread,
				       ThreadHandle *threads);
/* Over a stream of the caller, which it does not destroy. */
HCOMM_API HcommResult HcommThreadAllocWithStream(CommEngine engine, void *stream, uint32_t notifyNum,
						 ThreadHandle *thread);
/* Waits for its work. E_PTR; E_NOT_FOUND: one is no thread, the others are freed. */
HCOMM_API HcommResult HcommThreadFree(const ThreadHandle *threads, uint32_t threadNum);
/* *info: its aclrtStream. E_PTR; E_PARA: another resource, or infoLen below a pointer's; E_NOT_FOUND. */
HCOMM_API HcommResult HcommThreadResGetInfo(ThreadHandle thread, ThreadResType resType, uint32_t infoLen, void **info);

#ifdef __cplusplus
}
#endif

#endif
