/* SPDX-License-Identifier: BSD-3-Clause */
/* What a capture has recorded: an instance (aclmdlRI). */
#pragma once

#include "driver/base/grow.h"
#include "lib/acl/capture.h"

#include <memory>
#include <mutex>
#include <vector>

namespace usdma::acl {

struct captured_stream;
struct model;

/* A record of an event by a capture, which waits of the same capture follow. */
struct join {
	captured_stream *from = nullptr;
	core::event *user_event = nullptr;   /* a reference; null once the capture is over */
	core::event *launch_event = nullptr; /* for replays; null: none waits for it */
	bool waited = false;
};

/* One stream of a capture. The first is that of Begin, its work is replayed in the target stream. */
struct captured_stream {
	model *of = nullptr;
	u32 index = 0;
	void *handle = nullptr;                /* the captured stream's */
	size_t last = SIZE_MAX;                /* index of its last step */
	const join *record = nullptr;          /* if that is a record; else null */
	core::stream *launch_stream = nullptr; /* the stream that replays it, made at the first launch */
};

struct step {
	u32 stream = 0;       /* index */
	bool reports = false; /* the last of a captured_stream: the errors of its stream are the target's before it */
	captured_call f;      /* null: copies */
	std::vector<core::copy_item> copies;
};

enum class phase : u8 {
	capturing,
	invalidated, /* still capturing; its end fails */
	failed,      /* not destroyed yet */
	ready,
};

/* A stream that the instance was launched in. */
struct target {
	void *handle;
	core::event *done; /* the last launch */
};

struct destroy_hook {
	aclrtCallback fn;
	void *arg;
};

/* An event that the capture records or waits for with the flag EXTERNAL: each at most once. */
struct event_use {
	core::event *e; /* a reference */
	bool recorded = false, waited = false;
};

/* A group of tasks that could be updated; a copy engine has none, so groups are empty. */
struct alignas(64) task_group {
	u64 alive = 0; /* the handle */
	const model *of = nullptr;
	const void *updated_in = nullptr; /* a stream's handle */
};

struct alignas(64) model {
	u64 alive = 0; /* the handle */
	u32 refs = 1;
	phase at = phase::capturing;
	u8 mode = 0;
	bool force = false; /* its context is being destroyed by force */
	u32 thread = 0;     /* of Begin */
	u32 id = 0;         /* no other instance has it */
	context *ctx = nullptr;
	std::vector<std::unique_ptr<captured_stream>> streams;
	std::vector<std::unique_ptr<join>> joins;
	std::vector<step> steps;
	std::vector<memory_use> uses;
	std::vector<retained_object> retained;
	std::vector<event_use> events;             /* recorded or waited for live, when the graph runs */
	const captured_stream *group_in = nullptr; /* its open task group */

	std::mutex launching;  /* the next five */
	u64 checked = ~u64(0); /* the translations' generation in which all memory was found */
	std::vector<target> targets;
	std::vector<destroy_hook> hooks;
	char name[128] = {};
};

/* Flags of streams that do not capture. */
inline constexpr u32 not_captured = ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY;

/* All members of models that capture, and the words of streams and events. A hardware queue's lock nests inside. */
extern std::mutex capture_lock;

/* With the lock held. */
inline captured_stream *captured_of(const core::stream *s)
{
	return reinterpret_cast<captured_stream *>(s->user[word_capture]);
}
inline join *join_of(const core::event *e)
{
	return reinterpret_cast<join *>(e->user[word_record]);
}
void capture_invalidate(model *m);
/* Adds a stream; it captures from now on. nullptr: no memory. */
captured_stream *capture_add_stream(model *m, core::stream *s);

model *model_enter(const void *handle);
void model_leave(model *m);
using model_guard = object_guard<model, model_enter, model_leave>;
inline void *model_handle(const model *m)
{
	return reinterpret_cast<void *>(load_relaxed(&m->alive));
}
/* 100000 for NULL, 107017. */
aclError get_model(const char *call, const void *handle, model_guard *out);
/* 0: s is being captured, as *out. 107029: it is not. With capture_lock held. */
aclError capture_of(const char *call, const core::stream *s, captured_stream **out);

/* Drops what is in the joined streams of an instance that was launched in this stream and has not ended. */
void abort_launches(model *m, const void *handle);

/* ---- task groups (capture_group.cpp); with the lock held ------------------------------------------------ */

/* 507009, 107034: an open group does not allow a task in this stream. */
aclError group_allows_task(const char *call, const captured_stream *b);
void groups_end(const model *m); /* the instance is being destroyed */

} // namespace usdma::acl
