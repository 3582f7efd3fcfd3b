/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies and reductions.  Included by acl_rt.h.
 * 0 bytes: 0 before any check; classes of addresses: see aclrtPointerGetAttributes; "the stream's
 * codes" are 107017 (not a live stream), 107002 (no context), 107003 (another context's stream).
 */
#ifndef USDMA_ACL_RT_COPY_H
#define USDMA_ACL_RT_COPY_H

#include "acl_rt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- copies ---------------------------------------------------------------------------------------- */

/*
 * Copies count bytes and returns when done; does not wait for streams.  The addresses decide the direction.
 * 100000: NULL, or kind not 0 ... 5; 107000: count > destMax, overlapping host memory, or a device
 * address that is not allocated; 107002; 507052: the transfer failed.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
					 aclrtMemcpyKind kind);
/*
 * Copies in stream order.  With pinned host or device memory on both sides: asynchronous, and neither
 * side may be touched before the stream is synchronised.  With pageable memory: waits for the stream,
 * copies, and returns when done.  kind HOST_TO_BUF_TO_DEVICE: src is read before it returns.  100000:
 * NULL, or kind not 0 ... 5; 107000: count > destMax, a kind that does not fit the classes, or a range
 * that extends beyond its block; 507899: a device address that is not allocated; 207000: both sides host
 * memory; the stream's codes; an error of the stream where it has to wait.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
					      aclrtMemcpyKind kind, aclrtStream stream);
/* As aclrtMemcpyAsync. */
ACL_DEPRECATED_MESSAGE("use aclrtMemcpyAsync")
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count,
							   aclrtMemcpyKind kind, aclrtStream stream);
/*
 * height rows of width bytes; pitches in bytes; bytes between rows are not modified.  Returns when done.
 * 100000: NULL, width > a pitch, kind not 1 ... 4; 107000: width > 5000000, height > 5242880, or kind
 * and classes do not fit; 207000: device to device; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
					   size_t height, aclrtMemcpyKind kind);
/*
 * The same in stream order, also device to device; pageable memory as in aclrtMemcpyAsync.  100000 and
 * 107000 as there, and the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
						size_t height, aclrtMemcpyKind kind, aclrtStream stream);
/*
 * numBatches (at most 4096) copies between host and device; attrs[k] gives the locations of the
 * items from attrsIndexes[k] on.  Returns when done.  *failIndex: the invalid item, or SIZE_MAX.  100000:
 * NULL, numBatches 0, destMaxs[i] < sizes[i], or rsv not 0; 107000: attrsIndexes are not 0 and rising,
 * more than 4096, an item's address is not where attrs says, or both sides are of one kind; 507899: an
 * item's device address is not allocated; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
					      size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
					      size_t numAttrs, size_t *failIndex);
/* The same without failIndex. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
						size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
						size_t numAttrs);
/*
 * The same in stream order, with any number of items; pageable items as in aclrtMemcpyAsync.  Items
 * before *failIndex are submitted.  As aclrtMemcpyBatch; 107000 also for an item of size 0 (unless all
 * are) or with NULL; the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
						   size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
						   size_t numAttrs, size_t *failIndex, aclrtStream stream);
/* The same without failIndex. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
						     size_t numBatches, aclrtMemcpyBatchAttr *attrs,
						     size_t *attrsIndexes, size_t numAttrs, aclrtStream stream);

/* ---- descriptors ----------------------------------------------------------------------------------- */

/* Bytes of a descriptor: 32.  100000: NULL or kind above 7; 207000: kind not INNER_DEVICE_TO_DEVICE. */
ACL_FUNC_VISIBILITY aclError aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize);
/*
 * Writes a descriptor (64-byte aligned device memory) at once.  Mind the order: source first.  config:
 * NULL.  100000: NULL, count 0, config, or kind above 7; 207000: kind not INNER_DEVICE_TO_DEVICE;
 * 107000: count > 4 GiB, desc not aligned, or an address that is not the current device's memory;
 * 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr,
						size_t count, void *config);
/*
 * Copies as the descriptor says when the stream reaches it: the addresses are read then.  The stream
 * must not be NULL.  100000: desc or stream NULL, or kind above 7; 207000: kind not
 * INNER_DEVICE_TO_DEVICE; 107000: desc not aligned device memory; the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream stream);
/*
 * dst and src are device addresses of cells that hold base addresses; when the stream reaches it,
 * count bytes go from *src + srcDataOffset to *dst + dstDataOffset.  107000: NULL, kind not
 * INNER_DEVICE_TO_DEVICE, an offset above 2^48 - 1, or count beyond destMax - dstDataOffset; the
 * stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset,
							const void **src, size_t count, size_t srcDataOffset,
							aclrtMemcpyKind kind, aclrtStream stream);

/* ---- symbols --------------------------------------------------------------------------------------- */

/* 207000: there are no kernels, so no symbols.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyFromSymbol(void *dst, size_t dstMax, const void *symbol, size_t count,
						   size_t offset, aclrtMemcpyKind kind);
/* 207000: there are no kernels, so no symbols.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
						 aclrtMemcpyKind kind);
/* 207000: there are no kernels, so no symbols.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyFromSymbolAsync(void *dst, size_t dstMax, const void *symbol, size_t count,
							size_t offset, aclrtMemcpyKind kind, aclrtStream stream);
/* 207000: there are no kernels, so no symbols.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
						      aclrtMemcpyKind kind, aclrtStream stream);

/* ---- reduction ------------------------------------------------------------------------------------- */

/*
 * dst[i] = op(dst[i], src[i]) over count BYTES of device memory, in stream order.  100000: NULL,
 * reserve not NULL, or type; 107000: count 0 or not whole elements, kind, SUM of more than 4 GiB, or
 * not device memory; 207000: the device lacks the type or the operation; 107008: not aligned to the
 * element; the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtReduceAsync(void *dst, const void *src, uint64_t count, aclrtReduceKind kind,
					      aclDataType type, aclrtStream stream, void *reserve);

#ifdef __cplusplus
}
#endif

#endif
