/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The layer below ACL, in libruntime.so, which is another name of libascendcl.so: what older programs call, or look up
 * by name. A function does what the ACL function does that its comment names, or the one of its own name, and returns
 * its codes; but an argument that is wrong is 107000 here where it is 100000 there. aclGetRecentErrMsg has the text.
 */
#ifndef USDMA_RUNTIME_BASE_H
#define USDMA_RUNTIME_BASE_H

#include "acl/acl_rt.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef RTS_API
#define RTS_API ACL_FUNC_VISIBILITY
#endif

typedef int32_t rtError_t;
static const int32_t RT_ERROR_NONE = 0;

typedef char char_t;
typedef float float32_t;
typedef double float64_t;

typedef void *rtStream_t;
typedef void *rtEvent_t;
typedef void *rtNotify_t;
typedef void *rtContext_t;
typedef void *rtModel_t;
typedef void *rtBinHandle;
typedef void *rtFuncHandle;

typedef enum tagRtDeviceStatus {
	RT_DEVICE_STATUS_NORMAL = 0,
	RT_DEVICE_STATUS_ABNORMAL = 1,
	RT_DEVICE_STATUS_END = 0xFFFF
} rtDeviceStatus;

typedef enum tagRtFloatOverflowMode {
	RT_OVERFLOW_MODE_SATURATION = 0,
	RT_OVERFLOW_MODE_INFNAN = 1,
	RT_OVERFLOW_MODE_UNDEF = 2
} rtFloatOverflowMode_t;

typedef enum tagSysParamOpt {
	SYS_OPT_DETERMINISTIC = 0,
	SYS_OPT_ENABLE_DEBUG_KERNEL = 1,
	SYS_OPT_STRONG_CONSISTENCY = 2,
	SYS_OPT_ENABLE_KERNEL_EARLY_START = 3,
	SYS_OPT_RESERVED = 4
} rtSysParamOpt;

typedef enum tagRTLastErrLevel { RT_THREAD_LEVEL = 0, RT_CONTEXT_LEVEL = 1 } rtLastErrLevel_t;

#endif
