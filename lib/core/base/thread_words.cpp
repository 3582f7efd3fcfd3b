/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiled separately (lib/meson.build), with TLS descriptors where the compiler supports them: the loader then
 * puts the variable in static TLS while there is space, also for a library loaded by dlopen(), and the address
 * costs a few instructions.
 */
#include "lib/core/base/thread_words.h"

namespace usdma::core {

alignas(64) constinit const unsigned char cache_empty[cache_bytes] = {};

static constinit thread_local thread_words words = {&section_none, nullptr, cache_empty, {}};

/*
 * Never inlined: the compiler assumes that a TLS descriptor's call preserves all
 * vector registers; glibc before 2.40 does not (bug 31372).  Across a function call
 * they are caller-saved.
 */
[[gnu::noinline]] thread_words *thread_here() noexcept
{
	return &words;
}

} // namespace usdma::core
