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
 * The last runtime error of this thread (argument errors 100000 do not count); stays.  100000: level
 * is not ACL_RT_THREAD_LEVEL.
 */
ACL_FUNC_VISIBILITY aclError aclrtPeekAtLastError(aclrtLastErrLevel level);
/* The same, and clears it.  100000: level is not ACL_RT_THREAD_LEVEL. */
ACL_FUNC_VISIBILITY aclError aclrtGetLastError(aclrtLastErrLevel level);
/* ACL_HOST: the program runs beside the device.  Needs no context.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtGetRunMode(aclrtRunMode *runMode);

/* ---- devices --------------------------------------------------------------------------------------- */

/*
 * Makes a device the calling thread's, opens it at its first use in the process (counted by process
 * and device), and makes its primary context current.  107001: no such device; 507033: it cannot be
 * opened; what a state callback's device needs.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetDevice(int32_t deviceId);
/*
 * One use less; the last one waits for the device's work, destroys its contexts and streams and closes
 * it.  107001: no such device; 507007: not set.
 */
ACL_FUNC_VISIBILITY aclError aclrtResetDevice(int32_t deviceId);
/* Takes all uses at once.  107001: no such device; 507007: not set. */
ACL_FUNC_VISIBILITY aclError aclrtResetDeviceForce(int32_t deviceId);
/* The device of the current context.  100000: NULL; 107002: the thread has none. */
ACL_FUNC_VISIBILITY aclError aclrtGetDevice(int32_t *deviceId);
/* How many devices there are.  Needs no context.  100000: NULL; 207004: none. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCount(uint32_t *count);
/*
 * Waits for all streams of the current context's device.  107002; a task's error, each stream's once: it stays
 * the stream's, whose own synchronisation returns it too.
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
 * A number that describes the device.  100000: NULL; 107001: no such device; 107000: no such
 * attribute; 207000: this device has no such thing.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t *value);
/* ACL_DEV_FEATURE_SUPPORT or not.  100000: NULL; 107001: no such device; 107000: no such feature. */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType,
						      int32_t *value);
/* 7 and 0 (0 goes first); either pointer may be NULL.  107002. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetStreamPriorityRange(int32_t *leastPriority, int32_t *greatestPriority);
/*
 * Percentages; -1 where the device has no such unit.  100000: NULL; 107001: no such device; 107000:
 * utilizationExtend is not NULL.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo *utilizationInfo);
/* The process id that peers put into their lists of allowed processes.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetBareTgid(int32_t *pid);
/*
 * 16 bytes that name the device: stable for a PCI device, for a software one as long as its process
 * lives.  100000: NULL; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceGetUuid(int32_t deviceId, aclrtUuid *uuid);
/* From a number as this process sees it to the machine's.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t *const logicDevId);
/* From the machine's number to this process's.  100000: NULL; 107001: no such device, or not visible. */
ACL_FUNC_VISIBILITY aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t *const userDevid);
/* The same number, checked.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t *const logicDevId);
/* The same number, checked.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t *const phyDevId);
/* How two devices are joined, ACL_RT_DEVS_TOPOLOGY_*.  100000: NULL; 107001: no such device. */
ACL_FUNC_VISIBILITY aclError aclrtGetDevicesTopo(uint32_t deviceId, uint32_t otherDeviceId, uint64_t *value);
/*
 * Drops all work of the device: each stream with work ends as by aclrtStreamAbort.  Abort callbacks
 * run before and after; timeout in ms, 0: the library's.  107001: no such device; 507007: not set;
 * 207020: not done in time (nothing more begins; a host function still runs, or it took longer);
 * 107020: a host function has been running for USDMA_HANG_MS; 507000: a callback failed.
 */
ACL_FUNC_VISIBILITY aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout);
/*
 * callback runs before and after each aclrtSetDevice and aclrtResetDevice that opens or closes a
 * device, in the calling thread; the same name again replaces it, NULL ends it.  100000: regName NULL;
 * 107000: nothing to end.
 */
ACL_FUNC_VISIBILITY aclError aclrtRegDeviceStateCallback(const char *regName, aclrtDeviceStateCallback callback,
							 void *args);
/*
 * callback runs before and after each aclrtDeviceTaskAbort, in the calling thread; the same name again
 * replaces it, NULL ends it.  What it returns: 0, or else aclrtDeviceTaskAbort says so by 507000 when all
 * is done.  100000: regName NULL; 107000: nothing to end.
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
 * What is known of the device's error: ACL_RT_NO_ERROR, or ACL_RT_ERROR_OTHERS once it is lost.
 * 100000: NULL; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo);

/* ---- contexts -------------------------------------------------------------------------------------- */

/*
 * A new context with a default stream of its own, current for this thread.  Needs no aclrtSetDevice.
 * 100000: NULL; 107001: no such device; 507033: it cannot be opened.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId);
/*
 * Waits for its streams and destroys them with it.  100000: NULL; 107002: a device's primary context,
 * or destroyed already.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyContext(aclrtContext context);
/* For this thread, until the next such call.  100000: NULL; 107000: not a live context. */
ACL_FUNC_VISIBILITY aclError aclrtSetCurrentContext(aclrtContext context);
/* 100000: NULL; 107002: the thread has none. */
ACL_FUNC_VISIBILITY aclError aclrtGetCurrentContext(aclrtContext *context);
/* The stream that NULL stands for.  100000: NULL; 107002: no context. */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream);
/*
 * active: 1 when the device is set somewhere in the process.  flags must be NULL.  100000: active NULL
 * or flags not; 107001: no such device.
 */
ACL_FUNC_VISIBILITY aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active);
/* Remembers a value for the current context.  107000: no such option; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value);
/* 100000: NULL; 107000: no such option; 107002; 107021: never set. */
ACL_FUNC_VISIBILITY aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value);
/* Remembers a value for the process.  107000: no such option. */
ACL_FUNC_VISIBILITY aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value);
/* 100000: NULL; 107000: no such option; 107021: never set. */
ACL_FUNC_VISIBILITY aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value);

#ifdef __cplusplus
}
#endif

#endif
