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

/* ---- queues ------------------------------------------------------------------------------------------ */

/* The oldest and the newest deferred free. */
struct deferred_bounds {
	u64 serial[2] = {}, epoch[2] = {};
};

static deferred_bounds bounds_now()
{
	memory_state &m = mem_state();
	std::lock_guard guard(m.lock);
	deferred_bounds e;

	if (m.deferred.empty())
		return e;
	e.serial[0] = m.deferred.front().serial;
	e.epoch[0] = m.deferred.front().epoch;
	e.serial[1] = m.deferred.back().serial;
	e.epoch[1] = m.deferred.back().epoch;
	return e;
}

static void note_queued(u64 serial)
{
	u64 *const queued_until = &mem_state().queued_until;
	u64 was = load_seq_cst(queued_until);

	while (was < serial && !cmpxchg_seq_cst(queued_until, &was, serial))
		;
}

/*
 * Queries the progress of the streams' queues. That takes their locks, so it is never done under
 * mem_state().lock, nor by allocations, which upper layers make under their own locks. The result holds for
 * items deferred before the query, not for later items of the same epoch: a task is numbered before it is
 * queued.
 */
bool deferred_snapshot()
{
	memory_state &m = mem_state();

	if (load_relaxed(&m.deferred_count)) {
		const deferred_bounds b = bounds_now();

		for (int i : {0, 1})
			if (load_seq_cst(&m.queued_until) < b.serial[i] && memory_up.queue_done(b.epoch[i]))
				note_queued(b.serial[i]);
	}
	return memory_up.queue_done(memory_up.queue_epoch());
}

/* ---- marks ------------------------------------------------------------------------------------------- */

/*
 * Tries a hardware queue's lock for a short time: it protects posted, and the channel against closing. A
 * try-lock, as no lock may be waited for under mem_state().lock.
 */
class hwq_snapshot {
public:
	explicit hwq_snapshot(hw_queue *l) : l_(l)
	{
		for (int i = 0; i < tries && !held_; i++) {
			held_ = l->lock.try_lock();
			if (!held_)
				cpu_relax();
		}
	}
	~hwq_snapshot()
	{
		if (held_)
			l_->lock.unlock();
	}
	hwq_snapshot(const hwq_snapshot &) = delete;
	hwq_snapshot &operator=(const hwq_snapshot &) = delete;
	bool held() const { return held_; }

private:
	static constexpr int tries = 200;
	hw_queue *l_;
	bool held_ = false;
};

/* No request of this opening of the device can write any more. */
static bool is_over(const mark &m)
{
	return m.dev->attach != m.attach || m.dev->stopped();
}

static bool mark_passed(const mark &m)
{
	if (is_over(m))
		return true;
	if (!m.ln)
		return false;
	const hwq_snapshot snapshot(m.ln);

	if (!snapshot.held())
		return false;
	/* A closed channel has ended, unless its device was lost. */
	return m.ln->ch ? dma::completed(m.ln->ch) >= m.seq : !m.dev->lost();
}

/* False: lock contended, or no memory for the mark. */
static bool mark_take(device *dev, hw_queue *l, std::vector<mark> *marks)
{
	const hwq_snapshot snapshot(l);

	if (snapshot.held() && l->ch && dma::completed(l->ch) < l->ch->posted)
		return try_push(*marks, mark{dev, l, l->ch->posted, dev->attach});
	/* Closed while the device was lost: its work may still run. */
	if (snapshot.held() && !l->ch && dev->lost() && !dev->stopped())
		return try_push(*marks, mark{dev, nullptr, 0, dev->attach});
	return snapshot.held();
}

static bool marks_of(device *dev, std::vector<mark> *marks)
{
	std::unique_lock guard(dev->lock, std::try_to_lock);

	if (!guard.owns_lock())
		return false;
	for (const auto &l : dev->hw_queues)
		if (l && !mark_take(dev, l.get(), marks))
			return false;
	return true;
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

/* Marks for closed devices that may still write there. */
static bool marks_of_retired(const dma_range *sp, std::vector<mark> *marks)
{
	for (device *dev = sp && sp->mapped_by_lost ? mem_state().retired : nullptr; dev; dev = dev->next_retired)
		if (sp->mapped_by_lost & dev->lost_bit && !try_push(*marks, mark{dev, nullptr, 0, dev->attach}))
			return false;
	return true;
}

/*
 * Marks for the work now in the rings of all devices that can access the item (null: all). False: retry later;
 * the marks then include later work, which is harmless.
 */
static bool marks_take(const deferred_free *item, std::vector<mark> *marks)
{
	marks->clear();
	for (device *dev : mem_state().attached)
		if (dev && !(item && is_apart(*item, dev)) && !marks_of(dev, marks))
			return false;
	return !item || marks_of_retired(reach_of(*item), marks);
}

static bool marks_pass(std::vector<mark> *marks)
{
	while (!marks->empty() && mark_passed(marks->back()))
		marks->pop_back();
	return marks->empty();
}

/* True: no work submitted before the item was made can still run. */
static bool passed(deferred_free *item)
{
	if (item->queued) {
		if (load_seq_cst(&mem_state().queued_until) < item->serial ||
		    !marks_take(item->what == deferred_free::nothing ? nullptr : item, &item->marks))
			return false;
		item->queued = false;
	}
	return marks_pass(&item->marks);
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

void deferred_add(deferred_free item, bool clear)
{
	memory_state &m = mem_state();

	item.epoch = memory_up.queue_epoch();
	item.serial = clear ? 0 : ++m.last_serial; /* 0: no queued work to wait for */
	if (passed(&item)) {
		complete_free(item);
		return;
	}
	/* Serial numbers in the list are ascending, as are epochs. */
	if (clear)
		item.serial = ++m.last_serial;
	push_reserved(m.deferred, std::move(item));
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
	std::erase_if(m.deferred, [](deferred_free &item) {
		const bool over = passed(&item);

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

/* *dead_end: only work of lost devices is left, which may never end. */
static bool all_passed(deferred_free *now, bool *dead_end)
{
	std::lock_guard guard(mem_state().lock);
	const bool over = passed(now);

	*dead_end = !over && !now->queued && std::all_of(now->marks.begin(), now->marks.end(), [](const mark &m) {
		return is_over(m) || m.dev->lost();
	});
	return over;
}

bool deferred_drain()
{
	static u64 last_timeout;
	const u64 last = load_relaxed(&last_timeout);
	const bool recent_timeout = last && now_ns() - last < short_drain_period_ns;
	const deadline until = deadline::in_ms(recent_timeout ? short_drain_ms : drain_ms);
	deferred_free now = {};
	bool dead_end;

	now.epoch = memory_up.queue_epoch();
	now.serial = ~u64(0);
	for (;;) {
		deferred_snapshot();
		if (now.serial && memory_up.queue_done(now.epoch))
			now.serial = 0;
		if (all_passed(&now, &dead_end))
			return true;
		if (dead_end)
			return false;
		if (until.passed()) {
			store_relaxed(&last_timeout, now_ns());
			return false;
		}
		usleep(drain_step_us);
	}
}

/* ---- devices ----------------------------------------------------------------------------------------- */

/* The device is quiesced: frees ranges retained for it alone, as there may be no later call. */
static void lost_bit_put(device *dev)
{
	memory_state &m = mem_state();
	const u64 bit = dev->lost_bit;

	dev->attach = 0;
	dev->lost_bit = 0;
	/* The last bit may be shared. */
	if (!bit || bit == u64(1) << 63)
		return;
	for (auto &[iova, sp] : m.ranges)
		sp.mapped_by_lost &= ~bit;
	m.lost_bits &= ~bit;
	ranges_quiesce();
}

/* Unmaps all memory from a device. If that fails, the device is retired until it has quiesced. */
static void unmap_device(device *dev)
{
	int none = 0;

	if (!ranges_detach(dev) && !dev->lost())
		cmpxchg_seq_cst(&dev->dead, &none, ENODEV);
	arenas_trim(false);
	if (!dev->lost() || dev->stopped()) {
		lost_bit_put(dev);
		return;
	}
	dev->next_retired = mem_state().retired;
	mem_state().retired = dev;
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
	dev->attach = ++m.last_attach;
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

	const bool clear = deferred_snapshot();
	std::lock_guard guard(m.lock);
	if (dev->slot >= max_devices || m.attached[dev->slot] != dev)
		return;
	deferred_forget(dev);
	heap_detach(dev, clear);
	unmap_device(dev);
	deferred_run();
}

void memory_forget(device *dev)
{
	memory_state &m = mem_state();
	std::lock_guard guard(m.lock);

	for (device **at = &m.retired; *at; at = &(*at)->next_retired)
		if (*at == dev) {
			*at = dev->next_retired;
			break;
		}
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
