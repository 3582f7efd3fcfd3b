/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Per-thread state of fast-path calls, in one thread-local variable, whose address a call computes once.
 *
 * A library loaded by dlopen() may find little static TLS left. So the variable is not declared initial-exec,
 * which would require static TLS: the loader uses static TLS if there is space; otherwise glibc allocates the
 * variable at a thread's first call, and aborts the process if that fails, as for any library.
 */
#pragma once

#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma::core {

struct section_record;

struct thread_words {
	section_record *section; /* section.h: for sections without a fence; never nullptr */
	section_record *joined;  /* the same record, or one whose sections need fences */
	const void *cache;       /* memory.h; never nullptr */
	u64 front[5];            /* for the ACL library (lib/acl/state.h); initially zero */
};

/* The record of threads that have none, or one whose sections need fences: its depth stays 0. */
extern section_record section_none;

/* Called on each library call: avoid a PLT stub. */
#if __has_attribute(noplt)
#define usdma_noplt [[gnu::noplt]]
#else
#define usdma_noplt
#endif

/* const: constant within a function, so compilers call it once. */
usdma_noplt [[gnu::const]] thread_words *thread_here() noexcept;

/* Empty cache for threads that have not allocated one. */
inline constexpr unsigned cache_bytes = 256;
extern const unsigned char cache_empty[cache_bytes];

} // namespace usdma::core
#pragma GCC visibility pop
