/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams.  Included by acl_rt.h.
 * Work of one stream runs in the order of submission; streams are unordered among each other; a
 * task's error is returned by the next synchronisation of its stream; "107017" is a handle that is
 * not a live stream's.
 */
#ifndef USDMA_ACL_RT_STREAM_H
#define USDMA_ACL_RT_STREAM_H

#include "acl_rt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- streams --------------------------------------------------------------------------------------- */

/*
 * Creates a stream on the current context's device, the caller's until aclrtDestroyStream. 100000: NULL; 107002;
 * 207008: none left.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateStream(aclrtStream *stream);
/*
 * The same. priority: any value is clamped to the device's range, which is 0 alone: all streams have the same
 * priority. flag: ACL_STREAM_*, unknown bits are ignored. 100000: NULL; 107002; 207008.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag);
/* The same from a configuration; NULL: the defaults.  100000: stream NULL; 107002; 207008. */
ACL_FUNC_VISIBILITY aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle);
/* A configuration with the defaults, the caller's until aclrtDestroyStreamConfigHandle.  NULL: no host memory. */
ACL_FUNC_VISIBILITY aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void);
/* 100000: NULL. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle);
/*
 * FLAG: 4 or 8 bytes; PRIORITY: 4 bytes, 0 ... 7 (see above); WORK_ADDR_PTR and WORK_SIZE: 8 bytes.  100000: NULL,
 * attribute, size or value wrong.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr,
						     const void *attrValue, size_t valueSize);
/*
 * Waits for its work. 100000: NULL; 107017; 107003: another context's; 107000: a default stream. Also returns the
 * first failure of its work that no synchronisation has returned: the stream is destroyed nevertheless.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStream(aclrtStream stream);
/*
 * Drops its work. When it returns, none of its host functions and callbacks runs or will start (except the one
 * that makes this call). Codes as aclrtDestroyStream; 107020: one has been running for USDMA_HANG_MS.
 */
ACL_FUNC_VISIBILITY aclError aclrtDestroyStreamForce(aclrtStream stream);
/* Waits for its work; NULL: the default stream.  107017; 107002; the first error of its tasks; 107023: aborted. */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStream(aclrtStream stream);
/*
 * At most timeout ms (-1: for ever).  107000: timeout 0 or below -1; 107017; 107002; 507046: not done
 * in time (the work goes on); a task's error.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout);
/* COMPLETE or NOT_READY; does not wait and takes no error.  100000: NULL; 107017; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status);
/* A small integer, unique among live streams. 100000: NULL; 107017; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId);
/* Gives 0, the priority of every stream. 100000: NULL; 107017; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority);
/* As given at creation.  100000: NULL; 107017; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags);
/* How many more streams can be created. 100000: NULL; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtGetStreamAvailableNum(uint32_t *streamCount);
/*
 * Bit 0: stop after the first failed task.  107017; 107003; 207000: from stop back to continue;
 * 107000: the default stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode);
/* 100000: value NULL; 107000: no such attribute, or value; 107017; 107003; as aclrtSetStreamFailureMode. */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
						     aclrtStreamAttrValue *value);
/* 100000: value NULL; 107000: no such attribute; 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtGetStreamAttribute(aclrtStream stream, aclrtStreamAttr stmAttrType,
						     aclrtStreamAttrValue *value);
/*
 * Stops the running work and drops the rest; from then on the stream's calls return 107023 until it is destroyed.
 * When it returns, none of its host functions and callbacks runs or will start (except the one that makes this
 * call). 107017; 107003; 107020: one has been running for USDMA_HANG_MS.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamAbort(aclrtStream stream);
/* As aclrtStreamAbort. 107017; 107003. */
ACL_FUNC_VISIBILITY aclError aclrtStreamStop(aclrtStream stream);
/* For ACL_STREAM_PERSISTENT streams. 207000: streams retain no tasks here. 107017. */
ACL_FUNC_VISIBILITY aclError aclrtPersistentTaskClean(aclrtStream stream);
/* 207000: streams are never inactive here.  107017. */
ACL_FUNC_VISIBILITY aclError aclrtActiveStream(aclrtStream activeStream, aclrtStream stream);
/*
 * callback runs after a stream was created and before one is destroyed, in the calling thread; registering the
 * same name again replaces it, NULL removes it. 100000: regName NULL; 107000: not registered.
 */
ACL_FUNC_VISIBILITY aclError aclrtRegStreamStateCallback(const char *regName, aclrtStreamStateCallback callback,
							 void *args);
/* A number that grows with each task that this thread submits.  100000: NULL; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtGetThreadLastTaskId(uint32_t *taskId);
/* 207000: no arithmetic here overflows.  107017. */
ACL_FUNC_VISIBILITY aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
/* 0: off.  100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag);
/* Timeout in seconds of later waits for events and notifies without their own; 0: none. */
ACL_FUNC_VISIBILITY aclError aclrtSetOpWaitTimeout(uint32_t timeout);

#ifdef __cplusplus
}
#endif

#endif
