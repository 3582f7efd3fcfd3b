/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the CPU accesses. An access may take any time: a page of the program's memory may have to come from a
 * disk, a server or userfaultfd. So it is made outside of read sections, and holds the memory meanwhile: what is freed
 * is not used for anything else before, and an unregistration waits. It is noted in the thread's record: the thread
 * that frees memory removes its region, waits for read sections, then reads the records (section_holder()).
 */
#pragma once

#include "driver/base/clock.h"
#include "lib/core/base/section.h"
#include "lib/core/memory/memory.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* A thread drops them in reverse order, and has hold_most at a time. */
class memory_hold {
public:
	memory_hold() = default;
	~memory_hold() { drop(); }
	memory_hold(const memory_hold &) = delete;
	memory_hold &operator=(const memory_hold &) = delete;

	/* Instead of what it held. Pageable memory needs none. stale: it was removed; -errno. */
	int take(const translation &a, const translation &b);
	int take(const translation &a) { return take(a, a); }
	void drop();

private:
	section_record *in_ = nullptr;
	held_range *at_ = nullptr; /* two */
};

/* Waits, for a limited time, until no thread holds a part of the region. */
void hold_wait(const region &removed, deadline until);

} // namespace usdma::core
#pragma GCC visibility pop
