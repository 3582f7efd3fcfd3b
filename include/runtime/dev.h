/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and contexts. */
#ifndef USDMA_RUNTIME_DEV_H
#define USDMA_RUNTIME_DEV_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tagRtRunMode {
	RT_RUN_MODE_OFFLINE = 0,
	RT_RUN_MODE_ONLINE = 1,
	RT_RUN_MODE_AICPU_SCHED = 2,
	RT_RUN_MODE_RESERVED = 3
} rtRunMode;

#define RT_NPU_UUID_LENGTH (16)
typedef struct tagRtUuid {
	char bytes[RT_NPU_UUID_LENGTH];
} rtUuid_t;

typedef enum {
	RT_RES_TYPE_STARS_NOTIFY_RECORD = 0,
	RT_RES_TYPE_STARS_CNT_NOTIFY_RECORD = 1,
	RT_RES_TYPE_STARS_RTSQ = 2,
	RT_RES_TYPE_CCU_CKE = 3,
	RT_RES_TYPE_CCU_XN = 4,
	RT_RES_TYPE_STARS_CNT_NOTIFY_BIT_WR = 5,
	RT_RES_TYPE_STARS_CNT_NOTIFY_ADD = 6,
	RT_RES_TYPE_STARS_CNT_NOTIFY_BIT_CLR = 7,
	RT_RES_TYPE_MAX = 8
} rtDevResType_t;

typedef enum {
	RT_PROCESS_CP1 = 0,
	RT_PROCESS_CP2 = 1,
	RT_PROCESS_DEV_ONLY = 2,
	RT_PROCESS_QS = 3,
	RT_PROCESS_HCCP = 4,
	RT_PROCESS_USER = 5,
	RT_PROCESS_CPTYPE_MAX = 6
} rtDevResProcType_t;

typedef struct {
	uint32_t dieId;
	rtDevResProcType_t procType;
	rtDevResType_t resType;
	uint32_t resId;
	uint32_t flag;
} rtDevResInfo;

typedef struct {
	uint64_t *resAddress;
	uint32_t *len;
} rtDevResAddrInfo;

/* Nothing is needed: 0. */
ACL_FUNC_VISIBILITY rtError_t rtInit(void);
ACL_FUNC_VISIBILITY rtError_t rtGetDeviceCount(int32_t *count);
/* The numbers of the first len devices. 107000: there are fewer. */
ACL_FUNC_VISIBILITY rtError_t rtGetDeviceIDs(uint32_t *devices, uint32_t len);
ACL_FUNC_VISIBILITY rtError_t rtSetDevice(int32_t deviceId);
ACL_FUNC_VISIBILITY rtError_t rtSetDeviceWithoutTsd(int32_t deviceId);
ACL_FUNC_VISIBILITY rtError_t rtGetDevice(int32_t *deviceId);
/* aclrtResetDevice, aclrtResetDeviceForce */
ACL_FUNC_VISIBILITY rtError_t rtDeviceReset(int32_t deviceId);
ACL_FUNC_VISIBILITY rtError_t rtDeviceResetWithoutTsd(int32_t deviceId);
ACL_FUNC_VISIBILITY rtError_t rtDeviceResetForce(int32_t deviceId);
/* aclrtSynchronizeDevice */
ACL_FUNC_VISIBILITY rtError_t rtDeviceSynchronize(void);
ACL_FUNC_VISIBILITY rtError_t rtDeviceSynchronizeWithTimeout(int32_t timeout);
ACL_FUNC_VISIBILITY rtError_t rtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);
/* aclrtQueryDeviceStatus */
ACL_FUNC_VISIBILITY rtError_t rtDeviceStatusQuery(const uint32_t deviceId, rtDeviceStatus *deviceStatus);
ACL_FUNC_VISIBILITY rtError_t rtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);
ACL_FUNC_VISIBILITY rtError_t rtGetRunMode(rtRunMode *runMode);
/* aclrtGetSocName, with its zero. 107000: it is longer. */
ACL_FUNC_VISIBILITY rtError_t rtGetSocVersion(char_t *ver, const uint32_t maxLen);
/* What aclrtGetDeviceInfo says of the cores. */
ACL_FUNC_VISIBILITY rtError_t rtGetAiCoreCount(uint32_t *aiCoreCnt);
ACL_FUNC_VISIBILITY rtError_t rtGetAiCpuCount(uint32_t *aiCpuCnt);
ACL_FUNC_VISIBILITY rtError_t rtGetIsHeterogenous(int32_t *value);
/* aclrtDeviceGetUuid */
ACL_FUNC_VISIBILITY rtError_t rtGetDeviceUuid(const int32_t deviceId, rtUuid_t *uuid);
/* aclrtDeviceGetBareTgid */
ACL_FUNC_VISIBILITY rtError_t rtDeviceGetBareTgid(uint32_t *pid);
/*
 * The device's number for moduleType 0 with infoType 18 (physical chip) or 26 (super pod's device); 0 for
 * everything else, which a copy engine lacks. 107000: NULL; 107001: no such device.
 */
ACL_FUNC_VISIBILITY rtError_t rtGetDeviceInfo(uint32_t deviceId, int32_t moduleType, int32_t infoType, int64_t *val);
/* aclrtDeviceCanAccessPeer, aclrtDevicePeerAccessStatus */
ACL_FUNC_VISIBILITY rtError_t rtDeviceCanAccessPeer(int32_t *canAccessPeer, uint32_t deviceId, uint32_t peerDeviceId);
ACL_FUNC_VISIBILITY rtError_t rtGetP2PStatus(uint32_t devIdDes, uint32_t phyIdSrc, uint32_t *status);
/* aclrtDeviceEnablePeerAccess from the one to the other, by numbers; Disable.  107001: no such device. */
ACL_FUNC_VISIBILITY rtError_t rtEnableP2P(uint32_t devIdDes, uint32_t phyIdSrc, uint32_t flag);
ACL_FUNC_VISIBILITY rtError_t rtDisableP2P(uint32_t devIdDes, uint32_t phyIdSrc);
ACL_FUNC_VISIBILITY rtError_t rtGetLogicDevIdByUserDevId(const int32_t userDevId, int32_t *const logicDevId);
ACL_FUNC_VISIBILITY rtError_t rtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid);
/* aclrtGetPhyDevIdByUserDevId, and back */
ACL_FUNC_VISIBILITY rtError_t rtGetDevicePhyIdByIndex(uint32_t devIndex, uint32_t *phyId);
ACL_FUNC_VISIBILITY rtError_t rtGetDeviceIndexByPhyId(uint32_t phyId, uint32_t *devIndex);
ACL_FUNC_VISIBILITY rtError_t rtSetDeviceSatMode(rtFloatOverflowMode_t mode);
ACL_FUNC_VISIBILITY rtError_t rtGetDeviceSatMode(rtFloatOverflowMode_t *mode);
ACL_FUNC_VISIBILITY rtError_t rtSetSysParamOpt(const rtSysParamOpt opt, const int64_t value);
ACL_FUNC_VISIBILITY rtError_t rtGetSysParamOpt(const rtSysParamOpt opt, int64_t *const value);
ACL_FUNC_VISIBILITY rtError_t rtSetOpWaitTimeOut(uint32_t timeout);
ACL_FUNC_VISIBILITY rtError_t rtSetOpExecuteTimeOut(uint32_t timeout);
ACL_FUNC_VISIBILITY rtError_t rtSetOpExecuteTimeOutWithMs(uint32_t timeout);
ACL_FUNC_VISIBILITY rtError_t rtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout);
ACL_FUNC_VISIBILITY rtError_t rtGetOpExecuteTimeoutV2(uint32_t *const timeoutMs);
ACL_FUNC_VISIBILITY rtError_t rtGetOpTimeOutInterval(uint64_t *interval);
ACL_FUNC_VISIBILITY rtError_t rtGetLastError(rtLastErrLevel_t level);
ACL_FUNC_VISIBILITY rtError_t rtPeekAtLastError(rtLastErrLevel_t level);
/* Refused: a copy engine has no such addresses. */
ACL_FUNC_VISIBILITY rtError_t rtGetDevResAddress(rtDevResInfo *const resInfo, rtDevResAddrInfo *const addrInfo);
ACL_FUNC_VISIBILITY rtError_t rtReleaseDevResAddress(rtDevResInfo *const resInfo);

/* aclrtCreateContext; flags: 0 */
ACL_FUNC_VISIBILITY rtError_t rtCtxCreate(rtContext_t *context, uint32_t flags, int32_t deviceId);
ACL_FUNC_VISIBILITY rtError_t rtCtxCreateEx(rtContext_t *context, uint32_t flags, int32_t deviceId);
ACL_FUNC_VISIBILITY rtError_t rtCtxDestroy(rtContext_t context);
ACL_FUNC_VISIBILITY rtError_t rtCtxDestroyEx(rtContext_t context);
ACL_FUNC_VISIBILITY rtError_t rtCtxSetCurrent(rtContext_t context);
ACL_FUNC_VISIBILITY rtError_t rtCtxGetCurrent(rtContext_t *context);
/* aclrtGetDevice */
ACL_FUNC_VISIBILITY rtError_t rtCtxGetDevice(int32_t *deviceId);
ACL_FUNC_VISIBILITY rtError_t rtCtxSetSysParamOpt(const rtSysParamOpt opt, const int64_t value);
ACL_FUNC_VISIBILITY rtError_t rtCtxGetSysParamOpt(const rtSysParamOpt opt, int64_t *const value);
ACL_FUNC_VISIBILITY rtError_t rtCtxGetCurrentDefaultStream(rtStream_t *stream);

#ifdef __cplusplus
}
#endif

#endif
