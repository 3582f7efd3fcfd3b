/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Read sections and grace periods: RCU in user space.
 *
 * A hot call reaches objects through a handle that another thread may destroy
 * at any time.  A reference count would cost it two locked instructions, which
 * wait until its stores have left the CPU.  So it marks a word of its own
 * thread, with plain stores.  Who destroys an object makes its handle invalid,
 * then waits for a grace period: until each thread that was inside has left.
 *
 * Nothing inside a section may block or wait for a grace period.  What may
 * block counts itself first (hold.h) and leaves the section.
 *
 * Pairing: a reader stores depth, then loads the handle; a destroyer clears the
 * handle, then loads depth.  Each needs a full barrier in between; the
 * destroyer's barrier of all CPUs stands in for the reader's (asym_barrier.h).
 */
#pragma once

#include "driver/base/asym_barrier.h"
#include "driver/base/barrier.h"
#include "lib/core/base/thread_words.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* One a thread, on a line of its own; never freed, used again by later threads. */
struct alignas(64) section_record {
	u32 depth = 0;  /* sections that the thread is in; stored by it alone */
	u32 fences = 0; /* there is no barrier of all CPUs: the reader passes its own (section_enter) */
	u32 taken = 0;  /* a thread has it; under the list's lock */
	section_record *next = nullptr;
};

/* For a thread without a record, or with fences.  nullptr: -EPERM in a child of fork, or -ENOMEM; with a text. */
section_record *section_enter();
int section_error();

/* Always inline: one that is kept in memory makes its function check a stack guard. */
class read_section {
public:
	[[gnu::always_inline]] read_section() : r_(enter()) {}
	[[gnu::always_inline]] ~read_section()
	{
		/* Release: what was done inside comes before its end. */
		if (likely(r_))
			store_release(&r_->depth, load_relaxed(&r_->depth) - 1);
	}
	read_section(const read_section &) = delete;
	read_section &operator=(const read_section &) = delete;

	[[gnu::always_inline]] explicit operator bool() const { return r_ != nullptr; }
	/* Why there is none. */
	int error() const { return section_error(); }

private:
	[[gnu::always_inline]] static section_record *enter()
	{
		section_record *const r = thread_here()->section;

		if (unlikely(!r))
			return section_enter();
		store_relaxed(&r->depth, load_relaxed(&r->depth) + 1);
		barrier_light();
		return r;
	}

	section_record *const r_;
};

/* Returns when every section that was entered before has been left.  Not from inside one. */
void grace_wait();

} // namespace usdma::core
#pragma GCC visibility pop
