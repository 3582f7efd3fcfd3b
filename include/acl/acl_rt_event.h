/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events.  Included by acl_rt.h.
 * Three kinds: Default (aclrtCreateEvent), Flag (aclrtCreateEventWithFlag), Ex
 * (aclrtCreateEventExWithFlag); they differ in what "never recorded" means; 107017 is a handle
 * that is not a live event's.
 */
#ifndef USDMA_ACL_RT_EVENT_H
#define USDMA_ACL_RT_EVENT_H

#include "acl_rt_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- events ---------------------------------------------------------------------------------------- */

/* Creates a Default event, with SYNC and TIME_LINE. 100000: NULL; 107002; 207007: none left. */
ACL_FUNC_VISIBILITY aclError aclrtCreateEvent(aclrtEvent *event);
/*
 * Creates a Flag event: ACL_EVENT_* bits. 100000: NULL; 107000: no or unknown bits, or a bit that cannot be
 * combined with others; 107002; 207007.
 */
ACL_FUNC_VISIBILITY aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag);
/* Creates an Ex event: SYNC, CAPTURE_STREAM_PROGRESS, TIME_LINE, or IPC alone. Codes as aclrtCreateEventWithFlag. */
ACL_FUNC_VISIBILITY aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag);
/* The handle is invalid at once; pending waits for the event still complete. 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtDestroyEvent(aclrtEvent event);
/*
 * The event is reached when all work submitted to the stream so far has ended; replaces an earlier
 * record.  100000: event NULL; 107017; 107003; 107002.
 */
ACL_FUNC_VISIBILITY aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream);
/* The same.  100000: event NULL or flag above 1; 207000: EXTERNAL. */
ACL_FUNC_VISIBILITY aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag);
/* Makes the event never recorded, in stream order. 100000: event NULL; 107017; 107003; 207000: Ex, or no SYNC. */
ACL_FUNC_VISIBILITY aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream);
/* COMPLETE (also when never recorded) or NOT_READY.  100000: NULL; 107017; 207000: Ex. */
ACL_DEPRECATED_MESSAGE("use aclrtQueryEventStatus")
ACL_FUNC_VISIBILITY aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status);
/* COMPLETE (1) or NOT_READY (0).  Never recorded: Ex COMPLETE, others NOT_READY.  100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status);
/* COMPLETE when no wait for it is pending.  100000: NULL; 107017; 207000: Ex. */
ACL_FUNC_VISIBILITY aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status);
/*
 * Waits until it is reached; 0 at once when never recorded.  100000: NULL; 107017; an error of the
 * stream that it was recorded on, which stays pending there.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEvent(aclrtEvent event);
/*
 * At most timeout ms (-1: for ever).  100000: NULL; 107000: timeout 0 or below -1; 107017; 507047: not
 * in time; an error of the stream.
 */
ACL_FUNC_VISIBILITY aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout);
/*
 * Milliseconds from start to end, resolution about 1 us; may be negative.  100000: NULL; 107017;
 * 507000: never recorded; 107006: not reached yet, or without TIME_LINE.
 */
ACL_FUNC_VISIBILITY aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent);
/* Microseconds on the device's clock.  Codes as aclrtEventElapsedTime. */
ACL_FUNC_VISIBILITY aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp);
/*
 * Work submitted to the stream from now on waits for the event's latest record, also of another
 * device.  Never recorded: Default 107000, Flag waits for the next record, Ex does nothing.  100000:
 * event NULL; 107017; 107003; 207000: no SYNC.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event);
/*
 * The same; timeout in seconds, 0: for ever; expiry is an error of the stream.  107000: timeout below
 * 0; as aclrtStreamWaitEvent.
 */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout);
/* The same.  100000: event NULL or flag above 1; 207000: EXTERNAL. */
ACL_FUNC_VISIBILITY aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout,
							  uint32_t flag);
/* A small integer. 100000: NULL; 107017. */
ACL_FUNC_VISIBILITY aclError aclrtGetEventId(aclrtEvent event, uint32_t *eventId);
/* How many more events can be created. 100000: NULL; 107002. */
ACL_FUNC_VISIBILITY aclError aclrtGetEventAvailNum(uint32_t *eventCount);
/*
 * A 64-byte handle with which another process opens the event. 100000: NULL; 107017; 107000: not an Ex event with
 * ACL_EVENT_IPC.
 */
ACL_FUNC_VISIBILITY aclError aclrtIpcGetEventHandle(aclrtEvent event, aclrtIpcEventHandle *handle);
/* Opens an event of another process, to record, wait for, query and destroy. 100000: NULL; 107000: no such event. */
ACL_FUNC_VISIBILITY aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *event);

#ifdef __cplusplus
}
#endif

#endif
