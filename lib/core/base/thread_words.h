/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a thread keeps for the calls that are not to wait: all of it in one
 * thread-local variable, whose address a call asks for once.
 *
 * A library may be loaded when the program runs, and then the loader has little
 * static TLS left.  So the variable is not declared initial-exec, which would
 * insist on that: the loader places it where there is space.  Where that is not
 * static TLS, glibc allocates it at a thread's first call, and ends the process if
 * there is no memory for it, as for every library's variables.
 */
#pragma once

#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma::core {

struct section_record;

struct thread_words {
	section_record *section; /* section.h: for sections without a fence; nullptr: section_enter() */
	section_record *joined;  /* the same record, or one whose sections need fences */
	const void *cache;       /* memory.h; never nullptr */
	u64 front[5];            /* the ACL library's (lib/acl/state.h); zero at first */
};

/* The libraries call it on each of their calls: not by a stub. */
#if __has_attribute(noplt)
#define usdma_noplt [[gnu::noplt]]
#else
#define usdma_noplt
#endif

/* const: it is the same all through a function, so compilers ask once. */
usdma_noplt [[gnu::const]] thread_words *thread_here() noexcept;

/* For a thread without a cache of its own: entries that hold nothing. */
inline constexpr unsigned cache_bytes = 256;
extern const unsigned char cache_empty[cache_bytes];

} // namespace usdma::core
#pragma GCC visibility pop
