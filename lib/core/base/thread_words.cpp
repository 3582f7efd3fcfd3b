/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiled apart (lib/meson.build), with TLS descriptors where the compiler has
 * them: with those the loader gives a library that is loaded late static TLS as
 * long as there is some, and the address costs a few instructions.
 */
#include "lib/core/base/thread_words.h"

namespace usdma::core {

alignas(64) constinit const unsigned char cache_empty[cache_bytes] = {};

static constinit thread_local thread_words words = {nullptr, nullptr, cache_empty, {}};

/*
 * Never inlined: the compiler takes it that a descriptor's call keeps all vector
 * registers, which that of glibc before 2.40 does not (bug 31372).  The callers of a
 * function keep nothing there.
 */
[[gnu::noinline]] thread_words *thread_here() noexcept
{
	return &words;
}

} // namespace usdma::core
