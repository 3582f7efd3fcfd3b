/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream capture: begin and end, the streams that capture, and what is forbidden meanwhile. */
#include "lib/acl/capture_model.h"

#include <algorithm>

namespace usdma::acl {

inline constexpr size_t max_models = 65536;

std::mutex capture_lock;
u32 open_captures;
static constinit core::no_destructor<core::slab<model, max_models, core::handle_kind::model>> models;
static constinit core::no_destructor<std::vector<model *>> open_models; /* under the lock, as the next two */
static u32 next_thread, next_id;

/* ---- instances ----------------------------------------------------------------------------------------- */

/* Frees an instance: its work has ended, or its streams are waited for. */
static void end(model *m)
{
	for (const auto &b : m->streams)
		if (b->launch_stream) {
			m->force ? core::stream_destroy_force(b->launch_stream) :
				   core::stream_destroy(b->launch_stream);
			core::stream_unref(b->launch_stream); /* the context may have destroyed it before */
		}
	for (const auto &j : m->joins)
		if (j->launch_event)
			core::event_destroy(j->launch_event);
	for (const target &t : m->targets)
		core::event_destroy(t.done);
	for (const event_use &u : m->events)
		core::event_unref(u.e);
	for (const retained_object &o : m->retained)
		o.release(o.what);
	groups_end(m);
	models->put(m);
}

model *model_enter(const void *handle)
{
	return models->ref(handle, model_leave);
}

void model_leave(model *m)
{
	if (fetch_sub_acq_rel(&m->refs, 1) == 1)
		end(m);
}

void capture_abort(const void *handle)
{
	for (size_t at = 0; model *m = models->next(&at, [](model &one) { return core::ref_if_any(&one.refs); });) {
		abort_launches(m, handle);
		model_leave(m);
	}
}

aclError get_model(const char *call, const void *handle, model_guard *out)
{
	if (!handle)
		return bad_arg(call, "modelRI is NULL");
	if (core::forked())
		return no_context(call);
	if (!out->take(handle))
		return fault(call, ACL_ERROR_RT_INVALID_HANDLE,
			     "modelRI %p is not a live instance: it was destroyed or never was one", handle);
	return ACL_SUCCESS;
}

/* ---- streams that capture --------------------------------------------------------------------------- */

aclError stream_captured(const char *call, const core::stream *s)
{
	return fault(call, ACL_ERROR_RT_STREAM_CAPTURED, "stream %p is being captured", core::stream_handle(s));
}

captured_stream *capture_add_stream(model *m, core::stream *s)
{
	auto b = try_unique<captured_stream>();

	if (!b)
		return nullptr;
	b->of = m;
	b->index = u32(m->streams.size());
	b->handle = core::stream_handle(s);
	captured_stream *const added = b.get();
	if (!try_push(m->streams, std::move(b)))
		return nullptr;
	store_relaxed(&s->user[word_capture], reinterpret_cast<u64>(added));
	core::stream_set_captured(s, true);
	return added;
}

aclError capture_of(const char *call, const core::stream *s, captured_stream **out)
{
	*out = captured_of(s);
	return *out ? ACL_SUCCESS :
		      fault(call, ACL_ERROR_RT_STREAM_NOT_CAPTURED, "stream %p is not being captured",
			    core::stream_handle(s));
}

void capture_invalidate(model *m)
{
	if (m->at == phase::capturing)
		m->at = phase::invalidated;
}

/* With the lock held: its streams and events are live again. */
static void close(model *m, phase to)
{
	for (const auto &b : m->streams) {
		const stream_guard s(b->handle);

		if (!s || captured_of(s) != b.get())
			continue;
		store_relaxed(&s->user[word_capture], u64(0));
		core::stream_set_captured(s, false);
	}
	for (const auto &j : m->joins)
		if (core::event *e = std::exchange(j->user_event, nullptr)) {
			if (join_of(e) == j.get())
				store_relaxed(&e->user[word_record], u64(0));
			core::event_unref(e);
		}
	m->group_in = nullptr;
	m->at = to;
	std::erase(*open_models, m);
	store_relaxed(&open_captures, u32(open_models->size()));
}

static aclError fail_no_memory(const char *call, const char *what)
{
	return core_fault(call, no_memory(what), at::memory);
}

/* With the lock held. */
static aclError start(const char *call, core::stream *s, u32 mode)
{
	if (captured_of(s))
		return stream_captured(call, s);
	model *m = models->get();
	if (!m)
		return core_fault(call, models->fail_full(ENOSPC, "instances"), at::memory);
	m->mode = u8(mode);
	m->id = ++next_id;
	m->ctx = owner_of(s);
	m->thread = self().capture_thread ? self().capture_thread : self().capture_thread = ++next_thread;
	if (!try_reserve(*open_models, open_models->size() + 1) || !capture_add_stream(m, s)) {
		models->put(m);
		return fail_no_memory(call, "a capture");
	}
	push_reserved(*open_models, m);
	models->publish(m);
	store_relaxed(&open_captures, u32(open_models->size()));
	return ACL_SUCCESS;
}

/* Gets a stream that a capture may begin in. */
static aclError get_begin(const char *call, aclrtStream handle, u32 mode, stream_guard *s)
{
	if (!handle)
		return bad_arg(call, "stream is NULL");
	aclError err = get_any_stream(call, handle, s);
	if (err)
		return err;
	if (mode > ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "mode %u is unknown", mode);
	if ((*s)->opt.flags & not_captured)
		return fault(call, ACL_ERROR_RT_INTERNAL_ERROR, "stream %p was made with flags that exclude captures",
			     handle);
	if (!has_context())
		return no_context(call);
	if (owner_of(*s) != current_now())
		return foreign_stream(call, handle);
	return *s == owner_of(*s)->deflt ? unsupported(call, "the default stream cannot be captured") : ACL_SUCCESS;
}

/* ---- the end ----------------------------------------------------------------------------------------- */

/* With the lock held. */
static aclError check_joined(const char *call, const model *m)
{
	for (const auto &b : m->streams)
		if (b->index && !(b->record && b->record->waited))
			return fault(call, ACL_ERROR_RT_STREAM_UNJOINED,
				     "stream %p joined the capture and has not come back: its last work must be the "
				     "record of an event that a stream of the capture waits for",
				     b->handle);
	return ACL_SUCCESS;
}

/* What is wrong with a capture at its end; with the lock held. */
static aclError check_end(const char *call, const model *m)
{
	if (m->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED && m->thread != self().capture_thread)
		return fault(call, ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
			     "another thread began the capture, and its mode is not RELAXED");
	if (m->at == phase::invalidated)
		return fault(call, ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, "an earlier error has ended the capture");
	if (m->group_in)
		return fault(call, ACL_ERROR_STREAM_TASK_GROUP_STATUS, "a task group is open");
	return check_joined(call, m);
}

/* The events of replays. */
static int make_events(model *m)
{
	int err = 0;

	for (const auto &j : m->joins)
		if (j->waited && !err)
			err = core::event_create(m->ctx->dev, 0, &j->launch_event);
	for (const auto &b : m->streams)
		if (b->index && b->last != SIZE_MAX)
			m->steps[b->last].reports = true;
	return err;
}

/* The end of a capture. *dead: to be dropped once the lock is released. */
static aclError finish(const char *call, captured_stream *b, aclmdlRI *out, model **dead)
{
	model *m = b->of;
	aclError err;

	if (!out)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "modelRI is NULL");
	*out = nullptr;
	if (b->index)
		return fault(call, ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
			     "stream %p joined the capture, which stream %p began", b->handle, m->streams[0]->handle);
	err = check_end(call, m);
	if (!err)
		err = check(call, make_events(m), at::memory);
	close(m, err ? phase::failed : phase::ready);
	if (!err)
		*out = model_handle(m);
	else if (err != ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD && core::handle_end(m, model_handle(m)))
		*dead = m;
	return err;
}

void capture_discard(const context *c, bool force)
{
	for (size_t at = 0;;) {
		capture_lock.lock();
		model *m = models->next(&at, [&](model &o) { return o.ctx == c && core::ref_if_any(&o.refs); });
		if (m && (m->at == phase::capturing || m->at == phase::invalidated))
			close(m, phase::failed);
		capture_lock.unlock();
		if (!m)
			return;
		m->force = force;
		if (core::handle_end(m, model_handle(m)))
			model_leave(m);
		model_leave(m);
	}
}

/* ---- what captures forbid ------------------------------------------------------------------------------ */

/* The strictest mode of captures of the thread's context: all, or those that this thread began. */
static u32 strictest(bool own)
{
	u32 mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

	for (const model *m : *open_models)
		if (m->ctx == self().ctx && (!own || m->thread == self().capture_thread))
			mode = std::min<u32>(mode, m->mode);
	return mode;
}

/* A thread's mode: GLOBAL minds captures of any thread, THREAD_LOCAL the thread's own, RELAXED none. */
static bool forbidden()
{
	std::lock_guard guard(capture_lock);
	const u32 any = strictest(false), own = strictest(true);

	switch (self().capture_mode) {
	case ACL_MODEL_RI_CAPTURE_MODE_GLOBAL:
		return any == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || own == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
	case ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL:
		return own != ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
	default:
		return false;
	}
}

aclError capture_allows_slow(const char *call)
{
	return forbidden() ? fault(call, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
				   "a capture forbids synchronous calls in this thread: "
				   "aclmdlRICaptureThreadExchangeMode") :
			     ACL_SUCCESS;
}

aclError capture_allows_pageable(const char *call, stream_guard &s)
{
	if (captures(s))
		return fault(call, ACL_ERROR_RT_PARAM_INVALID,
			     "ordinary host memory cannot be captured: it must be pinned");
	if (likely(!load_relaxed(&open_captures)) || !forbidden())
		return ACL_SUCCESS;
	if (const int err = core::sync_before(s, deadline::never()))
		return core_fault(call, err, at::submit);
	return fault(call, ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC,
		     "a copy of ordinary host memory is synchronous, which a capture forbids in this thread");
}

aclError capture_allows_sync(const char *call)
{
	if (likely(!load_relaxed(&open_captures)))
		return ACL_SUCCESS;
	std::lock_guard guard(capture_lock);
	for (const model *m : *open_models)
		if (m->ctx == self().ctx)
			return fault(call, ACL_ERROR_RT_STREAM_CAPTURED, "stream %p of this context is being captured",
				     m->streams[0]->handle);
	return ACL_SUCCESS;
}

/* GetInfo of a stream. */
static void info_of(const core::stream *s, aclmdlRICaptureStatus *status, aclmdlRI *instance)
{
	std::lock_guard guard(capture_lock);
	const captured_stream *b = captured_of(s);

	if (status)
		*status = !b                              ? ACL_MODEL_RI_CAPTURE_STATUS_NONE :
			  b->of->at == phase::invalidated ? ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED :
							    ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
	if (instance)
		*instance = b ? model_handle(b->of) : nullptr;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode mode)
{
	const context_guard c; /* capture_discard() has to find the capture */
	stream_guard s;
	const aclError err = get_begin(__func__, stream, number_in(mode), &s);

	if (err)
		return err;
	std::lock_guard guard(capture_lock);
	return start(__func__, s, number_in(mode));
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI *modelRI)
{
	stream_guard s;
	model *dead = nullptr;
	captured_stream *b;

	if (!stream)
		return bad_arg(__func__, "stream is NULL");
	aclError err = get_stream(__func__, stream, &s);
	if (err)
		return err;
	capture_lock.lock();
	err = capture_of(__func__, s, &b);
	if (!err)
		err = finish(__func__, b, modelRI, &dead);
	capture_lock.unlock();
	if (dead)
		model_leave(dead);
	return err;
}

} // extern "C"

#include "lib/acl/calls_capture_begin.h"
