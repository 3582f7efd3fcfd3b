/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * USDMA_CHECK=race: what the library reports to the race detector (lib/core/check), a library of its own, or a part of
 * the program. All of it is for slow paths, is called by any thread without a hardware queue's lock, and nothing of
 * it is called without the setting.
 *
 * The threads of a program count as one context, in the order of their calls: what they use among themselves, such as
 * mutexes, is not seen here.
 */
#pragma once

#include "driver/dma/request.h"
#include "lib/core/base/fork.h"
#include "lib/core/config/config.h"

#pragma GCC visibility push(default)
namespace usdma::core {

struct region;
struct seen_word;
struct stream;

/* Of what runs its operations one after the other: the threads, or a stream. 0 of a stream: it is not followed. */
using context_id = u32;
/* An event's record, a call of a host function: the detector's own. */
struct race_signal;
struct race_call;

/* freed: by the program, nothing may use it any more; written: by others; reset: the host stores to a word. */
enum class race_memory : u8 { freed, written, reset, alias };
enum class race_record : u8 { made, wait, reached, deleted };
enum class race_event : u8 { call_starts, call_done };

/* An access of memory; an empty one is none. */
struct race_use {
	const void *at;
	u64 size;
	bool writes;
};

/* What a call does by the program's addresses. */
struct race_access {
	context_id by = 0;            /* 0: the calling thread, at once */
	const char *what;             /* a static text, as the next two */
	const char *broken = nullptr; /* a rule of the documents, by USDMA_CHECK=strict; the accesses are ignored */
	const char *fix = nullptr;
	bool batch = false; /* items, each a read and a write in turn, that were submitted: they have no order */
	size_t n = 0;
	race_use (*use)(const void *arg, size_t i) = nullptr;
	const void *arg = nullptr;
};

struct race_hooks {
	/* Memory of the program, of which only accesses are checked, is there, or no more. */
	void (*region)(const region &r, bool there);
	/* By memory_key(). alias: [to, to + size) is, for other devices, at key. */
	void (*memory)(race_memory what, u64 key, u64 size, u64 to);
	context_id (*stream_add)(u32 number, bool internal);
	void (*stream_remove)(context_id s);
	/* What a stream has accepted; a gate of it. */
	void (*requests)(const stream *s, const dma::request *r, size_t n);
	void (*gate)(const stream *s, const seen_word *seen);
	void (*access)(const race_access &a);
	/* 1: accesses of this thread are those of an operation that was submitted before, until -1. */
	void (*by_library)(int change);
	/* The mark of what was submitted so far. waited: all of that has ended, and the caller knows. */
	u64 (*stream_mark)(context_id s);
	void (*stream_waited)(context_id s, u64 mark);
	/* *at: made here. */
	void (*record)(race_record what, context_id s, race_signal **at);
	/* group, by: those of its call_scope; token: of call_done(), nullptr: the stream does not wait. */
	race_call *(*call)(context_id s, const void *group, u64 by, const void *token);
	/* Whether it was accepted; frees it. */
	void (*call_made)(race_call *c, bool accepted);
	/* The oldest of the group and thread runs; or the token was done. */
	void (*call_event)(race_event what, const void *of, u64 by);
	/*
	 * The calling thread is in these frames of an interpreter for what it does from now on: "kv.py:12 in load\n…",
	 * innermost first; "": in those with this number, 0: in none. Returns those before.
	 */
	u32 (*frames)(const std::string &lines, u32 number);
};

/* Loads the detector. -ENOPKG with a text: there is none of this build. */
int race_detector(const race_hooks **out);

inline bool race_on()
{
	return unlikely(config_get().checks.race) && !forked();
}

/* With race_on(), or for a stream that is followed. */
inline const race_hooks &race()
{
	return *config_get().hooks;
}

inline constexpr u64 race_everything = ~u64(0);

/* By the calling thread's call, which does what its documents forbid. */
inline void race_rule(const char *broken, const char *fix)
{
	if (config_get().hooks)
		race().access({.what = "copy", .broken = broken, .fix = fix});
}

/* Accesses of this thread until the end of the scope are those of an operation that was submitted before. */
class race_entered {
public:
	race_entered() : on_(race_on())
	{
		if (on_)
			race().by_library(1);
	}
	~race_entered()
	{
		if (on_)
			race().by_library(-1);
	}
	race_entered(const race_entered &) = delete;
	race_entered &operator=(const race_entered &) = delete;

private:
	const bool on_;
};

} // namespace usdma::core
#pragma GCC visibility pop
