/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Callbacks, words that streams write and wait for, notifies, cache operations.  Included by
 * acl_rt.h.
 * Callbacks must not call functions of this library that wait, allocate or submit.
 */
#ifndef USDMA_ACL_RT_SYNC_H
#define USDMA_ACL_RT_SYNC_H

#include "acl_rt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- callbacks ------------------------------------------------------------------------------------- */

/*
 * Makes the stream's callbacks run in aclrtProcessReport of thread threadId (its pthread_self()). 107017; 107003;
 * 107011: subscribed already; 107012: the thread serves another device.
 */
ACL_FUNC_VISIBILITY aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream);
/* 107017; 107003; 107011: not subscribed; 107012: to another thread. */
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream);
/*
 * Waits at most timeout ms (-1: for ever) for a callback of this thread's streams and runs all that are ready.
 * 100000: timeout 0 or below -1; 107012: the thread is not subscribed; 507012: none in time.
 */
ACL_FUNC_VISIBILITY aclError aclrtProcessReport(int32_t timeout);
/*
 * Runs fn(userData) in the subscribed thread when all work before has ended; BLOCK: the stream continues after fn
 * has returned. 100000: blockType; 107000: fn NULL; 107017; 107003; 107015: no thread is subscribed.
 */
ACL_FUNC_VISIBILITY aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType,
						 aclrtStream stream);
/*
 * Runs fn(args) in the library's thread for this context when all work before has ended; the stream continues
 * after fn has returned. 107000: fn NULL; 107017; 107003.
 *
 * Within a function that a stream waits for (this call's, or BLOCK) calls return 207000 if they would wait for
 * that stream, for one that waits for it by an event, or for another function of the same thread: to synchronise
 * or destroy the stream, an event after the function, the context, the device; a copy of pageable memory in the
 * stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args);
/* As aclrtSubscribeReport, for functions of aclrtLaunchHostFunc: they run in aclrtProcessHostFunc of that thread. */
ACL_FUNC_VISIBILITY aclError aclrtSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream);
/* As aclrtProcessReport, for functions of aclrtLaunchHostFunc. */
ACL_FUNC_VISIBILITY aclError aclrtProcessHostFunc(int32_t timeout);
/* As aclrtUnSubscribeReport, for functions of aclrtLaunchHostFunc. */
ACL_FUNC_VISIBILITY aclError aclrtUnSubscribeHostFunc(uint64_t hostFuncThreadId, aclrtStream exeStream);
/* callback runs once for each failed task, when a synchronisation takes its error; NULL: none. */
ACL_DEPRECATED
ACL_FUNC_VISIBILITY aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback);

/* ---- words ----------------------------------------------------------------------------------------- */

/*
 * Stores a 64-bit value in device memory, in stream order; devAddr 8-byte aligned.  100000: NULL;
 * 107000: flag not 0, not device memory, not aligned; the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);
/*
 * The stream waits until the 64-bit word compares (ACL_STREAM_WAIT_VALUE_*), without a timeout. 100000: NULL;
 * 107000: flag above 3, not device memory, not aligned; the stream's codes.
 */
ACL_FUNC_VISIBILITY aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream);

/* ---- notifies -------------------------------------------------------------------------------------- */

/*
 * Creates a flag of the current device that one stream sets and another waits for. 100000: NULL; 107000: flag
 * above 1; 107002; 207009: none left.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag);
/* 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyNotify(aclrtNotify notify);
/* Sets it, in stream order.  100000: NULL; 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream);
/*
 * Waits until it is set and clears it, in stream order; timeout in seconds, 0 and 0xFFFFFFFF: for
 * ever; expiry is an error of the stream (107020).  100000: NULL; 107017; 107003; 107000: an imported
 * one.
 */
ACL_FUNC_VISIBILITY aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout);
/* 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtGetNotifyId(aclrtNotify notify, uint32_t *notifyId);
/* Clears them at once.  100000: NULL; 107000: num 0; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num);
/*
 * A printable key (len at least 65) with which another process can record it. flags 0, or
 * ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION. 100000: NULL; 107000: len or flags; 107017.
 */
ACL_FUNC_VISIBILITY aclError aclrtNotifyGetExportKey(aclrtNotify notify, char *key, size_t len, uint64_t flags);
/* Permits more processes to import it. 100000: NULL; 107000: num 0, or not exported; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtNotifySetImportPid(aclrtNotify notify, int32_t *pid, size_t num);
/*
 * Opens a notify of another process, to record and destroy. 100000: NULL; 107000: flags or no such key; 207006:
 * this process is not permitted; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtNotifyImportByKey(aclrtNotify *notify, const char *key, uint64_t flags);
/*
 * Creates a counter of the current device that streams change and wait for. 100000: NULL; 107000: flag above 1;
 * 107002; 207009.
 */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyCreate(aclrtCntNotify *cntNotify, uint64_t flag);
/* 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyDestroy(aclrtCntNotify cntNotify);
/* Changes the count as info says, in stream order.  100000: NULL; 107000: mode; 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyRecord(aclrtCntNotify cntNotify, aclrtStream stream,
						  aclrtCntNotifyRecordInfo *info);
/*
 * Waits until the count compares, in stream order.  100000: NULL; 107000: mode; 107017; 107003; expiry
 * is an error of the stream (107020).
 */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyWaitWithTimeout(aclrtCntNotify cntNotify, aclrtStream stream,
							   aclrtCntNotifyWaitInfo *info);
/* Sets the count to 0, in stream order. 100000: NULL; 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyReset(aclrtCntNotify cntNotify, aclrtStream stream);
/* 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtCntNotifyGetId(aclrtCntNotify cntNotify, uint32_t *notifyId);

/* ---- cache ----------------------------------------------------------------------------------------- */

/* A hint; nothing to do: memory is coherent.  100000: NULL or size 0; 107000: cmoType; the stream's codes. */
ACL_FUNC_VISIBILITY aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream);
/* 207000: there are no barriers.  100000: NULL or size 0. */
ACL_FUNC_VISIBILITY aclError aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId,
						      aclrtStream stream);
/* 207000: there are no barriers.  100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream stream, uint32_t flag);

#ifdef __cplusplus
}
#endif

#endif
