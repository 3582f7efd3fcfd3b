/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations in graphs. The copies, reductions and notifies of an operation are recorded as ACL calls are. Around them
 * stand two steps of our own, which run at each replay: they register the operation with the monitor, which so aborts a
 * replay as it aborts other operations, and order it behind the last one. A step names the communicator by its handle
 * and the ranks' meeting: a replay fails after the communicator's end, and after HcclCommResume(), which makes the
 * memory and notifies anew that the recorded calls use.
 */
#include "lib/acl/bridge.h"
#include "lib/core/stream/guard.h"
#include "lib/hccl_comm/comm.h"

namespace usdma::hccl_comm {
namespace {

/* -errno of the core for a step that failed; the text is the cause. */
int step_failed()
{
	return fail(ECANCELED, "%s", cause_here().text);
}

struct recorded {
	HcclComm handle;
	u32 meetings;
};

bool is_of(comm *c, const recorded &r)
{
	const std::lock_guard hold(c->state);

	return c->meetings == r.meetings;
}

HcclResult replay(const recorded &r, aclrtStream stream, HcclResult (*step)(comm *c, aclrtStream stream))
{
	const comm_use c(r.handle);

	if (!c)
		return because(HCCL_E_PTR, "the communicator of a recorded operation was destroyed");
	if (!is_of(c, r))
		return because(HCCL_E_UNAVAIL, "the operation was recorded before HcclCommResume()");
	return step(c, stream);
}

HcclResult begin(comm *c, aclrtStream stream)
{
	if (HcclResult ret = operation_begin(c, stream, true))
		return ret;
	const HcclResult ret = wait_for_last(c, stream);
	return ret ? operation_end(c, ret) : HCCL_SUCCESS;
}

HcclResult end(comm *c, aclrtStream stream)
{
	c->touched = true; /* the recorded steps */
	return operation_end(c, record_done(c, stream));
}

template <HcclResult (*Step)(comm *c, aclrtStream stream)> int run(const void *args, core::stream *s)
{
	if (core::stream_is_captured(s))
		return -EINPROGRESS;
	call_begins();
	return replay(*static_cast<const recorded *>(args), core::stream_handle(s), Step) ? step_failed() : 0;
}

HcclResult record(const char *what, comm *c, aclrtStream stream, int (*step)(const void *args, core::stream *s))
{
	const recorded r = {c->handle, c->meetings}; /* under order */

	if (aclError code = usdma_acl_submit(what, stream, step, &r, sizeof(r)))
		return acl_failed("recording an operation", code);
	return HCCL_SUCCESS;
}

} // namespace

bool capturing(aclrtStream stream)
{
	aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
	aclmdlRI unused = nullptr;

	return !aclmdlRICaptureGetInfo(stream, &status, &unused) && status != ACL_MODEL_RI_CAPTURE_STATUS_NONE;
}

HcclResult capture_begin(comm *c, aclrtStream stream)
{
	return record("the begin of an operation", c, stream, run<begin>);
}

HcclResult capture_end(comm *c, aclrtStream stream)
{
	return record("the end of an operation", c, stream, run<end>);
}

HcclResult capture_failed(aclrtStream stream, HcclResult ret)
{
	usdma_acl_end_capture(stream);
	return ret;
}

} // namespace usdma::hccl_comm
