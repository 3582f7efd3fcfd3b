/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replays of captures. A step runs again as its call did; copies that follow each other go as one batch. The first
 * stream's work goes into the target stream. Each joined stream has one of its own; events order them as the
 * capture did, so a launch is in the target's order.
 */
#include "lib/acl/capture_model.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace usdma::acl {

inline constexpr u64 destroy_ms = 10000;

/* Launches in one stream do not mix: one lock for some of the streams. */
static std::mutex target_locks[64];

/* ---- errors of joined streams --------------------------------------------------------------------------- */

/* One launch of several streams: the first error of those that joined. */
struct launch {
	u32 refs = 1;
	int err = 0;
};

struct error_step {
	launch *of;
	core::stream *s;
	bool reports, reached = false;
};

static void launch_unref(launch *l)
{
	if (fetch_sub_acq_rel(&l->refs, 1) == 1)
		delete l;
}

static void note_error(launch *l, int err)
{
	int none = 0;

	if (err)
		cmpxchg_release(&l->err, &none, err);
}

/* One that was dropped: so was what the joined stream had before it. */
static void error_step_done(void *arg)
{
	auto *step = static_cast<error_step *>(arg);

	if (step->reports && !step->reached)
		note_error(step->of, ECANCELED);
	launch_unref(step->of);
	delete step;
}

/* In a joined stream, when its work has ended. */
static int report_error(void *arg)
{
	auto *step = static_cast<error_step *>(arg);

	step->reached = true;
	note_error(step->of, core::stream_take_error_locked(step->s));
	return 1;
}

/* In the target, when all has ended. */
static int collect_error(void *arg)
{
	const int err = load_acquire(&static_cast<error_step *>(arg)->of->err);

	return err ? -err : 1;
}

static int push_error_step(launch *l, core::stream *s, int (*check)(void *arg))
{
	auto *step = new (std::nothrow) error_step{l, s, check == report_error};

	if (!step)
		return no_memory("a launch");
	fetch_add_relaxed(&l->refs, 1);
	return core::stream_wait_check(s, check, error_step_done, step, deadline::never(), &core::seen_nothing);
}

/* ---- a launch; with the instance's lock held ---------------------------------------------------------------- */

/* Memory may have been freed since the capture: nothing is submitted then. */
static int check_memory(model *m)
{
	const u64 now = core::region_map->generation();
	int err = 0;

	if (m->checked == now)
		return 0;
	for (const memory_use &u : m->uses)
		if ((err = core::check_access(u.at, u.len, "captured address")))
			return err;
	for (const step &s : m->steps)
		for (const core::copy_item &i : s.copies)
			if ((err = core::check_access(i.dst, i.len, "captured destination")) ||
			    (err = core::check_access(i.src, i.len, "captured source")))
				return err;
	m->checked = now;
	return 0;
}

/* The stream that replays a joined one; a new one after an abort. */
static int make_stream(const model *m, captured_stream *b)
{
	core::stream_options opt;

	if (b->launch_stream && !load_relaxed(&b->launch_stream->stopped))
		return 0;
	if (b->launch_stream) {
		core::stream_destroy_force(b->launch_stream);
		core::stream_unref(std::exchange(b->launch_stream, nullptr));
	}
	opt.owner = m->ctx;
	const int err = core::stream_create(m->ctx->dev, opt, &b->launch_stream);
	if (!err)
		fetch_add_relaxed(&b->launch_stream->refs, 1u);
	return err;
}

/* While the context exists: destroying it waits for the guard. */
static int make_streams(const model *m)
{
	const context_guard c;
	int err = c.get() == m->ctx ? 0 : fail(ECANCELED, "the context is being destroyed");

	for (size_t i = 1; i < m->streams.size() && !err; i++)
		err = make_stream(m, m->streams[i].get());
	return err;
}

static int run_step(const model *m, const step &st, core::stream *target, launch *l)
{
	core::stream *s = st.stream ? m->streams[st.stream]->launch_stream : target;
	int err = st.reports ? push_error_step(l, s, report_error) : 0;
	size_t done;

	if (err)
		return err;
	return st.f.run ? st.f(s) : core::copy_submit(s, st.copies.data(), st.copies.size(), nullptr, &done);
}

static int run_steps(const model *m, core::stream *target)
{
	launch *l = m->streams.size() > 1 ? new (std::nothrow) launch : nullptr;
	int err = m->streams.size() > 1 && !l ? no_memory("a launch") : 0;

	for (const step &st : m->steps)
		if ((err = err ? err : run_step(m, st, target, l)))
			break;
	if (!err && l)
		err = push_error_step(l, target, collect_error);
	if (l)
		launch_unref(l);
	return err;
}

/* Where the last launch in the stream is recorded. */
static int find_target(model *m, const core::stream *s, target **out)
{
	void *const handle = core::stream_handle(s);
	target *unused = nullptr;
	core::event *e;

	for (target &t : m->targets) {
		if (t.handle == handle) {
			*out = &t;
			return 0;
		}
		if (core::event_query(t.done) != core::event_state::pending)
			unused = &t;
	}
	if (!unused) {
		if (const int err = core::event_create(s->dev, 0, &e))
			return err;
		if (!try_push(m->targets, target{handle, e})) {
			core::event_destroy(e);
			return no_memory("a launch");
		}
		unused = &m->targets.back();
	}
	unused->handle = handle;
	*out = unused;
	return 0;
}

/* After a launch that failed in part: nothing waits for what was submitted. make_stream() replaces them. */
static int abort_joined(const model *m, int err)
{
	const saved_error saved;

	for (const auto &b : m->streams)
		if (b->launch_stream) {
			core::call_group_drop(b->launch_stream);
			core::stream_abort(b->launch_stream);
		}
	return saved.again(err);
}

void abort_launches(model *m, const void *handle)
{
	std::unique_lock launching(m->launching, std::try_to_lock);

	/* A launch that is just being made fails at the target, and does the same. */
	if (!launching.owns_lock())
		return;
	for (const target &t : m->targets)
		if (t.handle == handle && core::event_query(t.done) == core::event_state::pending)
			return void(abort_joined(m, 0));
}

/* Not submitted in part, except for lack of memory or a device that is lost. */
static aclError run(const char *call, model *m, core::stream *s)
{
	std::lock_guard one_target(target_locks[s->id % std::size(target_locks)]);
	std::lock_guard one_launch(m->launching);
	target *t = nullptr;
	int err = check_memory(m);

	if (err == -EFAULT)
		return fault(call, ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%s; it was freed since the capture", error_text());
	if (!err)
		err = make_streams(m);
	if (!err)
		err = find_target(m, s, &t);
	if (err)
		return core_fault(call, err, at::memory);
	err = run_steps(m, s);
	if (err)
		err = abort_joined(m, err);
	const int noted = core::event_record(t->done, s);
	return check(call, err ? err : noted, at::submit);
}

/* 107004. */
static aclError check_context(const char *call, const model *m, const void *handle)
{
	return current_now() == m->ctx ? ACL_SUCCESS :
					 fault(call, ACL_ERROR_RT_MODEL_CONTEXT,
					       "modelRI %p belongs to another context than this thread's", handle);
}

static aclError check_ready(const char *call, const model *m, const void *handle)
{
	std::lock_guard guard(capture_lock);

	if (m->at == phase::capturing || m->at == phase::invalidated)
		return fault(call, ACL_ERROR_RT_MODEL_CAPTURED, "modelRI %p is still being captured", handle);
	return m->at == phase::ready ? ACL_SUCCESS :
				       fault(call, ACL_ERROR_RT_MODEL_EXECUTE,
					     "the capture of modelRI %p failed: it can only be destroyed", handle);
}

static aclError execute(const char *call, const void *handle, model *m, core::stream *s)
{
	if (captures(s))
		return stream_captured(call, s);
	if (!has_context())
		return no_context(call);
	if (const aclError err = check_context(call, m, handle))
		return err;
	if (owner_of(s) != m->ctx)
		return foreign_stream(call, core::stream_handle(s));
	if (const aclError err = check_ready(call, m, handle))
		return err;
	const noted_task task(s);
	return run(call, m, s);
}

/* ---- printing ------------------------------------------------------------------------------------------------ */

static void print_text(FILE *f, const char *text)
{
	for (; *text; text++)
		if (*text == '"' || *text == '\\' || u8(*text) < ' ')
			fprintf(f, "\\u%04x", unsigned(u8(*text)));
		else
			fputc(*text, f);
}

static void print_task(FILE *f, const step &st, bool first)
{
	u64 bytes = 0;

	for (const core::copy_item &i : st.copies)
		bytes += i.len;
	fprintf(f, "%s\n  {\"stream\": %u, ", first ? "" : ",", st.stream);
	if (st.f.run)
		fprintf(f, "\"type\": \"task\"}");
	else
		fprintf(f, "\"type\": \"copy\", \"items\": %zu, \"bytes\": %llu}", st.copies.size(),
			static_cast<unsigned long long>(bytes));
}

/* In the order of the capture; streams by their index in it. */
static aclError print_tasks(const char *call, model *m, const char *path)
{
	FILE *const f = fopen(path, "we");

	if (!f)
		return fault(call, ACL_ERROR_RT_FILE_OPEN, "path %s: %s", path, strerror(errno));
	{
		std::lock_guard guard(m->launching); /* the name */

		fprintf(f, "{\"id\": %u, \"name\": \"", m->id);
		print_text(f, m->name);
		fprintf(f, "\", \"streams\": %zu, \"tasks\": [", m->streams.size());
	}
	for (const step &st : m->steps)
		print_task(f, st, &st == m->steps.data());
	fputs("\n]}\n", f);
	const bool failed = ferror(f);
	if (fclose(f) || failed)
		return fault(call, ACL_ERROR_RT_FILE_WRITE, "path %s: it cannot be written", path);
	return ACL_SUCCESS;
}

/* ---- destroying ---------------------------------------------------------------------------------------------- */

/* References to the events of the last launches. */
static int last_launches(model *m, std::vector<core::event *> *out)
{
	std::lock_guard guard(m->launching);

	if (!try_reserve(*out, m->targets.size()))
		return no_memory("a wait for launches");
	for (const target &t : m->targets) {
		core::event_ref(t.done);
		push_reserved(*out, t.done);
	}
	return 0;
}

/* -ETIMEDOUT: a launch has not ended; other errors of the wait mean that it will not run. */
static int wait_launches(model *m)
{
	const deadline until = deadline::in_ms(destroy_ms);
	std::vector<core::event *> last;
	int err = last_launches(m, &last);

	for (core::event *e : last) {
		const int waited = err ? 0 : core::event_wait(e, until);

		if (waited == -ETIMEDOUT || waited == -EDEADLK)
			err = waited;
		core::event_unref(e);
	}
	return err;
}

static aclError check_destroy(const char *call, const void *handle, model *m)
{
	{
		std::lock_guard guard(capture_lock);

		if (m->at == phase::capturing || m->at == phase::invalidated)
			return fault(call, ACL_ERROR_RT_MODEL_CAPTURED, "modelRI %p is still being captured", handle);
	}
	if (!has_context())
		return no_context(call);
	if (const aclError wrong = check_context(call, m, handle))
		return wrong;
	const int err = wait_launches(m);
	if (err == -ETIMEDOUT)
		return fault(call, ACL_ERROR_RT_MODEL_RUNNING, "a launch of modelRI %p has not ended within %llu s",
			     handle, static_cast<unsigned long long>(destroy_ms / 1000));
	return check(call, err, at::wait);
}

static void call_hooks(model *m)
{
	m->launching.lock();
	const std::vector<destroy_hook> hooks = std::move(m->hooks);
	m->launching.unlock();

	for (const destroy_hook &h : hooks)
		h.fn(h.arg);
}

static aclError add_hook(const char *call, model *m, const destroy_hook &h)
{
	std::lock_guard guard(m->launching);

	return try_push(m->hooks, h) ? ACL_SUCCESS : core_fault(call, no_memory("a callback"), at::memory);
}

static aclError remove_hook(const char *call, model *m, aclrtCallback fn)
{
	std::lock_guard guard(m->launching);

	if (std::erase_if(m->hooks, [=](const destroy_hook &h) { return h.fn == fn; }))
		return ACL_SUCCESS;
	return fault(call, ACL_ERROR_RT_PARAM_INVALID, "func is not registered");
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclmdlRIDestroy(aclmdlRI modelRI)
{
	model_guard m;
	aclError err = get_model(__func__, modelRI, &m);

	if (!err)
		err = check_destroy(__func__, modelRI, m);
	if (err)
		return err;
	if (!core::handle_end<model>(m, modelRI))
		return fault(__func__, ACL_ERROR_RT_INVALID_HANDLE, "%p was destroyed just now by another thread",
			     modelRI);
	call_hooks(m);
	model_leave(m); /* the handle's reference */
	return ACL_SUCCESS;
}

aclError aclmdlRISetName(aclmdlRI modelRI, const char *name)
{
	model_guard m;

	if (!name)
		return bad_arg(__func__, "name is NULL");
	if (const aclError err = get_model(__func__, modelRI, &m))
		return err;
	const size_t len = strlen(name);
	if (len >= sizeof(m->name))
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "the name has %zu bytes, it may have %zu", len,
			     sizeof(m->name) - 1);
	std::lock_guard guard(m->launching);
	memcpy(m->name, name, len + 1);
	return ACL_SUCCESS;
}

aclError aclmdlRIGetName(aclmdlRI modelRI, uint32_t maxLen, char *name)
{
	model_guard m;

	if (!name || !maxLen)
		return bad_arg(__func__, "name is NULL, or maxLen is 0");
	if (const aclError err = get_model(__func__, modelRI, &m))
		return err;
	std::lock_guard guard(m->launching);
	const size_t len = strlen(m->name);
	if (len >= maxLen)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "the name has %zu bytes, and maxLen is %u", len,
			     maxLen);
	memcpy(name, m->name, len + 1);
	return ACL_SUCCESS;
}

} // extern "C"

#include "lib/acl/calls_capture_replay.h"
