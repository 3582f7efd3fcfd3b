/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read sections and grace periods: RCU in user space.
 *
 * A fast-path call uses objects through a handle that another thread may destroy at any time. A reference count
 * would cost two locked instructions, which wait for the store buffer to drain. So the call marks a per-thread
 * word with plain stores. A destroyer invalidates the object's handle, then waits for a grace period, until
 * each thread that was inside a section has left.
 *
 * Code inside a section must not block or wait for a grace period; so it does not access memory of the program, whose
 * pages may have to come from a disk, a server or userfaultfd. A call that may block takes a count first (guard.h), or
 * holds the memory (lib/core/memory/hold.h), and leaves the section.
 *
 * Pairing: a reader stores depth, then loads the handle; a destroyer clears the handle, then loads depth. Each
 * needs a full barrier in between; the destroyer's membarrier replaces the reader's (asym_barrier.h).
 */
#pragma once

#include "driver/base/asym_barrier.h"
#include "driver/base/barrier.h"
#include "lib/core/base/thread_words.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* A range of keys; empty: end is 0. Atomic. */
struct held_range {
	u64 first = 0, end = 0;
};
/* By one thread at a time: rows, a copy, one of memory that was unregistered meanwhile, a piece or a gate. */
inline constexpr unsigned hold_most = 4;

/*
 * One a thread, on its own cache line; never freed, reused by later threads. In memory that is zeros in a child of
 * fork: there, too, a section finds a depth of 0.
 */
struct alignas(64) section_record {
	u32 depth = 1;  /* 1 + nesting depth; written by its thread only */
	u32 fences = 0; /* no membarrier: the reader uses full barriers (section_enter()) */
	u32 taken = 0;  /* in use by a thread; under the list's lock */
	u32 waited = 0; /* grace_over() waits for it; by the caller of that */
	section_record *next = nullptr;
	u32 holds = 0;
	held_range held[hold_most][2]; /* memory_hold */
};

/* Slow path: no record yet, one with fences, or a child of fork. nullptr: -EPERM in a child of fork, or -ENOMEM; error
 * text set. */
section_record *section_enter();
int section_error();

/* Always inline: an object in memory would add a stack protector check to the function. */
class read_section {
public:
	[[gnu::always_inline]] read_section() : r_(enter()) {}
	[[gnu::always_inline]] ~read_section()
	{
		/* Release: accesses inside the section precede its end. */
		if (likely(r_))
			store_release(&r_->depth, load_relaxed(&r_->depth) - 1);
	}
	read_section(const read_section &) = delete;
	read_section &operator=(const read_section &) = delete;

	[[gnu::always_inline]] explicit operator bool() const { return r_ != nullptr; }
	/* -errno if entering failed. */
	int error() const { return section_error(); }

private:
	[[gnu::always_inline]] static section_record *enter()
	{
		section_record *const r = thread_here()->section;
		const u32 depth = load_relaxed(&r->depth);

		if (unlikely(!depth))
			return section_enter();
		store_relaxed(&r->depth, depth + 1);
		/* Never null, which the compiler would test again at the end. */
		if (!r)
			__builtin_unreachable();
		barrier_light();
		return r;
	}

	section_record *const r_;
};

/* By which a thread holds a part of this range; nullptr: none does. It is never freed. */
const held_range *section_holder(u64 first, u64 end);

/* Returns when every section entered before has been left. Must not be called inside one. */
void grace_wait();

/*
 * The same without waiting: grace_over() is true once every section entered before grace_begin() has been left. One
 * caller at a time.
 */
void grace_begin();
bool grace_over();

} // namespace usdma::core
#pragma GCC visibility pop
