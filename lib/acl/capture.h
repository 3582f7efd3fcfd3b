/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream capture, for the calls that submit work. A capturing stream is marked by core::stream_set_captured(): a
 * submission makes all its checks and then fails with -EINPROGRESS, in the slow path that it takes anyway, and the call
 * hands its work to one of the functions below instead.
 */
#pragma once

#include "lib/acl/state.h"
#include "lib/core/copy/copy.h"

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <type_traits>

namespace usdma::acl {

inline constexpr int err_captured = -EINPROGRESS;

/* A function int(core::stream *) with its arguments, by value. */
struct captured_call {
	static constexpr size_t most = 80;

	int (*run)(const void *args, core::stream *s) = nullptr;
	alignas(8) unsigned char args[most];

	captured_call() = default;
	template <class F>
	explicit captured_call(const F &f)
		: run([](const void *a, core::stream *s) -> int { return (*static_cast<const F *>(a))(s); })
	{
		static_assert(sizeof(F) <= most && alignof(F) <= 8 && std::is_trivially_copyable_v<F>);
		memcpy(args, &f, sizeof(f));
	}
	int operator()(core::stream *s) const { return run(args, s); }
};

/* Memory that a replay accesses: device memory, or pinned. */
struct memory_use {
	const void *at;
	u64 len;
};

/* An object that the instance refers to. release is called once, also if nothing was captured. */
struct retained_object {
	void *what = nullptr;
	void (*release)(void *what) = nullptr;
};

/* The stream captures; a hint. */
inline bool captures(const core::stream *s)
{
	return unlikely(core::stream_is_captured(s));
}

/* Number of captures in progress; atomic. */
extern u32 open_captures;

/* The stream has refused f. If the capture has ended meanwhile, runs it. */
aclError capture_call(const char *call, core::stream *s, const captured_call &f,
		      std::initializer_list<memory_use> uses = {}, retained_object retained = {});
/* As capture_call(); *done: how many items were accepted. */
aclError capture_copies(const char *call, core::stream *s, const core::copy_item *items, size_t n, size_t *done);

/* Submits f(s), or captures it. */
template <class F>
inline aclError submit(const char *call, core::stream *s, const F &f, std::initializer_list<memory_use> uses = {})
{
	const int err = f(s);

	return likely(err != err_captured) ? check(call, err, at::submit) :
					     capture_call(call, s, captured_call(f), uses);
}

/* ---- events ------------------------------------------------------------------------------------------ */

/* Recorded by a capture in progress; a hint. */
inline bool is_captured(const core::event *e)
{
	return unlikely(load_relaxed(&e->user[word_record]));
}
/* s is being captured, or was until just now: then the call runs normally. */
aclError capture_record(const char *call, core::stream *s, core::event *e, bool external);
aclError capture_reset(const char *call, core::stream *s, core::event *e);
/* False: neither s nor e belongs to a capture, nothing was done. */
bool capture_wait(const char *call, core::stream *s, core::event *e, bool external, aclError *err);
/* A stream that is not being captured has recorded e: the capture's record no longer counts. */
void capture_forget(core::event *e);
/* Before the stream is aborted: replays in it end in their other streams, too. */
void capture_abort(const void *handle);
/* 107028. */
[[gnu::cold, gnu::noinline]] aclError event_captured(const char *call, core::event *e);

/* ---- what a capture forbids ---------------------------------------------------------------------------- */

/* 107027. */
[[gnu::cold, gnu::noinline]] aclError stream_captured(const char *call, const core::stream *s);
/* 107027 if a stream of the calling thread's context captures. */
aclError capture_allows_sync(const char *call);
/* 107000, or waits for the stream and returns 107041. The guard may be dropped when it fails. */
aclError capture_allows_pageable(const char *call, stream_guard &s);
[[gnu::cold, gnu::noinline]] aclError capture_allows_slow(const char *call);
/* 107030 if a capture's mode forbids synchronous copies and fills in this thread. */
inline aclError capture_allows(const char *call)
{
	return likely(!load_relaxed(&open_captures)) ? ACL_SUCCESS : capture_allows_slow(call);
}

} // namespace usdma::acl
