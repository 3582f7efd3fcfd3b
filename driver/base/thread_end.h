/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

namespace usdma {

/*
 * What a thread keeps for itself lies on the heap, behind a pointer: of static TLS, which all libraries that a program
 * loads at run time share, there is little.  Such a block begins with this, and ends with its thread.
 */
struct thread_end {
	void (*run)(thread_end *self);
	thread_end *next;
};
/* The calling thread's; where there is no memory to note it, it outlives its thread. */
void at_thread_end(thread_end *e);

} // namespace usdma
