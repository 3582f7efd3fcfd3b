/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels: refused (207000), no device here runs them. */
#ifndef USDMA_RUNTIME_KERNEL_H
#define USDMA_RUNTIME_KERNEL_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RT_DEV_BINARY_MAGIC_ELF 0x43554245U
#define RT_DEV_BINARY_MAGIC_ELF_AICPU 0x41415243U
#define RT_DEV_BINARY_MAGIC_ELF_AIVEC 0x41415246U
#define RT_DEV_BINARY_MAGIC_ELF_AICUBE 0x41494343U

typedef struct tagRtDevBinary {
	uint32_t magic;
	uint32_t version;
	const void *data;
	uint64_t length;
} rtDevBinary_t;

/* Nothing is read from them. */
typedef struct tagRtSmCtrl rtSmDesc_t;
typedef struct tagRtArgsEx rtArgsEx_t;
typedef struct tagRtAicpuArgsEx rtAicpuArgsEx_t;
typedef struct tagRtTaskCfgInfo rtTaskCfgInfo_t;
typedef struct rtCpuKernelArgs rtCpuKernelArgs_t;
typedef struct rtKernelLaunchCfg rtKernelLaunchCfg_t;
typedef struct rtLoadBinaryConfig rtLoadBinaryConfig_t;

ACL_FUNC_VISIBILITY rtError_t rtDevBinaryRegister(const rtDevBinary_t *bin, void **hdl);
ACL_FUNC_VISIBILITY rtError_t rtDevBinaryUnRegister(void *hdl);
ACL_FUNC_VISIBILITY rtError_t rtRegisterAllKernel(const rtDevBinary_t *bin, void **hdl);
ACL_FUNC_VISIBILITY rtError_t rtFunctionRegister(void *binHandle, const void *stubFunc, const char_t *stubName,
						 const void *kernelInfoExt, uint32_t funcMode);
ACL_FUNC_VISIBILITY rtError_t rtGetFunctionByName(const char_t *stubName, void **stubFunc);
ACL_FUNC_VISIBILITY rtError_t rtQueryFunctionRegistered(const char_t *stubName);
ACL_FUNC_VISIBILITY rtError_t rtKernelLaunch(const void *stubFunc, uint32_t blockDim, void *args, uint32_t argsSize,
					     rtSmDesc_t *smDesc, rtStream_t stream);
ACL_FUNC_VISIBILITY rtError_t rtKernelLaunchWithFlag(const void *stubFunc, uint32_t blockDim, rtArgsEx_t *argsInfo,
						     rtSmDesc_t *smDesc, rtStream_t stream, uint32_t flags);
ACL_FUNC_VISIBILITY rtError_t rtKernelLaunchWithFlagV2(const void *stubFunc, uint32_t blockDim, rtArgsEx_t *argsInfo,
						       rtSmDesc_t *smDesc, rtStream_t stream, uint32_t flags,
						       const rtTaskCfgInfo_t *cfgInfo);
ACL_FUNC_VISIBILITY rtError_t rtKernelLaunchWithHandle(void *hdl, const uint64_t tilingKey, uint32_t blockDim,
						       rtArgsEx_t *argsInfo, rtSmDesc_t *smDesc, rtStream_t stream,
						       const void *kernelInfo);
ACL_FUNC_VISIBILITY rtError_t rtKernelLaunchWithHandleV2(void *hdl, const uint64_t tilingKey, uint32_t blockDim,
							 rtArgsEx_t *argsInfo, rtSmDesc_t *smDesc, rtStream_t stream,
							 const rtTaskCfgInfo_t *cfgInfo);
ACL_FUNC_VISIBILITY rtError_t rtAicpuKernelLaunchExWithArgs(const uint32_t kernelType, const char_t *const opName,
							    const uint32_t blockDim, const rtAicpuArgsEx_t *argsInfo,
							    rtSmDesc_t *const smDesc, const rtStream_t stream,
							    const uint32_t flags);
ACL_FUNC_VISIBILITY rtError_t rtsBinaryLoadFromFile(const char *const binPath, const rtLoadBinaryConfig_t *optionalCfg,
						    rtBinHandle *handle);
ACL_FUNC_VISIBILITY rtError_t rtsFuncGetByName(const rtBinHandle binHandle, const char *kernelName,
					       rtFuncHandle *funcHandle);
ACL_FUNC_VISIBILITY rtError_t rtsLaunchCpuKernel(const rtFuncHandle funcHandle, const uint32_t blockDim,
						 rtStream_t stream, const rtKernelLaunchCfg_t *cfg,
						 rtCpuKernelArgs_t *argsInfo);
/* The address at which cores signal each other, and that of the second-level cache. */
ACL_FUNC_VISIBILITY rtError_t rtGetC2cCtrlAddr(uint64_t *addr, uint32_t *len);
ACL_FUNC_VISIBILITY rtError_t rtGetL2CacheOffset(uint32_t deviceId, uint64_t *offset);

#ifdef __cplusplus
}
#endif

#endif
