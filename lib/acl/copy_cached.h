/* SPDX-License-Identifier: BSD-3-Clause */
/* The fast path of aclrtMemcpyAsync, which never waits; the Python module has it inline, to keep the GIL for it. */
#pragma once

#include "lib/acl/state.h"
#include "lib/core/copy/copy.h"

namespace usdma::acl {

/* The copy's cookie, if all checks of aclrtMemcpyAsync hold, and both ranges are in this thread's translation cache. 0:
 * not so, nothing was done. */
inline __attribute__((always_inline)) u64 try_cached(void *dst, size_t max, const void *src, size_t count, u32 kind,
						     aclrtStream stream)
{
	const core::read_section in;
	const context *c = likely(in) ? current_now() : nullptr;

	if (unlikely(!c || (stream && !stream_live(stream)) || count > max ||
		     kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE || dst == src))
		return 0;
	core::stream *s = stream ? as_stream(stream) : c->deflt;
	return likely(owner_of(s) == c) ? core::copy_fast(core::thread_here()->cache, s, dst, src, count, true) : 0;
}

/* False: nothing was done; aclrtMemcpyAsync() does it, or names the error. */
inline bool memcpy_async_at_once(void *dst, size_t max, const void *src, size_t count, u32 kind, aclrtStream stream)
{
	const u64 cookie = likely(kind < ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) ?
				   try_cached(dst, max, src, count, kind, stream) :
				   0;

	if (likely(cookie))
		note_copy(cookie);
	return cookie != 0;
}

} // namespace usdma::acl
