/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts and per-thread state. A context represents a device for a group of threads: it has a default stream and
 * owns the streams created under it. Each device has one primary context, which aclrtSetDevice creates and counts.
 */
#pragma once

#include "lib/acl/report.h"
#include "lib/core/stream/guard.h"

#include <cstring>

namespace usdma::acl {

/* Reads an enumerator from the caller's memory as u32: it may hold a value outside the enum. */
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

struct alignas(64) context : core::stream_owner {
	u64 alive = 0;          /* the handle */
	core::call_count calls; /* in progress; destroying waits for them */
	bool primary = false;
	s32 id = 0;                  /* the device as the user numbers it */
	u64 generation = 0;          /* differs from that of an earlier context in the same slot */
	core::device *dev = nullptr; /* a reference */
	core::stream *deflt = nullptr;
	options opts{};
};

struct message_log;

/* The front end's part of the per-thread state. */
struct thread_state {
	context *ctx;
	u64 generation; /* of ctx when it became current */
	aclError last_error;
	u32 task;           /* the last one that it submitted: noted_task */
	bool starved;       /* no memory for the read section of its first call */
	u8 capture_mode;    /* of aclmdlRICaptureThreadExchangeMode */
	u8 primary;         /* ctx is the primary context of slot primary - 1 by aclrtSetDevice; 0: it is not */
	u32 capture_thread; /* a number; 0: it has begun no capture yet */
	message_log *log;
};

inline thread_state &self()
{
	static_assert(sizeof(thread_state) <= sizeof(core::thread_words::front));
	return *reinterpret_cast<thread_state *>(core::thread_here()->front);
}

/* The calling thread's context, for callers inside a read section or that only test for one. */
inline context *current_now()
{
	context *c = self().ctx;

	return likely(c && load_acquire(&c->generation) == self().generation) ? c : nullptr;
}
/*
 * As current_now(), for a thread whose context is no more: takes the primary context that its device has by now, or
 * sets the default device; nullptr (no message): none.
 */
context *current_slow();
/* Not in a child of fork, which has a copy of its parent's. */
inline bool has_current()
{
	const core::read_section in;

	return in && current_now();
}
inline bool has_context()
{
	return has_current() || current_slow();
}

/* Holds the calling thread's context; empty: it has none. Only for calls that end on their own: destroying the context
 * waits for them. */
class context_guard {
public:
	context_guard();
	~context_guard()
	{
		if (c_)
			c_->calls.leave();
	}
	context_guard(const context_guard &) = delete;
	context_guard &operator=(const context_guard &) = delete;
	context *get() const { return c_; }
	context *operator->() const { return c_; }
	explicit operator bool() const { return c_; }

private:
	context *c_ = nullptr;
	no_cancel no_cancel_;
};

/* A reference to a core object for the duration of a call. */
template <class T, T *(*enter)(const void *), void (*leave)(T *)> class object_guard {
public:
	object_guard() = default;
	~object_guard()
	{
		if (p_)
			leave(p_);
	}
	object_guard(const object_guard &) = delete;
	object_guard &operator=(const object_guard &) = delete;
	/* False: not a live handle. */
	bool take(const void *handle) { return (p_ = enter(handle)); }
	operator T *() const { return p_; }
	T *operator->() const { return p_; }

private:
	T *p_ = nullptr;
	no_cancel no_cancel_;
};

using stream_guard = core::stream_guard;
using event_guard = core::event_guard;

/* 107002 with its message. */
[[gnu::cold, gnu::noinline]] aclError no_context(const char *call);

/* ---- devices as the user numbers them -------------------------------------------------------------- */

/* Number of visible devices (may be 0), or -errno. */
int visible_count();
/* The core's slot of a user's number; -1: no such device. */
int slot_of(s64 id);
/* The user's number of a slot; -1: not visible. */
int user_of(unsigned slot);
/* 107001 with its message. */
aclError no_device(const char *call, s64 id);

/* ---- contexts -------------------------------------------------------------------------------------- */

int context_create(s32 id, bool primary, context **out);
/* The context of a live handle; nullptr: not live. */
context *context_find(const void *handle);
inline void *context_handle(const context *c)
{
	return reinterpret_cast<void *>(load_relaxed(&c->alive));
}
/* -EDEADLK: this thread runs a function that a stream of the context waits for. */
int context_allows_end(const context *c);
/*
 * Waits for calls in progress and for the context's streams (force: drops their work), and destroys them and the
 * context. False: another thread does so already.
 */
bool context_destroy(context *c, bool force);
/* c: nullptr, or a context that cannot be destroyed meanwhile. */
void set_current(context *c);
/*
 * As aclrtSetDevice(): the thread uses the primary context of c's device, also a later one. The runtime's threads
 * refer to the slot of it, not to the context.
 */
void set_current_primary(context *c);
/* False: not a live context, and nothing has changed. */
bool set_current_handle(const void *handle);
/* The primary context of a slot, or nullptr. */
context *primary_of(unsigned slot);
/* Makes it current. False: there is none. */
bool use_primary_again(unsigned slot);
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

/* Indices of a stream's user words. */
enum stream_word {
	word_subscription = 0,
	word_tag = 1,
	word_host_subscription = 2,
	word_cache = 3,
	word_capture = 4,
	word_limits = 5
};
/* Indices of an event's user words. */
enum event_word { word_context = 0, word_flags = 1, word_shared = 2, word_record = 3 };

/* 107017. */
[[gnu::cold, gnu::noinline]] aclError bad_stream(const char *call, const void *handle);
/* 107003. */
[[gnu::cold, gnu::noinline]] aclError foreign_stream(const char *call, const void *handle);

/*
 * Gets a stream for a call that submits: the handle is valid and the stream belongs to the thread's context. NULL
 * is the context's default stream.
 */
aclError get_stream(const char *call, aclrtStream handle, stream_guard *out);
/* As get_stream(), but accepts streams of any context. */
aclError get_any_stream(const char *call, aclrtStream handle, stream_guard *out);
/* As get_any_stream(); the thread needs no context if the handle is not NULL. */
aclError get_stream_alone(const char *call, aclrtStream handle, stream_guard *out);
/* The device of the calling thread's context. */
aclError get_device(const char *call, core::device_guard *out);

/* The failure that stopped all streams of the context (ACL_STOP_ON_FAILURE); 0: there was none. */
aclError context_failure(const context *c);

/* What the call that has it submits to the stream is the thread's last task; its id is its number in the stream. */
class noted_task {
public:
	explicit noted_task(const core::stream *s) : s_(s) {}
	~noted_task() { self().task = u32(core::stream_number(s_)); }
	noted_task(const noted_task &) = delete;
	noted_task &operator=(const noted_task &) = delete;

private:
	const core::stream *s_;
};
/* The same by the cookie of a copy. */
inline void note_copy(u64 cookie)
{
	self().task = u32(cookie >> dma::cookie_owner_bits);
}

/* By aclInit(). */
bool is_initialised();

/*
 * Calls the exception callbacks for each failed task (runtime: engine.cc, TaskFailCallBack). The caller holds nothing:
 * they may destroy what was synchronised.
 */
void report_exceptions(core::error_list *unlisted);
/* Drops the guard, and reports the failures that a synchronisation has found; err: what it returns. */
template <class G> aclError synchronized(const char *call, G &held, core::error_list *unlisted, int err)
{
	const aclError code = check(call, err, at::task);

	if (unlikely(unlisted->later)) {
		held.drop();
		report_exceptions(unlisted);
	}
	return code;
}
void report_stream_state(aclrtStream handle, aclrtStreamState state);
/* The context is being destroyed: so are its captures and instances. */
void capture_discard(const context *c, bool force);

} // namespace usdma::acl
