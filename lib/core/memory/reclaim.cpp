/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deferred frees: memory freed while a device may still access it is released once the work of that time has
 * ended. Attaching and detaching devices is here, too.
 *
 * Frees are numbered, and pass in this order, so only the first of each list is checked. A free has passed a device
 * after three steps:
 *
 *	readers   each thread that may have found the memory before has left its read section, so that what it posted or
 *	          queued is seen below (grace_over())
 *	gates     the device's work that was queued behind gates by then is in its rings (stream::front)
 *	rings     each ring has completed what was posted by then (channel::posted)
 *
 * No step takes the lock of a stream or a hardware queue. A batch of frees takes one snapshot for the last two steps.
 */
#include "driver/base/cancel.h"
#include "driver/base/grow.h"
#include "lib/core/base/section.h"
#include "lib/core/memory/internal.h"

#include <algorithm>
#include <new>

namespace usdma::core {

/* Interval of checks of memory retained for lost devices. */
static constexpr u64 retry_interval = 100 * ns_per_ms;

u64 gated_left = 1;

/* ---- work before a free ------------------------------------------------------------------------------- */

static void readers_step(memory_state &m)
{
	if (m.grace_until <= m.graced) {
		m.grace_until = m.last_serial;
		grace_begin();
	}
	if (grace_over())
		m.graced = m.grace_until;
}

/* Those freed during a grace period need another one. */
static void readers_advance()
{
	memory_state &m = mem_state();

	for (int i = 0; i < 2 && m.graced < m.last_serial; i++)
		readers_step(m);
}

/* Read again only if something was queued, or has left a queue. */
static bool gates_passed(device *dev, u64 after)
{
	grace_batches &g = dev->grace;
	const u64 left = load_acquire(&gated_left), queued = memory_up.gated_last();

	if (left != g.seen_left || queued != g.seen_queued) {
		g.posted = memory_up.gated_posted(dev);
		g.seen_left = left;
		g.seen_queued = queued;
	}
	return g.posted >= after;
}

template <class F> static hw_queue *find_queue(const device *dev, const F &is_it)
{
	hw_queue *l = load_acquire(&dev->opened);

	while (l && !is_it(l))
		l = l->next_open;
	return l;
}

/* What the readers posted is seen: they have left their sections. */
static void marks_set(device *dev, unsigned at)
{
	find_queue(dev, [at](hw_queue *l) {
		l->mark[at] = load_relaxed(&l->ch->posted);
		return false;
	});
}

/* False: a ring has a WAIT behind its mark, which may last for any time. */
static bool marks_may_move(device *dev, unsigned at)
{
	return !find_queue(dev, [at](const hw_queue *l) {
		return std::max(l->mark[at], dma::completed(l->ch)) < load_relaxed(&l->wait_seq);
	});
}

static bool mark_passed(const hw_queue *l, unsigned at)
{
	return dma::completed(l->ch) >= l->mark[at];
}

static bool marks_passed(device *dev, unsigned at)
{
	grace_batches &g = dev->grace;

	if (!g.blocked || mark_passed(g.blocked, at))
		g.blocked = find_queue(dev, [at](const hw_queue *l) { return !mark_passed(l, at); });
	return !g.blocked;
}

/* The newest batch would not pass later than without the frees up to now. */
static bool batch_may_grow(device *dev, u64 after)
{
	grace_batches &g = dev->grace;
	const unsigned newest = g.slot(g.n - 1);

	/* The oldest would never pass if work and frees go on. */
	if (g.n < 2)
		return false;
	return g.batch[newest].marked ? gates_passed(dev, after) && marks_may_move(dev, newest) :
					g.batch[newest].after == after;
}

/* Without a new batch the frees wait for one. */
static void batch_take(device *dev, u64 until)
{
	grace_batches &g = dev->grace;
	const u64 after = memory_up.gated_last();

	if (batch_may_grow(dev, after))
		g.batch[g.slot(g.n - 1)] = {until, after};
	else if (g.n < grace_most)
		g.batch[g.slot(g.n++)] = {until, after};
}

static bool batch_passed(device *dev, unsigned at)
{
	grace_batch &b = dev->grace.batch[at];

	if (!b.marked && gates_passed(dev, b.after)) {
		marks_set(dev, at);
		b.marked = true;
	}
	return b.marked && marks_passed(dev, at);
}

static void batches_pass(device *dev)
{
	grace_batches &g = dev->grace;

	for (; g.n && batch_passed(dev, g.first); g.n--) {
		g.passed = g.batch[g.first].last;
		g.first = g.slot(1);
	}
	/* The others take their marks as early as they can. */
	for (unsigned i = 1; i < g.n; i++)
		if (grace_batch &b = g.batch[g.slot(i)]; !b.marked && gates_passed(dev, b.after)) {
			marks_set(dev, g.slot(i));
			b.marked = true;
		}
}

static void device_advance(device *dev)
{
	const u64 until = mem_state().graced;
	grace_batches &g = dev->grace;

	/* No request can write any more. A closed channel has ended, unless its device was lost. */
	if (dev->stopped() || (g.ended && !dev->lost())) {
		g.passed = until;
		g.n = 0;
	}
	if (g.ended || g.passed >= until)
		return;
	batches_pass(dev);
	if (g.newest() < until) {
		batch_take(dev, until);
		batches_pass(dev);
	}
}

/* ---- lists ---------------------------------------------------------------------------------------------- */

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

/* The list of one device, if no other can access the item, or that of all which are not isolated. */
static unsigned list_of(const deferred_free &item)
{
	if (item.what == deferred_free::device_block) {
		const device_heap *h = heap_of(item.dev);

		return item.dev->isolated() || !(h->pool || h->peer) ? item.dev->slot : max_devices;
	}
	const u32 reach = reach_of(item)->reach;
	return reach & reach_common ? max_devices : unsigned(__builtin_ctz(reach));
}

static const held_range *holder_of(bool host, unsigned slot, u64 dma, u64 size)
{
	const u64 first = memory_key(host, slot, dma);

	return section_holder(first, first + size);
}

/* A copy by the CPU, which began before; nullptr: there is none. */
static const held_range *holder_of(const deferred_free &item)
{
	const device_heap *h = item.what == deferred_free::device_block ? heap_of(item.dev) : nullptr;
	const dma_range *sp = reach_of(item);

	if (h)
		return holder_of(h->space == dma::space::host, item.dev->slot, h->dma + item.offset,
				 h->blocks.size_at(item.offset));
	if (item.what == deferred_free::arena_block)
		return holder_of(true, 0, sp->iova + item.offset, item.from->blocks.size_at(item.offset));
	return sp ? holder_of(true, 0, sp->iova, sp->size) : nullptr;
}

static bool is_held(const deferred_free &item)
{
	return holder_of(item);
}

static bool is_of_list(const device *dev, unsigned list)
{
	return list == max_devices ? !dev->isolated() : dev->slot == list;
}

/* A device that may still have work submitted before the free; nullptr: none. */
static const device *find_behind(unsigned list, u64 serial)
{
	for (const device *dev : mem_state().attached)
		if (dev && is_of_list(dev, list) && dev->grace.passed < serial)
			return dev;
	return nullptr;
}

void deferred_list::add(deferred_free *item)
{
	item->next = nullptr;
	(first ? last->next : first) = item;
	last = item;
}

deferred_free *deferred_list::take()
{
	deferred_free *const item = first;

	first = item->next;
	return item;
}

int deferred_reserve()
{
	auto *item = new (std::nothrow) deferred_free;

	if (!item)
		return no_memory("the list of deferred frees");
	mem_state().spare.add(item);
	return 0;
}

void deferred_unreserve(size_t n)
{
	for (; n; n--)
		delete mem_state().spare.take();
}

static void complete_free(deferred_free *done)
{
	const deferred_free item = *done;

	mem_state().spare.add(done);
	if (item.what == deferred_free::device_block && exports_hold(item.dev, item.offset))
		return;
	deferred_unreserve(1);
	switch (item.what) {
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
		range_erase_if_over(item.sp);
		break;
	}
}

static bool is_written_by_lost(const deferred_free &item)
{
	const dma_range *sp = reach_of(item);

	return sp && sp->mapped_by_lost;
}

/* Calls fn for each item, which is taken out if that returns true. */
template <class F> static size_t list_filter(deferred_list *list, const F &fn)
{
	deferred_list all = *list;
	size_t taken = 0;

	*list = {};
	while (all.first) {
		deferred_free *const item = all.take();

		if (fn(item))
			taken++;
		else
			list->add(item);
	}
	return taken;
}

/* It has passed. One that a lost device may write must not hold up the others. */
static void release(deferred_free *item)
{
	memory_state &m = mem_state();

	store_relaxed(&m.deferred_count, m.deferred_count - 1);
	if (is_written_by_lost(*item))
		m.retained.add(item);
	else
		complete_free(item);
}

static void list_run(unsigned i)
{
	memory_state &m = mem_state();
	deferred_list &list = m.deferred[i];

	while (list.first && list.first->serial <= m.graced && !find_behind(i, list.first->serial)) {
		deferred_free *const item = list.take();

		/* Nor may one that the CPU accesses. */
		if (is_held(*item))
			m.held.add(item);
		else
			release(item);
	}
}

/* Completes what has passed, and does not stay for another reason any more. */
static void passed_run(deferred_list *list, bool (*stays)(const deferred_free &), void (*end)(deferred_free *))
{
	deferred_list over;

	list_filter(list, [&](deferred_free *item) {
		if (stays(*item))
			return false;
		over.add(item);
		return true;
	});
	while (over.first)
		end(over.take());
}

/* ---- for calls that need not run the lists ---------------------------------------------------------------- */

/* What all lists wait for, if that is one device. *empty: they wait for nothing. */
static const device *find_blocker(bool *empty)
{
	const memory_state &m = mem_state();
	const device *found = nullptr;

	*empty = true;
	for (unsigned i = 0; i <= max_devices; i++) {
		if (!m.deferred[i].first)
			continue;
		*empty = false;
		const device *dev = find_behind(i, m.deferred[i].first->serial);
		if (!dev || (found && found != dev))
			return nullptr;
		found = dev;
	}
	return found;
}

/* The first of those that the CPU accesses still is. True also: there are none. */
static bool note_holder()
{
	memory_state &m = mem_state();
	const held_range *const by = m.held.first ? holder_of(*m.held.first) : nullptr;
	const u64 end = by ? load_relaxed(&by->end) : 0;

	store_relaxed(&m.held_end, end);
	store_relaxed(&m.held_by, by);
	return !m.held.first || end;
}

static void note_blocker()
{
	memory_state &m = mem_state();
	bool empty;
	const bool held = note_holder();
	const device *dev = find_blocker(&empty);
	hw_queue *l = nullptr;
	u64 gate = held && empty ? load_relaxed(&gated_left) : 0;

	if (held && dev && dev->grace.n && !dev->grace.ended) {
		const unsigned first = dev->grace.first;

		l = dev->grace.batch[first].marked ? dev->grace.blocked : nullptr;
		gate = dev->grace.batch[first].marked ? 0 : dev->grace.seen_left;
		store_relaxed(&m.blocked_until, l ? l->mark[first] : 0);
	}
	store_relaxed(&m.blocked_gate, gate);
	/* Release: the channel was open. memory_end() clears it, a grace period before the channel is closed. */
	store_release(&m.blocked_by, l);
}

/* Nothing has changed since the lists were run. A wrong answer delays the frees until the next call. */
static bool is_blocked()
{
	const memory_state &m = mem_state();
	const held_range *const by = load_relaxed(&m.held_by);
	const read_section in;
	const hw_queue *l = in ? load_acquire(&m.blocked_by) : nullptr;

	if (by && load_relaxed(&by->end) != load_relaxed(&m.held_end))
		return false;
	if (l)
		return dma::completed(l->ch) < load_relaxed(&m.blocked_until) && !l->dev->lost();
	return load_relaxed(&m.blocked_gate) == load_relaxed(&gated_left);
}

/* ---- deferred frees ------------------------------------------------------------------------------------- */

static void lists_run()
{
	memory_state &m = mem_state();

	if (!m.deferred_count)
		return;
	readers_advance();
	for (device *dev : m.attached)
		if (dev)
			device_advance(dev);
	passed_run(&m.held, is_held, release);
	for (unsigned i = 0; i <= max_devices; i++)
		list_run(i);
	note_blocker();
}

void deferred_add(const deferred_free &what)
{
	memory_state &m = mem_state();
	deferred_free *const item = m.spare.take();

	*item = what;
	item->serial = ++m.last_serial;
	m.deferred[list_of(*item)].add(item);
	store_relaxed(&m.deferred_count, m.deferred_count + 1);
	lists_run();
}

void deferred_run()
{
	memory_state &m = mem_state();

	if (unlikely(m.ranges_pending) && now_ns() >= m.retry_ns) {
		ranges_quiesce();
		m.retry_ns = now_ns() + retry_interval;
	}
	lists_run();
}

u64 deferred_first(const device *dev)
{
	const memory_state &m = mem_state();
	u64 first = ~u64(0);

	for (const deferred_list *list : {&m.deferred[dev->slot], &m.deferred[max_devices]})
		first = list->first ? std::min(first, list->first->serial) : first;
	return first;
}

/* Drops the items of a device's heap. */
static void deferred_forget(device *dev)
{
	memory_state &m = mem_state();
	const auto drop = [&](deferred_free *item) {
		if (item->what != deferred_free::device_block || item->dev != dev)
			return false;
		m.spare.add(item);
		return true;
	};

	for (deferred_list *list : {&m.deferred[dev->slot], &m.deferred[max_devices], &m.held})
		store_relaxed(&m.deferred_count, m.deferred_count - list_filter(list, drop));
	list_filter(&m.retained, drop);
}

void memory_reclaim()
{
	if (likely(!load_relaxed(&mem_state().deferred_count)) || is_blocked())
		return;
	/* Also called by fast paths, which have none. */
	const no_cancel scope;
	/* A holder of the lock allocates or frees, and reclaims by itself. */
	std::unique_lock guard(mem_state().lock, std::try_to_lock);
	if (!guard.owns_lock())
		return;
	deferred_run();
	guard.unlock();
	ranges_unmap_removed(true);
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
	passed_run(&m.retained, is_written_by_lost, complete_free);
	ranges_quiesce();
}

/* Unmaps all memory from a device. What it may still write has its lost_bit until it has quiesced. */
static void unmap_device(device *dev)
{
	const bool all = ranges_detach(dev);
	int none = 0;
	{
		std::lock_guard guard(mem_state().lock);

		if (!all && !dev->lost())
			cmpxchg_seq_cst(&dev->dead, &none, ENODEV);
		arenas_trim(false);
		if (!dev->lost() || dev->stopped())
			lost_bit_put(dev);
		deferred_run();
	}
	ranges_unmap_removed();
}

static int attach(device *dev)
{
	memory_state &m = mem_state();
	std::lock_guard guard(m.lock);

	if (dev->slot >= max_devices || m.attached[dev->slot])
		return fail(EBUSY, "slot %u is taken", dev->slot);
	deferred_run();
	arenas_trim(true); /* an empty arena must not prevent attaching the device */
	m.attached[dev->slot] = dev;
	dev->attached = true;
	dev->grace = {.passed = m.last_serial};
	return 0;
}

int memory_attach(device *dev)
{
	int err = attach(dev);

	if (err)
		return err;
	ranges_unmap_removed();
	err = ranges_attach(dev);
	if (!err)
		err = heap_attach(dev);
	if (!err)
		return 0;
	const saved_error why;
	unmap_device(dev);
	return why.again(err);
}

void memory_end(device *dev)
{
	std::lock_guard guard(mem_state().lock);

	dev->grace.ended = true;
	store_release(&mem_state().blocked_by, nullptr);
	store_relaxed(&mem_state().blocked_gate, u64(0));
}

static void detach(device *dev)
{
	memory_state &m = mem_state();

	{
		std::lock_guard guard(m.lock);

		if (dev->slot >= max_devices || m.attached[dev->slot] != dev)
			return;
		deferred_forget(dev);
		heap_detach(dev);
	}
	unmap_device(dev);
}

void memory_detach(device *dev)
{
	detach(dev);
	exports_report();
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
