/* SPDX-License-Identifier: BSD-3-Clause */
/* Task groups of captures. Only kernels could be in one: groups are empty, and their update changes nothing. */
#include "lib/acl/capture_model.h"

namespace usdma::acl {

inline constexpr size_t max_groups = 65536;
static constinit core::no_destructor<core::slab<task_group, max_groups, core::handle_kind::task_group>>
	groups; /* under capture_lock */

aclError group_allows_task(const char *call, const captured_stream *b)
{
	model *m = b->of;

	if (likely(!m->group_in))
		return ACL_SUCCESS;
	if (m->group_in == b)
		return fault(call, ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, "only kernels can be in a task group");
	capture_invalidate(m);
	return fault(call, ACL_ERROR_STREAM_TASK_GROUP_INTR, "stream %p has an open task group", m->group_in->handle);
}

void groups_end(const model *m)
{
	std::lock_guard guard(capture_lock);

	for (size_t at = 0; task_group *g = groups->next(&at, [=](const task_group &o) { return o.of == m; });) {
		core::handle_end(g, reinterpret_cast<void *>(g->alive));
		groups->put(g);
	}
}

static aclError wrong_status(const char *call, const char *what)
{
	return fault(call, ACL_ERROR_STREAM_TASK_GROUP_STATUS, "%s", what);
}

/* With capture_lock held, up to begin_update(). */
static aclError get_capturing(const char *call, const core::stream *s, captured_stream **b)
{
	const aclError err = capture_of(call, s, b);

	if (!err && (*b)->of->at == phase::invalidated)
		return fault(call, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "an earlier error has ended the capture");
	return err;
}

static aclError end_group(const char *call, const captured_stream *b, aclrtTaskGrp *out)
{
	if (b->of->group_in != b)
		return wrong_status(call, "no task group is open in this stream");
	task_group *g = groups->get();
	if (!g)
		return core_fault(call, groups->fail_full(ENOSPC, "task groups"), at::memory);
	b->of->group_in = nullptr;
	g->of = b->of;
	groups->publish(g);
	*out = reinterpret_cast<void *>(g->alive);
	return ACL_SUCCESS;
}

static task_group *updated_in(const void *stream)
{
	size_t at = 0;

	return groups->next(&at, [=](const task_group &g) { return g.updated_in == stream; });
}

static aclError begin_update(const char *call, const void *stream, const void *handle)
{
	task_group *g = groups->find(handle);

	if (!g)
		return fault(call, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live task group", handle);
	if (g->updated_in || updated_in(stream))
		return wrong_status(call, "the group or the stream is in an update already");
	g->updated_in = stream;
	return ACL_SUCCESS;
}

/* Gets a stream that does not capture. */
static aclError get_live(const char *call, aclrtStream handle, stream_guard *s)
{
	const aclError err = get_stream(call, handle, s);

	return err ? err : captures(*s) ? stream_captured(call, *s) : ACL_SUCCESS;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclmdlRICaptureTaskGrpBegin(aclrtStream stream)
{
	stream_guard s;
	captured_stream *b;

	if (!stream)
		return bad_arg(__func__, "stream is NULL");
	aclError err = get_stream(__func__, stream, &s);
	if (err)
		return err;
	std::lock_guard guard(capture_lock);
	err = get_capturing(__func__, s, &b);
	if (err)
		return err;
	if (b->of->group_in)
		return wrong_status(__func__, "a task group of this capture is open");
	b->of->group_in = b;
	return ACL_SUCCESS;
}

aclError aclmdlRICaptureTaskGrpEnd(aclrtStream stream, aclrtTaskGrp *handle)
{
	stream_guard s;
	captured_stream *b;

	if (!stream || !handle)
		return bad_arg(__func__, "%s is NULL", stream ? "handle" : "stream");
	aclError err = get_stream(__func__, stream, &s);
	if (err)
		return err;
	std::lock_guard guard(capture_lock);
	err = get_capturing(__func__, s, &b);
	return err ? err : end_group(__func__, b, handle);
}

aclError aclmdlRICaptureTaskUpdateBegin(aclrtStream stream, aclrtTaskGrp handle)
{
	stream_guard s;

	if (!stream || !handle)
		return bad_arg(__func__, "%s is NULL", stream ? "handle" : "stream");
	const aclError err = get_live(__func__, stream, &s);
	if (err)
		return err;
	std::lock_guard guard(capture_lock);
	return begin_update(__func__, stream, handle);
}

aclError aclmdlRICaptureTaskUpdateEnd(aclrtStream stream)
{
	stream_guard s;

	if (!stream)
		return bad_arg(__func__, "stream is NULL");
	const aclError err = get_live(__func__, stream, &s);
	if (err)
		return err;
	std::lock_guard guard(capture_lock);
	task_group *g = updated_in(stream);
	if (!g)
		return wrong_status(__func__, "no update is open in this stream");
	g->updated_in = nullptr;
	return ACL_SUCCESS;
}

} // extern "C"
