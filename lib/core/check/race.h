/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the hooks of lib/core/config/race.h enter into the history of happens-before (history.h), and its conflicts into
 * the reports (race_report.h). entry.cpp has the table.
 */
#pragma once

#include "lib/core/check/history.h"
#include "lib/core/config/race.h"

namespace usdma::core {

/* Something could not be checked. */
void race_no_memory();

/* ---- memory --------------------------------------------------------------------------------------- */

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

/* ---- operations ----------------------------------------------------------------------------------- */

/* what: a static text. s: 0: by the calling thread, at once. */
void race_submit(context_id s, const char *what, std::span<const stream_access> ranges);
/* Items of a batch, each a read and a write in turn: after all of them were submitted. */
void race_batch(context_id s, const char *what, std::span<const stream_access> items);
/* The calling thread's call does what its documents forbid. */
void race_breaks(const char *broken, const char *fix);
/* A wait for what is not seen here: another process, or a store by the CPU. */
void race_unseen_wait(context_id s);

/* ---- words: values and notifies ------------------------------------------------------------------- */

void race_word_write(context_id s, u64 key, u64 value);
/* takes: the one that passes resets the word to 0. */
void race_word_wait(context_id s, u64 key, dma::compare cmp, u64 value, bool takes);
/* The host resets it: no write so far counts. */
void race_word_reset(u64 key);

/* ---- the other hooks --------------------------------------------------------------------------------- */

context_id race_stream_add(u32 number, bool internal);
void race_stream_remove(context_id s);
void race_requests(const stream *s, const dma::request *r, size_t n);
void race_gate(const stream *s, const seen_word *seen);
void race_by_library(int change);
u64 race_stream_mark(context_id s);
void race_stream_waited(context_id s, u64 mark);
void race_records(race_record what, context_id s, race_signal **at);
race_call *race_call_add(context_id s, const void *group, u64 by, const void *token);
void race_call_made(race_call *c, bool accepted);
void race_call_event(race_event what, const void *of, u64 by);
u32 race_frames(const std::string &lines, u32 number);

} // namespace usdma::core
