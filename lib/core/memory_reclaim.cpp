/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that was freed while a device may still touch it waits in limbo until
 * the work of that time has ended.  Coming and going of devices stands here, too.
 */
#include "driver/base/error.h"
#include "lib/core/memory_room.h"
#include "lib/core/stream.h"

#include <algorithm>

namespace usdma::core {

/* An allocation that finds no room, or an unregistration, waits so long for work that was submitted before. */
static constexpr u64 drain_ms = 1000, drain_step_us = 20;
/* Once one waited in vain, the others of this time do not wait for the same again. */
static constexpr u64 impatient_ms = 1, impatient_for_ns = 10 * ns_per_s;

/* ---- marks ------------------------------------------------------------------------------------------- */

/* Under the lane's lock: its submitters change posted, and its device may close the channel. */
static bool lane_busy(lane *l, u64 *seq)
{
	std::lock_guard guard(l->lock);

	if (!l->ch)
		return false;
	*seq = l->ch->posted;
	return dma::completed(l->ch) < *seq;
}

static bool mark_passed(const mark &m)
{
	std::lock_guard guard(m.ln->lock);

	return !m.ln->ch || dma::completed(m.ln->ch) >= m.seq;
}

static void marks_take(std::vector<mark> *marks)
{
	for (device *dev : room().attached) {
		if (!dev)
			continue;
		std::lock_guard guard(dev->lock);
		for (const auto &l : dev->lanes) {
			mark m = {l.get(), 0};

			if (l && lane_busy(l.get(), &m.seq))
				marks->push_back(m);
		}
	}
}

static bool marks_pass(std::vector<mark> *marks)
{
	while (!marks->empty() && mark_passed(marks->back()))
		marks->pop_back();
	return marks->empty();
}

/* True: nothing that was submitted before the item was made can still run. */
static bool passed(limbo_item *item)
{
	if (item->queued) {
		if (!queue_done(item->epoch))
			return false;
		item->queued = false;
		marks_take(&item->marks);
	}
	return marks_pass(&item->marks);
}

/* ---- limbo ------------------------------------------------------------------------------------------- */

static void give_back(const limbo_item &item)
{
	switch (item.what) {
	case limbo_item::device_block:
		device_put_block(item.dev, item.offset);
		break;
	case limbo_item::arena_block:
		arena_put_block(item.from, item.offset);
		break;
	case limbo_item::whole_span:
		span_remove(item.sp);
		break;
	}
}

void limbo_add(limbo_item item)
{
	memory_room &m = room();

	item.epoch = queue_epoch();
	if (passed(&item)) {
		give_back(item);
		return;
	}
	m.limbo.push_back(std::move(item));
	m.limbo_count.store(m.limbo.size(), std::memory_order_relaxed);
}

void limbo_run()
{
	memory_room &m = room();
	std::deque<limbo_item> left;

	if (m.limbo.empty())
		return;
	for (limbo_item &item : m.limbo) {
		if (passed(&item))
			give_back(item);
		else
			left.push_back(std::move(item));
	}
	m.limbo = std::move(left);
	m.limbo_count.store(m.limbo.size(), std::memory_order_relaxed);
}

/* The device's lanes have ended; its blocks go with its heap. */
static void limbo_forget(device *dev)
{
	std::deque<limbo_item> &limbo = room().limbo;

	for (limbo_item &item : limbo)
		std::erase_if(item.marks, [dev](const mark &m) { return m.ln->dev == dev; });
	std::erase_if(limbo, [dev](const limbo_item &item) { return item.what == limbo_item::device_block && item.dev == dev; });
}

void memory_reclaim()
{
	if (likely(!room().limbo_count.load(std::memory_order_relaxed)))
		return;
	/* Who holds the lock allocates or frees, and reclaims itself. */
	std::unique_lock guard(room().lock, std::try_to_lock);
	if (guard.owns_lock())
		limbo_run();
}

/* A dead end is no reason to wait: the marks of a device that is lost do not move any more. */
static bool all_passed(limbo_item *now)
{
	std::lock_guard guard(room().lock);

	std::erase_if(now->marks, [](const mark &m) { return m.ln->dev->lost(); });
	return passed(now);
}

void limbo_drain()
{
	static std::atomic<u64> in_vain{0};
	const u64 last = in_vain.load(std::memory_order_relaxed);
	const bool impatient = last && now_ns() - last < impatient_for_ns;
	const deadline until = deadline::in_ms(impatient ? impatient_ms : drain_ms);
	limbo_item now = {};

	now.epoch = queue_epoch();
	while (!all_passed(&now)) {
		if (until.passed()) {
			in_vain.store(now_ns(), std::memory_order_relaxed);
			return;
		}
		usleep(drain_step_us);
	}
}

/* ---- devices ----------------------------------------------------------------------------------------- */

int memory_attach(device *dev)
{
	memory_room &m = room();
	int err = window_reserve();

	if (err)
		return err;
	std::lock_guard guard(m.lock);
	if (dev->slot >= max_devices || m.attached[dev->slot])
		return fail(EBUSY, "slot %u is taken", dev->slot);
	limbo_run();
	arenas_trim(); /* an empty one shall not be what the device cannot reach */
	m.attached[dev->slot] = dev;
	err = spans_attach(dev);
	if (!err)
		err = heap_attach(dev);
	if (!err)
		return 0;
	const std::string why = error_text();
	spans_detach(dev);
	return fail(-err, "%s", why.c_str());
}

void memory_detach(device *dev)
{
	memory_room &m = room();
	std::lock_guard guard(m.lock);

	if (dev->slot >= max_devices || m.attached[dev->slot] != dev)
		return;
	limbo_forget(dev);
	spans_detach(dev);
	heap_detach(dev);
	limbo_run();
}

} // namespace usdma::core
