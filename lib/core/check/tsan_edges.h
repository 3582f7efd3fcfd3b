/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * In a program that is built with ThreadSanitizer: passes on to its library what streams access, and the order that
 * they make. A stream is a fiber there, so that an access of a thread without an order to a copy is reported as one
 * between two threads is. The functions of libtsan are weak: elsewhere none of this is used.
 *
 * With the lock of the check held. Context 0 is the calling thread; any thread may run a stream's fiber for a moment.
 */
#pragma once

#include "driver/base/types.h"
#include "lib/core/check/vector_clock.h"

namespace usdma::core {

class tsan_edges {
public:
	/* libtsan is in the process. This library's own accesses are unknown to it: not if they are instrumented. */
	static bool available();

	/* Of a stream, at the program's address; stack: depth return addresses at most, innermost first. */
	void access(context_id c, u64 address, u64 len, bool writes, void *const *stack, size_t depth);
	/* What the context did so far happened before what others do after they took the same. */
	void give(context_id c, const void *at);
	void take(context_id c, const void *at);
	/* What the thread did happened before the stream's next operation, and the other direction. */
	void submitted(context_id c);
	void waited(context_id c);
	/* Host memory: who allocates it next, at the same address, comes after all that used it. */
	void memory_added() { take(0, this); }
	void memory_removed();

private:
	/* libtsan has 8128 threads, or more. Contexts that share a fiber have more order than they make. */
	static constexpr size_t max_fibers = 1024;

	void *fiber(context_id c);
	template <class F> void run(context_id c, const F &f);

	void *fibers_[max_fibers] = {}; /* contexts are used again, and so are they; [0] is not used */
};

} // namespace usdma::core
