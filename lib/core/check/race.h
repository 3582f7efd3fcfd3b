/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * USDMA_CHECK=race: enters what a program does into the history of happens-before (history.h), and its conflicts into
 * the reports (race_report.h). All functions are for slow paths, are called by any thread without a hardware queue's
 * lock, and do nothing without the setting.
 *
 * The threads of a program count as one context, in the order of their calls: what they use among themselves, such as
 * mutexes, is not seen here.
 */
#pragma once

#include "driver/dma/request.h"
#include "lib/core/check/history.h"

#pragma GCC visibility push(default)
namespace usdma::core {

bool race_on();
/* Something could not be checked. */
void race_no_memory();

/* ---- memory --------------------------------------------------------------------------------------- */

/* A byte as a device has it. host: by its IOVA, which is the same for all; else of the memory of a device's slot. */
constexpr u64 race_key(bool host, unsigned slot, u64 dma)
{
	return host ? dma : u64(1) << 62 | u64(slot) << 56 | (dma & ((u64(1) << 56) - 1));
}

/* Memory of the program: only accesses to such are checked. */
struct race_block {
	u64 key, size;
	u64 address; /* the program's */
	const char *what;
	bool host;              /* the CPU can access it */
	bool written;           /* others may have written it, or the CPU */
	bool unguarded = false; /* its pages cannot be protected: only read by the CPU, or huge */
};
void race_block_add(const race_block &b);
void race_block_remove(u64 key, u64 size, u64 address);
/* Memory [to, to + size) is, for other devices, at from. */
void race_alias(u64 from, u64 to, u64 size);
/* Others may write it from now on. */
void race_written(u64 key, u64 size);
/* From now on the device may write at addresses that are not seen here. */
void race_writes_anywhere();
/* The program frees a block: nothing may use it any more. */
void race_block_free(u64 key);

/* ---- rules ----------------------------------------------------------------------------------------- */

/* The calling thread's call does what its documents forbid (USDMA_CHECK=strict). Both are static texts. */
void race_rule(const char *broken, const char *fix);

/* ---- streams -------------------------------------------------------------------------------------- */

/* 0: none. */
context_id race_stream_add(u32 number, bool internal);
void race_stream_remove(context_id s);
/* what: a static text. */
void race_submit(context_id s, const char *what, std::span<const stream_access> ranges);
/* Items of a batch, each a read and a write in turn: after all of them were submitted. */
void race_batch(context_id s, const char *what, std::span<const stream_access> items);
/* By a thread, at once. */
void race_access(const char *what, std::span<const stream_access> ranges);
/* Accesses of this thread until the end of the scope are those of an operation that was submitted before. */
class race_entered {
public:
	race_entered();
	~race_entered();
	race_entered(const race_entered &) = delete;
	race_entered &operator=(const race_entered &) = delete;
};
/* The mark of what was submitted so far. race_stream_waited: all of that has ended, and the caller knows. */
u64 race_stream_mark(context_id s);
inline constexpr u64 race_everything = history::everything;
void race_stream_waited(context_id s, u64 mark = race_everything);
/* A wait for what is not seen here: another process, or a store by the CPU. */
void race_unseen_wait(context_id s);

/* ---- records of events ------------------------------------------------------------------------------ */

struct race_signal;
/* *at: made here. */
void race_record(context_id s, race_signal **at);
void race_record_wait(context_id s, race_signal **at);
void race_record_waited(race_signal *const *at);
void race_signal_delete(race_signal *s);

/* ---- words: values and notifies ------------------------------------------------------------------- */

void race_word_write(context_id s, u64 key, u64 value);
/* takes: the one that passes resets the word to 0. */
void race_word_wait(context_id s, u64 key, dma::compare cmp, u64 value, bool takes);
/* The host resets it: no write so far counts. */
void race_word_reset(u64 key);

/* ---- frames of an interpreter --------------------------------------------------------------------- */

/* lines: "kv.py:12 in load\nmain.py:3 in main\n", innermost first. 0: there are too many. */
u32 race_frames(const std::string &lines);
/* The calling thread is in these, for what it does from now on; 0: in none. Returns those before. */
u32 race_frames_enter(u32 frames);

/* ---- host functions ------------------------------------------------------------------------------- */

/* Its start, and its end if the stream waits for it. */
struct race_call_signals {
	signal_ref start, end;
};
/* group, by: those of its call_scope; token: of call_done(), nullptr: the stream does not wait. */
race_call_signals race_call(context_id s, const void *group, u64 by, const void *token);
/* That call was not made after all. */
void race_call_refused(const void *group, u64 by, const void *token, const race_call_signals &which);
/* The oldest of these runs. */
void race_call_starts(const void *group, u64 by);
void race_call_done(const void *token);

} // namespace usdma::core
#pragma GCC visibility pop
