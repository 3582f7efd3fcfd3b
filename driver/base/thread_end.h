/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

namespace usdma {

/*
 * Per-thread data is on the heap, behind a thread-local pointer: static TLS is scarce, since all libraries
 * loaded at run time share it. Such a block starts with this header and is freed at thread exit.
 */
struct thread_end {
	void (*run)(thread_end *self);
	thread_end *next;
};
/* For the calling thread; if out of memory, e is never run and outlives its thread. */
void at_thread_end(thread_end *e);

} // namespace usdma
