/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for the work that may access a range of memory, and for no other work. */
#include "lib/core/memory/internal.h"

namespace usdma::core {

/* The queue after that one, or the device's first, counted as in use. nullptr: no more, or it is closing. */
static hw_queue *enter_next(unsigned slot, u32 reach, const hw_queue *last)
{
	std::lock_guard guard(mem_state().lock);
	const device *dev = mem_state().attached[slot];

	if (!dev || dev->grace.ended || !(dev->reaches & reach))
		return nullptr;
	hw_queue *l = last ? last->next_open : load_acquire(&dev->opened);
	if (l)
		l->calls.enter();
	return l;
}

static bool queue_await(hw_queue *l, const dma::iova_range &where, deadline until)
{
	const timespec nap = {0, 20 * 1000};
	u64 seq;

	if (!memory_up.last_use(l, where, &seq, until))
		return false;
	while (seq && dma::completed(l->ch) < seq) {
		/* Its ring may have halted. */
		if (memory_up.alive(l->dev) || until.passed())
			return false;
		nanosleep(&nap, nullptr);
	}
	return true;
}

static bool device_await(unsigned slot, const dma::iova_range &where, u32 reach, deadline until)
{
	bool over = true;
	hw_queue *l = enter_next(slot, reach, nullptr);

	while (l) {
		over &= queue_await(l, where, until);
		hw_queue *const next = enter_next(slot, reach, l);
		l->calls.leave();
		l = next;
	}
	return over;
}

/* First the gates, which open into the rings. */
bool uses_await(const memory_use &use, u32 reach, deadline until)
{
	bool over = memory_up.gated_await(use, until);

	for (unsigned slot = 0; slot < max_devices; slot++)
		over &= device_await(slot, use.dma, reach, until);
	return over;
}

bool host_in_use(const void *mem, u64 len)
{
	const translation p = translate(mem);

	return p.size && !uses_await({mem, {p.dma, len}}, ~u32(0), deadline::in_ns(0));
}

} // namespace usdma::core
