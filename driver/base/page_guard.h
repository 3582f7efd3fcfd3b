/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the program may stop to be there while the library touches it: a file is cut short, pages are unmapped or
 * protected.  The access then raises SIGSEGV or SIGBUS.  Within a guard it ends instead, and the guard says where.
 *
 * A guard takes no system call, and what is done within it costs nothing more.  Signals from elsewhere go to the
 * handlers that the program had.
 */
#pragma once

#include "driver/base/types.h"

#include <csetjmp>
#include <csignal>

namespace usdma {

struct page_guard {
	sigjmp_buf resume;
	volatile sig_atomic_t armed = 0;
	void *volatile address = nullptr; /* behind a jump to resume: what could not be touched */
	page_guard *outer = nullptr;
};

/*
 * Takes over SIGSEGV and SIGBUS, and again where the program has installed handlers since, which are called for what
 * is not guarded.  Any thread.  0 or -errno.
 */
int page_guard_install();

/* The calling thread's innermost guard from here on.  Before page_guard_install() there is none. */
void page_guard_enter(page_guard *g);
void page_guard_leave(page_guard *g);

/* Runs f, which may hold nothing that a destructor gives back.  False: it met *bad, and has ended there. */
template <class F> [[gnu::noinline]] bool page_guarded(const F &f, const void **bad)
{
	page_guard g;

	if (sigsetjmp(g.resume, 0)) {
		page_guard_leave(&g);
		*bad = g.address;
		return false;
	}
	page_guard_enter(&g);
	g.armed = 1;
	f();
	g.armed = 0;
	page_guard_leave(&g);
	return true;
}

} // namespace usdma
