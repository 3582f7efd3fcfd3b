/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream capture: the calls that are recorded. */
#include "lib/acl/capture_model.h"
#include "lib/acl/event.h"

namespace usdma::acl {

/* ---- calls and copies; with the lock held -------------------------------------------------------------- */

/* A failure to record spoils the capture. */
static aclError invalidate_no_memory(const char *call, captured_stream *b)
{
	capture_invalidate(b->of);
	return core_fault(call, no_memory("a captured call"), at::memory);
}

/* A new last step of the stream; nullptr: no memory. */
static step *add_step(captured_stream *b)
{
	model *m = b->of;

	if (!try_push(m->steps))
		return nullptr;
	b->last = m->steps.size() - 1;
	b->record = nullptr;
	m->steps.back().stream = b->index;
	return &m->steps.back();
}

static aclError add_call(const char *call, captured_stream *b, const captured_call &f,
			 std::initializer_list<memory_use> uses = {})
{
	model *m = b->of;
	const aclError err = group_allows_task(call, b);

	if (err)
		return err;
	step *s = try_reserve(m->uses, m->uses.size() + uses.size()) ? add_step(b) : nullptr;
	if (!s)
		return invalidate_no_memory(call, b);
	s->f = f;
	for (const memory_use &u : uses)
		push_reserved(m->uses, u);
	return ACL_SUCCESS;
}

/* Copies that follow each other in a stream are one step. */
static step *copies_step(captured_stream *b)
{
	model *m = b->of;

	if (b->last != SIZE_MAX && !m->steps[b->last].f.run)
		return &m->steps[b->last];
	return add_step(b);
}

static aclError add_copies(const char *call, captured_stream *b, const core::copy_item *items, size_t n, size_t *done)
{
	if (const aclError err = group_allows_task(call, b))
		return err;
	for (*done = 0; *done < n; ++*done) {
		const core::copy_item &i = items[*done];
		int err = core::check_access(i.dst, i.len, "destination");

		if (!err)
			err = core::check_access(i.src, i.len, "source");
		if (err)
			return core_fault(call, err, at::submit);
		step *s = copies_step(b);
		if (!s || !try_push(s->copies, i))
			return invalidate_no_memory(call, b);
	}
	return ACL_SUCCESS;
}

aclError capture_copies(const char *call, core::stream *s, const core::copy_item *items, size_t n, size_t *done)
{
	{
		std::lock_guard guard(capture_lock);

		if (captured_stream *b = captured_of(s))
			return add_copies(call, b, items, n, done);
	}
	return check(call, core::copy_submit(s, items, n, nullptr, done), at::submit);
}

static void release_object(const retained_object &k)
{
	if (k.release)
		k.release(k.what);
}

/* False: the stream does not capture any more. */
static bool try_call(const char *call, core::stream *s, const captured_call &f, std::initializer_list<memory_use> uses,
		     const retained_object &retained, aclError *err)
{
	std::lock_guard guard(capture_lock);
	captured_stream *b = captured_of(s);

	if (!b)
		return false;
	*err = !retained.release || try_reserve(b->of->retained, b->of->retained.size() + 1) ?
		       add_call(call, b, f, uses) :
		       invalidate_no_memory(call, b);
	if (!*err && retained.release)
		push_reserved(b->of->retained, retained);
	else
		release_object(retained);
	return true;
}

aclError capture_call(const char *call, core::stream *s, const captured_call &f, std::initializer_list<memory_use> uses,
		      retained_object retained)
{
	aclError err;

	if (try_call(call, s, f, uses, retained, &err))
		return err;
	err = check(call, f(s), at::submit);
	release_object(retained);
	return err;
}

/* ---- events; with the lock held --------------------------------------------------------------------------- */

static bool is_ex(const core::event *e)
{
	return kind_of(e) == kind_ex;
}

static bool is_external(const core::event *e)
{
	return kind_of(e) == kind_flag && flags_of(e) & ACL_EVENT_EXTERNAL;
}

aclError event_captured(const char *call, core::event *e)
{
	return fault(call, ACL_ERROR_RT_EVENT_CAPTURED, "event %p is recorded by a capture in progress",
		     core::event_handle(e));
}

static aclError wrong_kind(const char *call, core::event *e)
{
	return unsupported(call,
			   "event %p: captures take events of aclrtCreateEventExWithFlag with ACL_EVENT_SYNC, and "
			   "those made with ACL_EVENT_EXTERNAL",
			   core::event_handle(e));
}

static event_use *external_use(model *m, const core::event *e)
{
	for (event_use &u : m->events)
		if (u.e == e)
			return &u;
	return nullptr;
}

static bool joins(const model *m, const core::event *e)
{
	for (const auto &j : m->joins)
		if (j->user_event == e)
			return true;
	return false;
}

static aclError used_otherwise(const char *call, core::event *e)
{
	return fault(call, ACL_ERROR_RT_PARAM_INVALID,
		     "event %p: a capture takes one record and one wait with the flag EXTERNAL, or none with it",
		     core::event_handle(e));
}

/* Notes a record or wait of a live event; the instance holds a reference to it. */
static aclError note_external(const char *call, captured_stream *b, core::event *e, bool event_use::*what)
{
	event_use *u = external_use(b->of, e);

	if (const aclError err = group_allows_task(call, b))
		return err;
	if (joins(b->of, e) || (u && u->*what))
		return used_otherwise(call, e);
	if (!u && try_push(b->of->events, event_use{e})) {
		core::event_ref(e);
		u = &b->of->events.back();
	}
	if (!u)
		return invalidate_no_memory(call, b);
	u->*what = true;
	return ACL_SUCCESS;
}

/* An event made with ACL_EVENT_EXTERNAL may be used as often as wanted. */
static aclError retain_event(const char *call, captured_stream *b, core::event *e)
{
	if (external_use(b->of, e))
		return ACL_SUCCESS;
	if (!try_push(b->of->events, event_use{e}))
		return invalidate_no_memory(call, b);
	core::event_ref(e);
	return ACL_SUCCESS;
}

static int record_live(core::event *e, core::stream *s)
{
	return core::event_record(e, s);
}

/* The event's state counts when the stream gets there, not at the launch. */
static int is_set(void *arg)
{
	return core::event_is_set(static_cast<core::event *>(arg));
}

static void leave_event(void *arg)
{
	core::event_unref(static_cast<core::event *>(arg));
}

static int wait_set(core::event *e, core::stream *s)
{
	core::event_ref(e);
	return core::stream_wait_check(s, is_set, leave_event, e, deadline::never());
}

static aclError add_external(const char *call, captured_stream *b, core::event *e,
			     int (*f)(core::event *, core::stream *))
{
	const aclError err = retain_event(call, b, e);

	return err ? err : add_call(call, b, captured_call([=](core::stream *s) { return f(e, s); }));
}

/* The record of a join. An earlier record of the event counts for the waits until now. */
static aclError add_join(const char *call, captured_stream *b, core::event *e)
{
	auto j = try_unique<join>();
	join *const at = j.get();

	if (!j || !try_reserve(b->of->joins, b->of->joins.size() + 1))
		return invalidate_no_memory(call, b);
	const aclError err = add_call(call, b, captured_call([=](core::stream *s) {
					      return at->launch_event ? core::event_record(at->launch_event, s) : 0;
				      }));
	if (err)
		return err;
	j->from = b;
	j->user_event = e;
	core::event_ref(e);
	b->record = at;
	push_reserved(b->of->joins, std::move(j));
	store_relaxed(&e->user[word_record], reinterpret_cast<u64>(at));
	return ACL_SUCCESS;
}

static aclError add_record(const char *call, captured_stream *b, core::event *e, bool external)
{
	if (is_external(e))
		return external ? wrong_kind(call, e) : add_external(call, b, e, record_live);
	if (!is_ex(e) || share_of(e))
		return wrong_kind(call, e);
	if (!(flags_of(e) & ACL_EVENT_SYNC))
		return external ? wrong_kind(call, e) : ACL_SUCCESS;
	if (!external)
		return external_use(b->of, e) ? used_otherwise(call, e) : add_join(call, b, e);
	const aclError err = note_external(call, b, e, &event_use::recorded);
	return err ? err : add_external(call, b, e, record_live);
}

/* RecordEventWithFlag and StreamWaitEventWithFlag EXTERNAL outside of captures. */
static aclError not_capturing(const char *call, const core::stream *s)
{
	return fault(call, ACL_ERROR_RT_STREAM_NOT_CAPTURED,
		     "stream %p is not being captured, which the flag EXTERNAL requires", core::stream_handle(s));
}

aclError capture_record(const char *call, core::stream *s, core::event *e, bool external)
{
	{
		std::lock_guard guard(capture_lock);

		if (captured_stream *b = captured_of(s))
			return add_record(call, b, e, external);
	}
	return external ? not_capturing(call, s) : check(call, core::event_record(e, s), at::submit);
}

static int reset_live(core::event *e, core::stream *s)
{
	return core::event_reset(e, s);
}

aclError capture_reset(const char *call, core::stream *s, core::event *e)
{
	{
		std::lock_guard guard(capture_lock);

		if (captured_stream *b = captured_of(s))
			return is_external(e) ? add_external(call, b, e, reset_live) : wrong_kind(call, e);
	}
	return check(call, core::event_reset(e, s), at::submit);
}

void capture_forget(core::event *e)
{
	std::lock_guard guard(capture_lock);

	store_relaxed(&e->user[word_record], u64(0));
}

/* ---- waits -------------------------------------------------------------------------------------------- */

static aclError conflict(const char *call, model *a, model *b)
{
	capture_invalidate(a);
	capture_invalidate(b);
	return fault(call, ACL_ERROR_STREAM_CAPTURE_CONFLICT,
		     "the event is recorded by another capture: neither can be completed");
}

static aclError add_wait(const char *call, captured_stream *b, join *j)
{
	const aclError err = add_call(call, b, captured_call([=](core::stream *s) {
					      return core::stream_wait_event(s, j->launch_event, deadline::never());
				      }));
	j->waited |= !err;
	return err;
}

/* A stream that captures nothing waits for an event of a capture: it joins. */
static aclError join_capture(const char *call, core::stream *s, join *j)
{
	model *m = j->from->of;

	if (s == owner_of(s)->deflt)
		return fault(call, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
			     "the default stream cannot join the capture of the event");
	if (s->opt.flags & not_captured)
		return fault(call, ACL_ERROR_RT_INTERNAL_ERROR, "stream %p was made with flags that exclude captures",
			     core::stream_handle(s));
	if (owner_of(s) != m->ctx)
		return unsupported(call, "the event is recorded by a capture of another context");
	captured_stream *b = capture_add_stream(m, s);
	return b ? add_wait(call, b, j) : invalidate_no_memory(call, j->from);
}

/* A wait by a stream that captures for an event that its capture has not recorded. */
static aclError wait_outside(const char *call, captured_stream *b, core::event *e)
{
	if (core::event_query(e) == core::event_state::never)
		return ACL_SUCCESS;
	return fault(call, ACL_ERROR_RT_CAPTURE_DEPENDENCY, "event %p was recorded outside of the capture of stream %p",
		     core::event_handle(e), b->handle);
}

static int wait_live(core::event *e, core::stream *s)
{
	return core::stream_wait_event(s, e, deadline::never());
}

static aclError add_any_wait(const char *call, core::stream *s, captured_stream *b, core::event *e, bool external)
{
	join *j = join_of(e);

	if (!b)
		return join_capture(call, s, j);
	if (is_external(e))
		return external ? wrong_kind(call, e) : add_external(call, b, e, wait_set);
	if (!is_ex(e) || share_of(e) || (external && !(flags_of(e) & ACL_EVENT_SYNC)))
		return wrong_kind(call, e);
	if (external) {
		const aclError err = note_external(call, b, e, &event_use::waited);

		return err ? err : add_external(call, b, e, wait_live);
	}
	if (external_use(b->of, e))
		return used_otherwise(call, e);
	if (!j)
		return wait_outside(call, b, e);
	return j->from->of == b->of ? add_wait(call, b, j) : conflict(call, j->from->of, b->of);
}

bool capture_wait(const char *call, core::stream *s, core::event *e, bool external, aclError *err)
{
	std::lock_guard guard(capture_lock);
	captured_stream *b = captured_of(s);

	if (!b && external)
		*err = not_capturing(call, s);
	else if (b || join_of(e))
		*err = add_any_wait(call, s, b, e, external);
	else
		return false;
	return true;
}

} // namespace usdma::acl
