/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts and what each thread remembers.  A context stands for a device as a
 * group of threads sees it: it has a default stream and owns the streams made
 * under it.  One per device is primary: aclrtSetDevice makes and counts it.
 */
#pragma once

#include "lib/acl/report.h"
#include "lib/core/stream/hold.h"

#include <cstring>

namespace usdma::acl {

/*
 * What stands in the caller's memory for an enumerator: any number may, and none that is not one is to be read
 * as one.
 */
template <class E> inline u32 number_in(const E &e)
{
	u32 n;

	static_assert(sizeof(e) == sizeof(n));
	memcpy(&n, &e, sizeof(n));
	return n;
}

inline constexpr unsigned sys_opts = 4;

struct options {
	s64 value[sys_opts];
	bool set[sys_opts];
};

struct alignas(64) context {
	u64 alive = 0;          /* the handle */
	core::call_count calls; /* that use it; its end waits for them */
	bool primary = false;
	s32 id = 0;                  /* the device as the user numbers it */
	u64 generation = 0;          /* differs from that of an earlier context in the same place */
	core::device *dev = nullptr; /* a reference */
	core::stream *deflt = nullptr;
	options opts{};
};

struct message_log;

/* The front end's part of what a thread keeps. */
struct thread_state {
	context *ctx;
	u64 generation; /* of ctx when it was made current */
	aclError last_error;
	u32 tasks;    /* submitted by this thread */
	bool starved; /* there was no memory to look for its context, which its very first call needs */
	message_log *log;
};

inline thread_state &self()
{
	static_assert(sizeof(thread_state) <= sizeof(core::thread_words::front));
	return *reinterpret_cast<thread_state *>(core::thread_here()->front);
}

/* The calling thread's context, for who looks at it inside a read section, or only asks whether there is one. */
inline context *current_now()
{
	context *c = self().ctx;

	return likely(c && load_acquire(&c->generation) == self().generation) ? c : nullptr;
}
/* The same, but makes the default device's current where the thread has none; nullptr (no message): it has none. */
context *current_slow();
inline bool has_context()
{
	return current_now() || current_slow();
}

/* The calling thread's context, which stays while this lives; empty: it has none. For calls that end by themselves. */
class held_context {
public:
	held_context();
	~held_context()
	{
		if (c_)
			c_->calls.leave();
	}
	held_context(const held_context &) = delete;
	held_context &operator=(const held_context &) = delete;
	context *get() const { return c_; }
	context *operator->() const { return c_; }
	explicit operator bool() const { return c_; }

private:
	context *c_ = nullptr;
	no_cancel quiet_;
};

/* An object of the core's with references of its own, for the time of a call. */
template <class T, T *(*enter)(const void *), void (*leave)(T *)> class held {
public:
	held() = default;
	~held()
	{
		if (p_)
			leave(p_);
	}
	held(const held &) = delete;
	held &operator=(const held &) = delete;
	/* False: the handle is no live one's. */
	bool take(const void *handle) { return (p_ = enter(handle)); }
	operator T *() const { return p_; }
	T *operator->() const { return p_; }

private:
	T *p_ = nullptr;
	no_cancel quiet_;
};

using held_stream = core::stream_hold;
using held_event = core::event_hold;

/* 107002 with its message. */
[[gnu::cold, gnu::noinline]] aclError no_context(const char *call);

/* ---- devices as the user numbers them -------------------------------------------------------------- */

/* How many are visible; or -errno (no devices: 0). */
int visible_count();
/* The core's slot of a user's number; -1: no such device. */
int slot_of(s64 id);
/* The user's number of a slot; -1: not visible. */
int user_of(unsigned slot);
/* 107001 with its message. */
aclError no_device(const char *call, s64 id);

/* ---- contexts -------------------------------------------------------------------------------------- */

int context_create(s32 id, bool primary, context **out);
/* For handles that were validated. */
inline context *as_context(const void *handle)
{
	return core::object_at<context>(handle);
}
inline void *context_handle(const context *c)
{
	return reinterpret_cast<void *>(load_relaxed(&c->alive));
}
/* -EDEADLK: this thread runs a function that one of its streams waits for. */
int context_allows_end(const context *c);
/*
 * Waits for calls in progress and for its streams (force: drops their work), and destroys them with it.  False: another
 * thread does so already.
 */
bool context_destroy(context *c, bool force);
bool context_valid(const void *handle);
/* c: nullptr, or one that cannot end meanwhile. */
void set_current(context *c);
/* False: the handle is no live context's, and nothing has changed. */
bool set_current_handle(const void *handle);
/* The primary context of a slot, or nullptr. */
context *primary_of(unsigned slot);
/* aclInit's default device for threads that have none; -1: none. */
void set_default_device(s32 id);

/* ---- streams --------------------------------------------------------------------------------------- */

inline core::stream *as_stream(aclrtStream s)
{
	return core::stream_of(s);
}

inline context *owner_of(const core::stream *s)
{
	return static_cast<context *>(s->opt.owner);
}

/* The library's own streams have no owner: a stale handle must not reach one. */
inline bool stream_live(const void *handle)
{
	return core::stream_valid(handle) && core::stream_of(handle)->opt.owner;
}

/* What a stream's user words mean to us. */
enum stream_word { word_subscription = 0, word_tag = 1, word_host_subscription = 2, word_cache = 3 };

/* 107017. */
[[gnu::cold, gnu::noinline]] aclError bad_stream(const char *call, const void *handle);
/* 107003. */
[[gnu::cold, gnu::noinline]] aclError foreign_stream(const char *call, const void *handle);

/*
 * The stream of a handle for a call that submits: valid, the thread has a
 * context, and it is the stream's.  NULL is the context's default stream.
 */
aclError get_stream(const char *call, aclrtStream handle, held_stream *out);
/* The same without "of this context". */
aclError get_any_stream(const char *call, aclrtStream handle, held_stream *out);
/* The device of the calling thread's context. */
aclError get_device(const char *call, core::device_hold *out);

void note_task();

/* Tells the exception callback of a task error that a synchronisation has just returned. */
void tell_exception(const core::stream *s, aclError code);
void tell_stream_state(aclrtStream handle, aclrtStreamState state);

} // namespace usdma::acl
