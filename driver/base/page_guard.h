/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program may truncate, unmap or protect memory while the library accesses it; the access then raises SIGSEGV or
 * SIGBUS.  Inside a guard, the access is aborted by siglongjmp() and the guard holds the faulting address.
 *
 * The kernel kills a process that accesses such memory in a thread that blocks the signal: a guard unblocks both.  It
 * makes system calls for that in a thread's first guard, while the thread blocks them, and for long
 * accesses; not for a short one in a thread that did not block them at its last check.
 *
 * Signals outside of a guard are passed to the program's handlers, as are those
 * for other memory than the guard's: a handler of another signal, which has interrupted the access, may probe memory.
 */
#pragma once

#include "driver/base/types.h"

#include <csetjmp>
#include <csignal>
#include <type_traits>

#pragma GCC visibility push(default)
namespace usdma {

struct access_range {
	const void *at = nullptr;
	u64 len = 0;
};

struct page_guard {
	sigjmp_buf resume;
	volatile sig_atomic_t armed = 0;
	void *volatile address = nullptr; /* after a jump to resume: the faulting address */
	page_guard *outer = nullptr;
	u32 was_blocked = 0; /* of the two signals, by bit: blocked by the thread, until page_guard_leave() */
	/* What is accessed; both empty: anything, by a thread that blocks signals. */
	access_range of[2] = {};

	void cover(access_range a, access_range b)
	{
		of[0] = a;
		of[1] = b;
		/* The handler reads them, in the same thread: stored before the accesses. */
		asm volatile("" ::: "memory");
	}
};

/*
 * Installs handlers for SIGSEGV and SIGBUS, again if the program has replaced them since; the previous handlers are
 * called for faults outside of guards.  Thread-safe.  0 or -errno.
 */
int page_guard_install();
/* After it: it has the handler of SIGSEGV. False: the program has replaced that too often. */
bool page_guard_is_installed();

/*
 * Called first for an access to a page whose protection forbids it; within: in a guard. True: the access is to be
 * tried again. Async-signal-safe. nullptr: none.
 */
using protected_page = bool (*)(void *address, const void *context, bool within);
void page_guard_on_protected(protected_page f);

/* The calling thread's innermost guard from here on.  Before page_guard_install() there is none. */
void page_guard_enter(page_guard *g);
void page_guard_leave(page_guard *g);
/* The thread's next guard checks again whether it blocks the signals. */
void page_guard_recheck();
/* For an access of n bytes, unless that takes longer than the access: in one guard, or in several. */
inline void page_guard_check(u64 n)
{
	static constexpr u64 long_from = 256 * KiB;

	if (n >= long_from)
		page_guard_recheck();
}

/*
 * Runs f(guard), which accesses a and b, or what it has the guard cover before each access.  It must not own anything
 * that a destructor releases.  False: it faulted at *bad and was aborted.
 */
template <class F> [[gnu::noinline]] bool page_guarded(access_range a, access_range b, const F &f, const void **bad)
{
	page_guard g;

	if (sigsetjmp(g.resume, 0)) {
		page_guard_leave(&g);
		*bad = g.address;
		return false;
	}
	page_guard_check(a.len);
	page_guard_enter(&g);
	g.cover(a, b);
	g.armed = 1;
	if constexpr (std::is_invocable_v<F, page_guard &>)
		f(g);
	else
		f();
	g.armed = 0;
	page_guard_leave(&g);
	return true;
}

} // namespace usdma
#pragma GCC visibility pop
