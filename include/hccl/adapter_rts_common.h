/* SPDX-License-Identifier: BSD-3-Clause */
/* C++ only. */
/* HCCL's names for operations of the runtime below it. */
#ifndef USDMA_HCCL_ADAPTER_RTS_COMMON_H
#define USDMA_HCCL_ADAPTER_RTS_COMMON_H

#include "hccl_common.h"

typedef enum {
	HCCL_RT_MEMCPY_KIND_HOST_TO_HOST = 0,
	HCCL_RT_MEMCPY_KIND_HOST_TO_DEVICE = 1,
	HCCL_RT_MEMCPY_KIND_DEVICE_TO_HOST = 2,
	HCCL_RT_MEMCPY_KIND_DEVICE_TO_DEVICE = 3,
	HCCL_RT_MEMCPY_ADDR_DEVICE_TO_DEVICE = 4,
	HCCL_RT_MEMCPY_KIND_RESERVED
} HcclRtMemcpyKind;

/*
 * Copies in the stream's order.  count 0: HCCL_SUCCESS, nothing enqueued.
 * E_PTR: dst, src or stream NULL; E_PARA: kind, or destMax < count; E_RUNTIME: the ACL call failed.
 */
extern "C" USDMA_HCCL_API HcclResult hrtMemAsyncCopy(void *dst, uint64_t destMax, const void *src, uint64_t count,
						     HcclRtMemcpyKind kind, rtStream_t stream);

#endif
