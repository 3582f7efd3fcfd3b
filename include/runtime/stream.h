/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams, events, notifies, captures. */
#ifndef USDMA_RUNTIME_STREAM_H
#define USDMA_RUNTIME_STREAM_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of streams: of ACL_STREAM_*, with other values; DEFAULT, FORCE_COPY, FORBIDDEN_DEFAULT, HEAD have no effect. */
#define RT_STREAM_DEFAULT 0x000U
#define RT_STREAM_PERSISTENT 0x001U
#define RT_STREAM_FORCE_COPY 0x002U
#define RT_STREAM_HUGE 0x004U
#define RT_STREAM_AICPU 0x008U
#define RT_STREAM_CPU_SCHEDULE RT_STREAM_AICPU
#define RT_STREAM_FORBIDDEN_DEFAULT 0x010U
#define RT_STREAM_HEAD 0x020U
#define RT_STREAM_FAST_LAUNCH 0x200U
#define RT_STREAM_FAST_SYNC 0x400U
#define RT_STREAM_CP_PROCESS_USE 0x800U /* ACL_STREAM_DEVICE_USE_ONLY */

typedef enum {
	RT_STREAM_CREATE_ATTR_FLAGS = 1,
	RT_STREAM_CREATE_ATTR_PRIORITY = 2,
	RT_STREAM_CREATE_ATTR_MAX = 3
} rtStreamCreateAttrId;

typedef union {
	uint32_t flags;
	uint32_t priority;
	uint32_t rsv[4];
} rtStreamCreateAttrValue_t;

typedef struct {
	rtStreamCreateAttrId id;
	rtStreamCreateAttrValue_t value;
} rtStreamCreateAttr_t;

typedef struct {
	rtStreamCreateAttr_t *attrs;
	size_t numAttrs;
} rtStreamCreateConfig_t;

typedef aclmdlRICaptureMode rtStreamCaptureMode;

/* As aclmdlRICaptureStatus. */
typedef enum tagRtStreamCaptureStatus {
	RT_STREAM_CAPTURE_STATUS_NONE = 0,
	RT_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	RT_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
	RT_STREAM_CAPTURE_STATUS_MAX = 3
} rtStreamCaptureStatus;

/* As ACL_EVENT_*; DDSYNC is ACL_EVENT_SYNC. */
#define RT_EVENT_DDSYNC_NS 0x01U
#define RT_EVENT_STREAM_MARK 0x02U
#define RT_EVENT_DDSYNC 0x04U
#define RT_EVENT_TIME_LINE 0x08U
#define RT_EVENT_MC2 0x10U
#define RT_EVENT_EXTERNAL 0x20U
#define RT_EVENT_IPC 0x40U
#define RT_EVENT_DEFAULT (RT_EVENT_DDSYNC | RT_EVENT_TIME_LINE | RT_EVENT_STREAM_MARK)

/* As aclrtEventRecordedStatus and aclrtEventWaitStatus. */
typedef enum rtEventStatus { RT_EVENT_INIT = 0, RT_EVENT_RECORDED = 1 } rtEventStatus_t;
typedef enum rtEventWaitStatus {
	EVENT_STATUS_COMPLETE = 0,
	EVENT_STATUS_NOT_READY = 1,
	EVENT_STATUS_MAX = 2
} rtEventWaitStatus_t;

/* aclrtCreateStreamWithConfig. cfg NULL: priority and flags are 0. 107000: an unknown attribute. */
ACL_FUNC_VISIBILITY rtError_t rtStreamCreate(rtStream_t *stream, int32_t priority);
ACL_FUNC_VISIBILITY rtError_t rtStreamCreateWithFlags(rtStream_t *stream, int32_t priority, uint32_t flags);
ACL_FUNC_VISIBILITY rtError_t rtsStreamCreate(rtStream_t *stream, rtStreamCreateConfig_t *cfg);
ACL_FUNC_VISIBILITY rtError_t rtStreamDestroy(rtStream_t stream);
ACL_FUNC_VISIBILITY rtError_t rtStreamDestroyForce(rtStream_t stream);
/* aclrtSynchronizeStream */
ACL_FUNC_VISIBILITY rtError_t rtStreamSynchronize(rtStream_t stream);
ACL_FUNC_VISIBILITY rtError_t rtStreamSynchronizeWithTimeout(rtStream_t stream, int32_t timeout);
/* aclrtStreamQuery. 507004: it has work. */
ACL_FUNC_VISIBILITY rtError_t rtStreamQuery(rtStream_t stream);
ACL_FUNC_VISIBILITY rtError_t rtStreamAbort(rtStream_t stream);
ACL_FUNC_VISIBILITY rtError_t rtStreamWaitEvent(rtStream_t stream, rtEvent_t event);
ACL_FUNC_VISIBILITY rtError_t rtStreamWaitEventWithTimeout(rtStream_t stream, rtEvent_t event, uint32_t timeout);
/* aclrtStreamGetId */
ACL_FUNC_VISIBILITY rtError_t rtGetStreamId(rtStream_t stream, int32_t *streamId);
ACL_FUNC_VISIBILITY rtError_t rtStreamGetPriority(const rtStream_t stream, uint32_t *priority);
ACL_FUNC_VISIBILITY rtError_t rtStreamGetFlags(const rtStream_t stream, uint32_t *flags);
/* A number of the stream's queue, aclrtStreamGetId: there is no queue behind it that a program could write to. */
ACL_FUNC_VISIBILITY rtError_t rtStreamGetSqid(const void *stm, uint32_t *sqId);
/* The same number twice. */
ACL_FUNC_VISIBILITY rtError_t rtStreamGetCqid(const void *stm, uint32_t *cqId, uint32_t *logicCqId);
/* aclrtGetStreamAvailableNum, aclrtGetEventAvailNum; streamType has no effect */
ACL_FUNC_VISIBILITY rtError_t rtGetAvailStreamNum(const uint32_t streamType, uint32_t *const streamCount);
ACL_FUNC_VISIBILITY rtError_t rtGetAvailEventNum(uint32_t *const eventCount);
ACL_FUNC_VISIBILITY rtError_t rtSetStreamOverflowSwitch(rtStream_t stream, uint32_t flag);
ACL_FUNC_VISIBILITY rtError_t rtGetStreamOverflowSwitch(rtStream_t stream, uint32_t *flag);
/* aclmdlRICaptureBegin and so on */
ACL_FUNC_VISIBILITY rtError_t rtStreamBeginCapture(rtStream_t stream, const rtStreamCaptureMode mode);
ACL_FUNC_VISIBILITY rtError_t rtStreamEndCapture(rtStream_t stream, rtModel_t *modelRI);
ACL_FUNC_VISIBILITY rtError_t rtStreamGetCaptureInfo(rtStream_t stream, rtStreamCaptureStatus *const status,
						     rtModel_t *modelRI);
ACL_FUNC_VISIBILITY rtError_t rtThreadExchangeCaptureMode(rtStreamCaptureMode *mode);

/* aclrtCreateEvent; with RT_EVENT_DEFAULT, too, other flags are aclrtCreateEventWithFlag's. */
ACL_FUNC_VISIBILITY rtError_t rtEventCreate(rtEvent_t *event);
ACL_FUNC_VISIBILITY rtError_t rtEventCreateWithFlag(rtEvent_t *event, uint32_t flag);
ACL_FUNC_VISIBILITY rtError_t rtEventCreateExWithFlag(rtEvent_t *event, uint32_t flag);
ACL_FUNC_VISIBILITY rtError_t rtEventDestroy(rtEvent_t event);
ACL_FUNC_VISIBILITY rtError_t rtEventRecord(rtEvent_t event, rtStream_t stream);
ACL_FUNC_VISIBILITY rtError_t rtEventReset(rtEvent_t event, rtStream_t stream);
ACL_FUNC_VISIBILITY rtError_t rtEventSynchronize(rtEvent_t event);
ACL_FUNC_VISIBILITY rtError_t rtEventSynchronizeWithTimeout(rtEvent_t event, const int32_t timeout);
/* aclrtQueryEventStatus. 507006: it is not complete. */
ACL_FUNC_VISIBILITY rtError_t rtEventQuery(rtEvent_t event);
ACL_FUNC_VISIBILITY rtError_t rtEventQueryStatus(rtEvent_t event, rtEventStatus_t *status);
ACL_FUNC_VISIBILITY rtError_t rtEventQueryWaitStatus(rtEvent_t event, rtEventWaitStatus_t *status);
ACL_FUNC_VISIBILITY rtError_t rtEventElapsedTime(float32_t *ms, rtEvent_t startEvent, rtEvent_t endEvent);
ACL_FUNC_VISIBILITY rtError_t rtEventGetTimeStamp(uint64_t *timestamp, rtEvent_t event);
/* aclrtGetEventId */
ACL_FUNC_VISIBILITY rtError_t rtGetEventID(rtEvent_t event, uint32_t *eventId);

/* aclrtCreateNotify; deviceId is that of the thread, or 107000 */
ACL_FUNC_VISIBILITY rtError_t rtNotifyCreate(int32_t deviceId, rtNotify_t *notify);
ACL_FUNC_VISIBILITY rtError_t rtNotifyCreateWithFlag(int32_t deviceId, rtNotify_t *notify, uint32_t flag);
ACL_FUNC_VISIBILITY rtError_t rtNotifyDestroy(rtNotify_t notify);
ACL_FUNC_VISIBILITY rtError_t rtNotifyRecord(rtNotify_t notify, rtStream_t stream);
/* aclrtNotifyBatchReset of one */
ACL_FUNC_VISIBILITY rtError_t rtNotifyReset(rtNotify_t notify);
/* aclrtWaitAndResetNotify */
ACL_FUNC_VISIBILITY rtError_t rtNotifyWait(rtNotify_t notify, rtStream_t stream);
ACL_FUNC_VISIBILITY rtError_t rtNotifyWaitWithTimeOut(rtNotify_t notify, rtStream_t stream, uint32_t timeout);
/* aclrtGetNotifyId */
ACL_FUNC_VISIBILITY rtError_t rtGetNotifyID(rtNotify_t notify, uint32_t *notifyId);
/* aclrtNotifyGetExportKey, aclrtNotifyImportByKey with flags 0 */
ACL_FUNC_VISIBILITY rtError_t rtIpcSetNotifyName(rtNotify_t notify, char_t *key, uint32_t len);
ACL_FUNC_VISIBILITY rtError_t rtIpcOpenNotify(rtNotify_t *notify, const char_t *key);
/* Refused: a notify here has no address. */
ACL_FUNC_VISIBILITY rtError_t rtNotifyGetAddrOffset(rtNotify_t notify, uint64_t *devAddrOffset);
/* Refused: a thread's last stream is not stored. */
ACL_FUNC_VISIBILITY rtError_t rtGetTaskIdAndStreamID(uint32_t *taskId, uint32_t *streamId);

#ifdef __cplusplus
}
#endif

#endif
