/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/memory/hold.h"

#include "driver/base/error.h"

#include <ctime>

namespace usdma::core {

/* The bytes of a region as devices have them. */
static u64 first_key(const translation &p)
{
	return memory_key(p.space == dma::space::host, p.slot, p.base + p.delta);
}

/* Release: accesses to what was held before precede it. */
static void note(held_range *h, const translation &p)
{
	store_release(&h->end, u64(0));
	if (!p.reg)
		return;
	store_release(&h->first, first_key(p));
	store_release(&h->end, first_key(p) + p.size);
}

static bool is_removed(const translation &p)
{
	return p.reg && !is_current(p);
}

int memory_hold::take(const translation &a, const translation &b)
{
	const read_section in;

	if (!in)
		return in.error();
	if (!in_) {
		section_record *const r = thread_here()->joined;

		if (r->holds == hold_most)
			return fail(EBUSY, "the thread holds the memory of %u copies already", hold_most);
		in_ = r;
		at_ = r->held[r->holds++];
	}
	note(&at_[0], a);
	note(&at_[1], b);
	if (!is_removed(a) && !is_removed(b))
		return 0;
	drop();
	return stale;
}

void memory_hold::drop()
{
	if (!in_)
		return;
	note(&at_[0], {});
	note(&at_[1], {});
	in_->holds--;
	in_ = nullptr;
}

void hold_wait(const region &removed, deadline until)
{
	static constexpr timespec nap = {0, 50000};
	const u64 first = memory_key(removed.space == dma::space::host, removed.slot, removed.base + removed.delta);

	while (section_holder(first, first + removed.size) && !until.passed())
		nanosleep(&nap, nullptr);
}

} // namespace usdma::core
