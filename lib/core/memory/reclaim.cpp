/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deferred frees: memory freed while a device may still access it is released once the work of that time has
 * ended. Attaching and detaching devices is here, too.
 */
#include "driver/base/grow.h"
#include "lib/core/memory/internal.h"

#include <algorithm>

namespace usdma::core {

/* How long a failing allocation or an unregistration waits for work submitted before. */
static constexpr u64 drain_ms = 1000, drain_step_us = 20;
/* After a timeout, waits are short for some time. */
static constexpr u64 short_drain_ms = 1, short_drain_period_ns = 10 * ns_per_s;

/* Interval of checks of memory retained for lost devices. */
static constexpr u64 retry_interval = 100 * ns_per_ms;

/* ---- work before a free ------------------------------------------------------------------------------- */

/*
 * Takes the locks of streams' queues, so it is never done under mem_state().lock, nor by allocations, which upper
 * layers make under their own locks. The result holds for items that were deferred before.
 */
gated_work deferred_snapshot()
{
	memory_state &m = mem_state();
	m.lock.lock();
	const u64 last = m.last_serial;
	m.lock.unlock();
	const gated_work w = memory_up.gated();
	std::lock_guard guard(m.lock);

	if (w.all_posted())
		m.queued_until = std::max(m.queued_until, last);
	auto at = std::upper_bound(m.deferred.begin(), m.deferred.end(), m.queued_until,
				   [](u64 serial, const deferred_free &item) { return serial < item.serial; });
	for (; at != m.deferred.end() && at->serial <= last && at->after <= w.posted; ++at)
		m.queued_until = at->serial;
	return w;
}

/*
 * Tries a hardware queue's lock for a short time: it protects posted, and the channel against closing. A
 * try-lock, as no lock may be waited for under mem_state().lock.
 */
static std::unique_lock<biased_lock> try_queue(hw_queue *l)
{
	static constexpr int tries = 200;
	std::unique_lock held(l->lock, std::defer_lock);

	for (int i = 0; i < tries && !held.try_lock(); i++)
		cpu_relax();
	return held;
}

/* With the queue's lock held. */
static void mark_set(hw_queue *l, unsigned at)
{
	if (l->ch)
		l->mark[at] = dma::completed(l->ch) < l->ch->posted ? l->ch->posted : 0;
	else
		l->mark[at] = l->dev->lost(); /* closed while the device was lost: its work may still run */
}

/* False: lock contended. */
static bool mark_take(hw_queue *l, unsigned at)
{
	const auto held = try_queue(l);

	if (held)
		mark_set(l, at);
	return bool(held);
}

/* Includes later work. False: lock contended, or it has a WAIT, which may last for any time. */
static bool mark_move(hw_queue *l, unsigned at)
{
	const auto held = try_queue(l);

	if (!held || (l->ch && std::max(l->mark[at], dma::completed(l->ch)) < l->wait_seq))
		return false;
	mark_set(l, at);
	return true;
}

static bool mark_passed(hw_queue *l, unsigned at)
{
	if (!l->mark[at])
		return true;
	const auto held = try_queue(l);

	/* A closed channel has ended, unless its device was lost. */
	if (held && (l->ch ? dma::completed(l->ch) >= l->mark[at] : !l->dev->lost()))
		l->mark[at] = 0;
	return !l->mark[at];
}

static bool all_marks(device *dev, unsigned at, bool (*fn)(hw_queue *l, unsigned at))
{
	const std::unique_lock opening(dev->lock, std::try_to_lock);

	return opening && std::all_of(dev->hw_queues.begin(), dev->hw_queues.end(),
				      [&](const auto &l) { return !l || fn(l.get(), at); });
}

/*
 * Adds the frees up to `until` to the newest batch, or makes it a new one. Not to the oldest, which would never pass if
 * work and frees go on, and not if earlier frees would then wait for a WAIT. Without a new batch they wait for one. A
 * mark that was moved in vain is harmless.
 */
static void batch_take(grace_batches &g, device *dev, u64 until)
{
	const unsigned newest = g.slot(g.n - 1), next = g.slot(g.n);

	if (g.n > 1 && all_marks(dev, newest, mark_move))
		g.last[newest] = until;
	else if (g.n < grace_most && all_marks(dev, next, mark_take))
		g.last[next] = until, g.n++;
}

static void batches_pass(grace_batches &g, device *dev)
{
	for (; g.n && all_marks(dev, g.first, mark_passed); g.n--) {
		g.passed = g.last[g.first];
		g.first = g.slot(1);
	}
}

/* A batch of frees waits for what the rings had at its last free. */
static void device_advance(device *dev)
{
	const u64 until = mem_state().queued_until;
	grace_batches &g = dev->grace;

	/* No request can write any more. */
	if (dev->stopped()) {
		g.passed = until;
		g.n = 0;
		return;
	}
	batches_pass(g, dev);
	if (g.newest() < until) {
		batch_take(g, dev, until);
		batches_pass(g, dev);
	}
}

static void devices_advance()
{
	for (device *dev : mem_state().attached)
		if (dev)
			device_advance(dev);
}

/* The range through which devices access the item; nullptr: its own device only. */
static const dma_range *reach_of(const deferred_free &item)
{
	switch (item.what) {
	case deferred_free::device_block:
		return heap_of(item.dev)->peer;
	case deferred_free::arena_block:
		return item.from->where;
	default:
		return item.sp;
	}
}

/* This device cannot access the item. */
static bool is_apart(const deferred_free &item, const device *dev)
{
	if (item.what == deferred_free::device_block)
		return dev != item.dev && (dev->isolated() || item.dev->isolated());
	const dma_range *sp = reach_of(item);
	return sp && !reaches(dev, sp);
}

/* No work submitted before the free can still run. */
static bool passed(const deferred_free &item)
{
	const dma_range *sp = reach_of(item);

	return mem_state().queued_until >= item.serial && !(sp && sp->mapped_by_lost) &&
	       std::all_of(std::begin(mem_state().attached), std::end(mem_state().attached), [&](const device *dev) {
		       return !dev || dev->grace.passed >= item.serial || is_apart(item, dev);
	       });
}

/* ---- deferred frees ------------------------------------------------------------------------------------- */

int deferred_reserve()
{
	memory_state &m = mem_state();
	static constexpr size_t few = 64;

	if (m.reserved == m.deferred.capacity() && !try_reserve(m.deferred, std::max(few, 2 * m.reserved)))
		return no_memory("the list of deferred frees");
	m.reserved++;
	return 0;
}

void deferred_unreserve(size_t n)
{
	mem_state().reserved -= n;
}

static void complete_free(const deferred_free &item)
{
	if (item.what == deferred_free::device_block && exports_hold(item.dev, item.offset))
		return;
	deferred_unreserve(1);
	switch (item.what) {
	case deferred_free::nothing:
		break;
	case deferred_free::device_block:
		device_put_block(item.dev, item.offset);
		break;
	case deferred_free::arena_block:
		arena_put_block(item.from, item.offset);
		break;
	case deferred_free::whole_range:
		range_remove(item.sp);
		break;
	case deferred_free::iova:
		item.sp->is_deferred = false;
		if (!item.sp->mapped && !item.sp->mapped_by_lost)
			range_erase(item.sp);
		else
			mem_state().ranges_pending = true;
		break;
	}
}

static void deferred_changed()
{
	store_relaxed(&mem_state().deferred_count, mem_state().deferred.size());
}

void deferred_add(deferred_free item, const gated_work &before)
{
	memory_state &m = mem_state();

	item.after = before.last;
	item.serial = ++m.last_serial;
	if (before.all_posted() && m.queued_until == item.serial - 1)
		m.queued_until = item.serial;
	devices_advance();
	if (passed(item)) {
		complete_free(item);
		return;
	}
	push_reserved(m.deferred, item);
	deferred_changed();
}

void deferred_run()
{
	memory_state &m = mem_state();

	if (unlikely(m.ranges_pending) && now_ns() >= m.retry_ns) {
		ranges_quiesce();
		m.retry_ns = now_ns() + retry_interval;
	}
	if (m.deferred.empty())
		return;
	devices_advance();
	std::erase_if(m.deferred, [](const deferred_free &item) {
		const bool over = passed(item);

		if (over)
			complete_free(item);
		return over;
	});
	deferred_changed();
}

/* Drops the items of a device's heap. */
static void deferred_forget(device *dev)
{
	std::erase_if(mem_state().deferred, [dev](const deferred_free &item) {
		return item.what == deferred_free::device_block && item.dev == dev;
	});
	deferred_changed();
}

void memory_reclaim()
{
	if (likely(!load_relaxed(&mem_state().deferred_count)))
		return;
	deferred_snapshot();
	/* A holder of the lock allocates or frees, and reclaims by itself. */
	std::unique_lock guard(mem_state().lock, std::try_to_lock);
	if (guard.owns_lock())
		deferred_run();
}

/* The list has no such item any more. *dead_end: it waits for lost devices only, which may never end. */
static bool has_passed(u64 serial, bool *dead_end)
{
	memory_state &m = mem_state();
	std::lock_guard guard(m.lock);

	deferred_run();
	const bool over = std::none_of(m.deferred.begin(), m.deferred.end(),
				       [serial](const deferred_free &item) { return item.serial == serial; });
	*dead_end = !over && m.queued_until >= serial &&
		    std::all_of(std::begin(m.attached), std::end(m.attached), [serial](const device *dev) {
			    return !dev || dev->grace.passed >= serial || dev->lost();
		    });
	return over;
}

/* Defers the free of nothing. 0: no memory. */
static u64 nothing_add(const gated_work &before)
{
	std::lock_guard guard(mem_state().lock);

	if (deferred_reserve())
		return 0;
	deferred_add({}, before);
	return mem_state().last_serial;
}

static void nothing_remove(u64 serial)
{
	std::lock_guard guard(mem_state().lock);

	deferred_unreserve(std::erase_if(mem_state().deferred,
					 [serial](const deferred_free &item) { return item.serial == serial; }));
	deferred_changed();
}

bool deferred_drain()
{
	static u64 last_timeout;
	const u64 last = load_relaxed(&last_timeout);
	const bool recent_timeout = last && now_ns() - last < short_drain_period_ns;
	const deadline until = deadline::in_ms(recent_timeout ? short_drain_ms : drain_ms);
	const u64 serial = nothing_add(deferred_snapshot());
	bool dead_end = !serial;

	while (!dead_end && !has_passed(serial, &dead_end)) {
		if (until.passed()) {
			store_relaxed(&last_timeout, now_ns());
			dead_end = true;
		} else if (!dead_end) {
			usleep(drain_step_us);
			deferred_snapshot();
		}
	}
	if (dead_end)
		nothing_remove(serial);
	return !dead_end;
}

/* ---- devices ----------------------------------------------------------------------------------------- */

/* The device is quiesced: frees ranges retained for it alone, as there may be no later call. */
static void lost_bit_put(device *dev)
{
	memory_state &m = mem_state();
	const u64 bit = dev->lost_bit;

	dev->attached = false;
	dev->lost_bit = 0;
	/* The last bit may be shared. */
	if (!bit || bit == u64(1) << 63)
		return;
	for (auto &[iova, sp] : m.ranges)
		sp.mapped_by_lost &= ~bit;
	m.lost_bits &= ~bit;
	ranges_quiesce();
}

/* Unmaps all memory from a device. What it may still write has its lost_bit until it has quiesced. */
static void unmap_device(device *dev)
{
	int none = 0;

	if (!ranges_detach(dev) && !dev->lost())
		cmpxchg_seq_cst(&dev->dead, &none, ENODEV);
	arenas_trim(false);
	if (!dev->lost() || dev->stopped())
		lost_bit_put(dev);
}

int memory_attach(device *dev)
{
	memory_state &m = mem_state();
	int err;

	std::lock_guard guard(m.lock);
	if (dev->slot >= max_devices || m.attached[dev->slot])
		return fail(EBUSY, "slot %u is taken", dev->slot);
	deferred_run();
	arenas_trim(true); /* an empty arena must not prevent attaching the device */
	m.attached[dev->slot] = dev;
	dev->attached = true;
	dev->grace = {.passed = m.last_serial};
	err = ranges_attach(dev);
	if (!err)
		err = heap_attach(dev);
	if (!err)
		return 0;
	const saved_error why;
	unmap_device(dev);
	return why.again(err);
}

void memory_detach(device *dev)
{
	memory_state &m = mem_state();

	const gated_work before = deferred_snapshot();
	std::lock_guard guard(m.lock);
	if (dev->slot >= max_devices || m.attached[dev->slot] != dev)
		return;
	deferred_forget(dev);
	heap_detach(dev, before);
	unmap_device(dev);
	deferred_run();
}

void memory_forget(device *dev)
{
	std::lock_guard guard(mem_state().lock);

	lost_bit_put(dev);
	deferred_run();
}

u64 memory_retained_by(const device *dev)
{
	std::lock_guard guard(mem_state().lock);
	u64 bytes = 0;

	for (const auto &[iova, sp] : mem_state().ranges)
		bytes += sp.mapped_by_lost & dev->lost_bit ? sp.size : 0;
	return bytes;
}

} // namespace usdma::core
