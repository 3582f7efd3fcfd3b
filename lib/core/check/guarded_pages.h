/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * USDMA_CHECK=race,guard: pages of pinned memory that operations use are protected, so that an access of the program
 * raises SIGSEGV. The handler (page_guard.h) notes it here, opens the page, and the access is done again. Pages that a
 * device reads can be read; those that it writes cannot be accessed.
 *
 * An access by the library or by an embedded device opens the pages silently: with hostile timing it comes late.
 * In a child of fork() all pages are open.
 */
#pragma once

#include "lib/core/check/race_report.h"

namespace usdma::core {

/* An access of the program to a page that an operation uses. */
struct page_fault {
	u64 key; /* of the byte, see race_key() */
	u64 address;
	bool writes, operation_writes;
	u32 operation;
	int thread;
	call_stacks::frames stack;
};

struct guarded_range {
	u64 address, key, size;
};

/* The pages that lie within the range. */
byte_range pages_in(const guarded_range &r);
/* These three: with the check's lock. */
/* Protects the pages. False: there are none, or they cannot all be protected; there is no end of it then. */
bool pages_guard(const guarded_range &r, bool writes, u32 operation);
/* The end of one pages_guard(). */
void pages_release(const guarded_range &r, bool writes);
/* The memory is no longer the program's: all pages are open. */
void pages_forget(const guarded_range &r);
/* The oldest one; false: there is none. */
bool page_fault_take(page_fault *out);
/* Pages that could not be protected, and accesses that were not noted. */
u64 pages_unguarded();

/* What is guarded for the operations of streams, until the program knows that they have ended. */
class race_guards {
public:
	struct guard {
		u64 time;
		guarded_range where;
		bool writes;
		u32 operation;
	};

	void add(context_id by, u64 time, const guarded_range &r, bool writes, u32 operation);
	void verify(const history &order, context_id thread);
	void forget(const guarded_range &r);
	/* The stream is no more. */
	void remove(context_id by);

	/* Those whose pages hold the address. */
	template <class F> void each_at(u64 address, const F &f) const
	{
		for (const auto &[by, all] : pending_)
			for (const guard &g : all)
				if (const byte_range in = pages_in(g.where); in.begin <= address && address < in.end)
					f(g);
	}

private:
	std::map<context_id, std::deque<guard>> pending_; /* oldest first */
};

} // namespace usdma::core
