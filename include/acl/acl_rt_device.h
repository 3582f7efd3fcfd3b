/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices, contexts, and the settings of both.  Included by acl_rt.h.
 * Device numbers count the devices that this process may use, from 0: those of ASCEND_RT_VISIBLE_DEVICES, whose
 * numbers must ascend, or all.  "No context" is 107002.
 */
#ifndef USDMA_ACL_RT_DEVICE_H
#define USDMA_ACL_RT_DEVICE_H

#include "acl_rt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---------------------------------------------------------------------------------------- */

/*
 * The last runtime error of this thread (argument errors 100000 do not count), without clearing it. 100000: level
 * is not ACL_RT_THREAD_LEVEL.
 */
ACL_FUNC_VISIBILITY aclError aclrtPeekAtLastError(aclrtLastErrLevel level);
/* As aclrtPeekAtLastError, and clears it. 100000: level is not ACL_RT_THREAD_LEVEL. */
ACL_FUNC_VISIBILITY aclError aclrtGetLastError(aclrtLastErrLevel level);
/* ACL_HOST: the program runs on the host. Needs no context. 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode *runMode);

/* ---- devices --------------------------------------------------------------------------------------- */

/*
 * Sets the calling thread's device, opens it at its first use in the process (counted by process and device), and
 * makes its primary context current. 107001: no such device; 507033: it cannot be opened.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);
/*
 * Drops one aclrtSetDevice reference; the last one waits for the device's work, destroys its contexts and streams
 * and closes it. 107001: no such device; 507007: not set.
 */
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);
/* Drops all aclrtSetDevice references. 107001: no such device; 507007: not set. */
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);
/* The device of the current context.  100000: NULL; 107002: the thread has none. */
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t *deviceId);
/* Number of devices. Needs no context. 100000: NULL; 207004: none. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t *count);
/*
 * Waits for all streams of the current context's device. 107002; a task's error, each stream's once: it stays
 * pending in the stream, whose own synchronisation returns it too.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDevice(void);
/*
 * The same, at most timeout ms (-1: for ever).  107000: timeout 0 or below -1; 107002; 507046: not
 * done in time (the work goes on); a task's error.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout);
/* NORMAL, or ABNORMAL once the device is lost.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus);
/*
 * An attribute of the device. 100000: NULL; 107001: no such device; 107000: no such attribute; 207000: the device
 * does not have it.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);
/* ACL_DEV_FEATURE_SUPPORT or not.  100000: NULL; 107001: no such device; 107000: no such feature. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType,
						      int32_t *value);
/* Priorities 0 and 0: all streams have the same. Either pointer may be NULL. 107002. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);
/*
 * Percentages; -1 for parts that the device lacks. 100000: NULL; 107001: no such device; 107000: utilizationExtend
 * is not NULL.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo);
/* The process id that peers add to their lists of allowed processes. 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetBareTgid(int32_t *pid);
/*
 * 16 bytes that identify the device: stable for a PCI device, for a software one for the lifetime of its process.
 * 100000: NULL; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid);
/* Converts this process's device number to the machine's. 100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId);
/* Converts the machine's device number to this process's. 100000: NULL; 107001: no such device, or not visible. */
ACL_FUNC_VISIBILITY aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid);
/* The same number, checked.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId);
/* The same number, checked.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId);
/* How two devices are connected, ACL_RT_DEVS_TOPOLOGY_*. 100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetDevicesTopo(uint32_t deviceId, uint32_t otherDeviceId, uint64_t *value);
/*
 * Drops all work of the device: each stream with work is aborted as by aclrtStreamAbort. Abort callbacks run
 * before and after; timeout in ms, 0: the library's. 107001: no such device; 507007: not set; 207020: not done in
 * time (no more work starts; a host function still runs, or it took longer); 107020: a host function has been
 * running for USDMA_HANG_MS; 507000: a callback failed.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);
/*
 * callback runs before and after each aclrtSetDevice and aclrtResetDevice that opens or closes a device, in the
 * calling thread; registering the same name again replaces it, NULL removes it. 100000: regName NULL; 107000: not
 * registered.
 */
ACL_FUNC_VISIBILITY aclError aclrtRegDeviceStateCallback(const char *regName, aclrtDeviceStateCallback callback,
							 void *args);
/*
 * callback runs before and after each aclrtDeviceTaskAbort, in the calling thread; registering the same name again
 * replaces it, NULL removes it. If it returns non-zero, aclrtDeviceTaskAbort completes and then returns 507000.
 * 100000: regName NULL; 107000: not registered.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceTaskAbortCallback(const char *regName, aclrtDeviceTaskAbortCallback callback,
							     void *args);
/* No effect (one scheduler).  100000: no such tsId. */
ACL_FUNC_VISIBILITY aclError aclrtSetTsDevice(aclrtTsId tsId);
/* 207000: a copy engine has no cores to limit. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t *value);
/* 207000: a copy engine has no cores to limit. */
ACL_FUNC_VISIBILITY aclError aclrtSetDeviceResLimit(int32_t deviceId, aclrtDevResLimitType type, uint32_t value);
/* 207000: a copy engine has no cores to limit. */
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceResLimit(int32_t deviceId);
/* 207000: a copy engine has no cores to limit. */
ACL_FUNC_VISIBILITY aclError aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value);
/*
 * The device's error: ACL_RT_NO_ERROR, or ACL_RT_ERROR_OTHERS once it is lost. 100000: NULL; 107001: no such
 * device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo);

/* ---- contexts -------------------------------------------------------------------------------------- */

/*
 * Creates a context with its own default stream and makes it current for this thread. Needs no aclrtSetDevice.
 * 100000: NULL; 107001: no such device; 507033: it cannot be opened.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);
/*
 * Waits for the context's streams and destroys them and the context. 100000: NULL; 107002: a device's primary
 * context, or destroyed already.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);
/* Sets this thread's current context. 100000: NULL; 107000: not a live context. */
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);
/* 100000: NULL; 107002: the thread has none. */
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext *context);
/* The stream that NULL selects.  100000: NULL; 107002: no context. */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);
/*
 * active: 1 when the device is set somewhere in the process.  flags must be NULL.  100000: active NULL
 * or flags not; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active);
/* Stores an option of the current context. 107000: no such option; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
/* 100000: NULL; 107000: no such option; 107002; 107021: never set. */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
/* Stores an option of the process. 107000: no such option. */
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
/* 100000: NULL; 107000: no such option; 107021: never set. */
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

#ifdef __cplusplus
}
#endif

#endif
