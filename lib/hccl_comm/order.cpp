/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations of a communicator follow each other, whatever their streams. */
#include "driver/base/grow.h"
#include "lib/hccl_comm/comm.h"

#include <algorithm>

namespace usdma::hccl_comm {
namespace {

bool is_complete(const stream_end &e)
{
	aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;

	(void)aclrtQueryEventStatus(e.done, &status);
	return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

stream_end newest(comm *c)
{
	const std::lock_guard hold(c->state);

	return c->streams.empty() ? stream_end() : c->streams.back();
}

HcclResult make_end(comm *c)
{
	stream_end made;

	if (aclError code = aclrtCreateEventWithFlag(&made.done, ACL_EVENT_SYNC))
		return acl_failed("aclrtCreateEventWithFlag", code);
	if (try_push(c->streams, made))
		return HCCL_SUCCESS;
	(void)aclrtDestroyEvent(made.done);
	return because(HCCL_E_MEMORY, "no memory for the end of an operation");
}

/* The stream's, that of one which is complete, or another one: the newest now. */
HcclResult take_end(comm *c, aclrtEvent *done)
{
	const std::lock_guard hold(c->state);
	auto at = std::find_if(c->streams.begin(), c->streams.end(),
			       [=](const stream_end &e) { return e.last.stream == c->active.stream; });

	if (at == c->streams.end())
		at = std::find_if(c->streams.begin(), c->streams.end(), is_complete);
	if (at != c->streams.end())
		std::rotate(at, at + 1, c->streams.end());
	else if (HcclResult ret = make_end(c))
		return ret;
	c->streams.back().last = c->active;
	*done = c->streams.back().done;
	return HCCL_SUCCESS;
}

} // namespace

HcclResult wait_for_last(comm *c, aclrtStream stream)
{
	const stream_end before = newest(c);

	if (!before.done || before.last.stream == stream)
		return HCCL_SUCCESS;
	if (aclError code = aclrtStreamWaitEvent(stream, before.done))
		return acl_failed("aclrtStreamWaitEvent", code);
	return HCCL_SUCCESS;
}

HcclResult record_done(comm *c, aclrtStream stream)
{
	aclrtEvent done = nullptr;

	if (HcclResult ret = take_end(c, &done))
		return ret;
	if (aclError code = aclrtRecordEvent(done, stream))
		return acl_failed("aclrtRecordEvent", code);
	return HCCL_SUCCESS;
}

HcclResult check_streams(const comm *c, bool *complete)
{
	aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;

	for (const stream_end &e : c->streams)
		if (const aclError code = aclrtQueryEventStatus(e.done, &status))
			return acl_failed("an operation in its stream", code);
	*complete = status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
	return HCCL_SUCCESS;
}

bool next_pending(comm *c, u32 i, operation *out)
{
	const std::lock_guard hold(c->state);

	if (i > c->streams.size())
		return false;
	const stream_end *const e = i ? &c->streams[c->streams.size() - i] : nullptr;
	*out = !e ? c->active : is_complete(*e) ? operation() : e->last;
	return true;
}

void drop_streams(comm *c)
{
	for (const stream_end &e : c->streams)
		(void)aclrtDestroyEvent(e.done);
	c->streams.clear();
}

} // namespace usdma::hccl_comm
