/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that was freed while a device may still touch it waits among the deferred frees until
 * the work of that time has ended.  Coming and going of devices stands here, too.
 */
#include "driver/base/grow.h"
#include "lib/core/memory/internal.h"

#include <algorithm>

namespace usdma::core {

/* An allocation that finds no room, or an unregistration, waits so long for work that was submitted before. */
static constexpr u64 drain_ms = 1000, drain_step_us = 20;
/* Once one waited in vain, the others of this time do not wait for the same again. */
static constexpr u64 impatient_ms = 1, impatient_for_ns = 10 * ns_per_s;

/* Between looks at what is kept for lost devices. */
static constexpr u64 retry_every = 100 * ns_per_ms;

/* ---- queues ------------------------------------------------------------------------------------------ */

/* What is longest among the deferred frees, and what came last. */
struct deferred_ends {
	u64 serial[2] = {}, epoch[2] = {};
};

static deferred_ends ends_now()
{
	memory_state &m = mem_state();
	std::lock_guard guard(m.lock);
	deferred_ends e;

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
	std::atomic<u64> &queued_until = mem_state().queued_until;
	u64 was = queued_until.load();

	while (was < serial && !queued_until.compare_exchange_weak(was, serial))
		;
}

/*
 * Asks the streams how far their queues are.  That takes their locks, so it is
 * never done under the room's, and not by allocations, which rooms above make
 * under locks of their own.  An answer holds for what was among the deferred frees before the
 * question, not for later items of the same epoch: a task has its number before
 * it stands in its queue.
 */
bool deferred_ask()
{
	memory_state &m = mem_state();

	if (m.deferred_count.load(std::memory_order_relaxed)) {
		const deferred_ends ends = ends_now();

		for (int i : {0, 1})
			if (m.queued_until.load() < ends.serial[i] && memory_up.queue_done(ends.epoch[i]))
				note_queued(ends.serial[i]);
	}
	return memory_up.queue_done(memory_up.queue_epoch());
}

/* ---- marks ------------------------------------------------------------------------------------------- */

/*
 * Holds a hardware queue's lock if it is to be had soon: its submitters change posted, and
 * its device may close the channel.  No waiting for it, so that under the room's
 * lock no other is waited for.
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

/* Nothing of this opening of the device can write any more. */
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
	const hwq_snapshot look(m.ln);

	if (!look.held())
		return false;
	/* A channel that was closed has ended, if its device said so. */
	return m.ln->ch ? dma::completed(m.ln->ch) >= m.seq : !m.dev->lost();
}

/* False: could not look, or no memory to note what was seen. */
static bool mark_take(device *dev, hw_queue *l, std::vector<mark> *marks)
{
	const hwq_snapshot look(l);

	if (look.held() && l->ch && dma::completed(l->ch) < l->ch->posted)
		return try_push(*marks, mark{dev, l, l->ch->posted, dev->attach});
	/* Closed while the device was lost: nobody knows what it still does. */
	if (look.held() && !l->ch && dev->lost() && !dev->stopped())
		return try_push(*marks, mark{dev, nullptr, 0, dev->attach});
	return look.held();
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

/* Where devices reach what the item is of; nullptr: its own device only. */
static const span *reach_of(const deferred_free &item)
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

/* Nothing that runs on this device is of the item. */
static bool is_apart(const deferred_free &item, const device *dev)
{
	if (item.what == deferred_free::device_block)
		return dev != item.dev && (dev->isolated() || item.dev->isolated());
	const span *sp = reach_of(item);
	return sp && !reaches(dev, sp);
}

/* Devices that were closed and may still write there. */
static bool marks_of_retired(const span *sp, std::vector<mark> *marks)
{
	for (device *dev = sp && sp->retired ? mem_state().retired : nullptr; dev; dev = dev->next_retired)
		if (sp->retired & dev->retired_bit && !try_push(*marks, mark{dev, nullptr, 0, dev->attach}))
			return false;
	return true;
}

/*
 * What is in the rings now, of all devices.  False: could not look; later work may be taken in then, which does no
 * harm.  nothing: of no item.
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

/* True: nothing that was submitted before the item was made can still run. */
static bool passed(deferred_free *item)
{
	if (item->queued) {
		if (mem_state().queued_until.load() < item->serial ||
		    !marks_take(item->what == deferred_free::nothing ? nullptr : item, &item->marks))
			return false;
		item->queued = false;
	}
	return marks_pass(&item->marks);
}

/*
 * ---- the deferred frees
 * -------------------------------------------------------------------------------------------
 */

int deferred_expect()
{
	memory_state &m = mem_state();
	static constexpr size_t few = 64;

	if (m.expected == m.deferred.capacity() && !try_reserve(m.deferred, std::max(few, 2 * m.expected)))
		return no_memory("the list of what is freed");
	m.expected++;
	return 0;
}

void deferred_forgo(size_t n)
{
	mem_state().expected -= n;
}

static void give_back(const deferred_free &item)
{
	deferred_forgo(1);
	switch (item.what) {
	case deferred_free::nothing:
		break;
	case deferred_free::device_block:
		device_put_block(item.dev, item.offset);
		break;
	case deferred_free::arena_block:
		arena_put_block(item.from, item.offset);
		break;
	case deferred_free::whole_span:
		span_remove(item.sp);
		break;
	case deferred_free::iova:
		item.sp->is_deferred = false;
		if (!item.sp->mapped && !item.sp->retired)
			span_erase(item.sp);
		else
			mem_state().spans_pending = true;
		break;
	}
}

static void deferred_changed()
{
	mem_state().deferred_count.store(mem_state().deferred.size(), std::memory_order_relaxed);
}

void deferred_add(deferred_free item, bool clear)
{
	memory_state &m = mem_state();

	item.epoch = memory_up.queue_epoch();
	item.serial = clear ? 0 : ++m.last_serial; /* 0: nothing queued to wait for */
	if (passed(&item)) {
		give_back(item);
		return;
	}
	/* In the deferred frees all have numbers that grow, as their epochs do. */
	if (clear)
		item.serial = ++m.last_serial;
	push_reserved(m.deferred, std::move(item));
	deferred_changed();
}

void deferred_run()
{
	memory_state &m = mem_state();

	if (unlikely(m.spans_pending) && now_ns() >= m.retry_ns) {
		spans_quiesce();
		m.retry_ns = now_ns() + retry_every;
	}
	if (m.deferred.empty())
		return;
	std::erase_if(m.deferred, [](deferred_free &item) {
		const bool over = passed(&item);

		if (over)
			give_back(item);
		return over;
	});
	deferred_changed();
}

/* Its blocks go with its heap. */
static void deferred_forget(device *dev)
{
	std::erase_if(mem_state().deferred, [dev](const deferred_free &item) {
		return item.what == deferred_free::device_block && item.dev == dev;
	});
	deferred_changed();
}

void memory_reclaim()
{
	if (likely(!mem_state().deferred_count.load(std::memory_order_relaxed)))
		return;
	deferred_ask();
	/* Who holds the lock allocates or frees, and reclaims itself. */
	std::unique_lock guard(mem_state().lock, std::try_to_lock);
	if (guard.owns_lock())
		deferred_run();
}

/* *dead_end: what is left does not move, for its devices are lost. */
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
	static std::atomic<u64> in_vain{0};
	const u64 last = in_vain.load(std::memory_order_relaxed);
	const bool impatient = last && now_ns() - last < impatient_for_ns;
	const deadline until = deadline::in_ms(impatient ? impatient_ms : drain_ms);
	deferred_free now = {};
	bool dead_end;

	now.epoch = memory_up.queue_epoch();
	now.serial = ~u64(0);
	for (;;) {
		deferred_ask();
		if (now.serial && memory_up.queue_done(now.epoch))
			now.serial = 0;
		if (all_passed(&now, &dead_end))
			return true;
		if (dead_end)
			return false;
		if (until.passed()) {
			in_vain.store(now_ns(), std::memory_order_relaxed);
			return false;
		}
		usleep(drain_step_us);
	}
}

/* ---- devices ----------------------------------------------------------------------------------------- */

/* Nothing of it writes any more: what was removed and kept for it alone goes now, as no later call may come. */
static void retired_bit_put(device *dev)
{
	memory_state &m = mem_state();
	const u64 bit = dev->retired_bit;

	dev->attach = 0;
	dev->retired_bit = 0;
	/* The last one may be others', too. */
	if (!bit || bit == u64(1) << 63)
		return;
	for (auto &[iova, sp] : m.spans)
		sp.retired &= ~bit;
	m.retired_bits &= ~bit;
	spans_quiesce();
}

/* What all it reached is taken away from it; where that is not sure, proof of its rest is needed. */
static void memory_part(device *dev)
{
	int none = 0;

	if (!spans_detach(dev) && !dev->lost())
		dev->dead.compare_exchange_strong(none, ENODEV);
	arenas_trim(false);
	if (!dev->lost() || dev->stopped()) {
		retired_bit_put(dev);
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
	arenas_trim(true); /* an empty one shall not be what the device cannot reach */
	m.attached[dev->slot] = dev;
	dev->attach = ++m.last_attach;
	err = spans_attach(dev);
	if (!err)
		err = heap_attach(dev);
	if (!err)
		return 0;
	const kept_error why;
	memory_part(dev);
	return why.again(err);
}

void memory_detach(device *dev)
{
	memory_state &m = mem_state();

	const bool clear = deferred_ask();
	std::lock_guard guard(m.lock);
	if (dev->slot >= max_devices || m.attached[dev->slot] != dev)
		return;
	deferred_forget(dev);
	heap_detach(dev, clear);
	memory_part(dev);
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
	retired_bit_put(dev);
	deferred_run();
}

u64 memory_kept_for(const device *dev)
{
	std::lock_guard guard(mem_state().lock);
	u64 bytes = 0;

	for (const auto &[iova, sp] : mem_state().spans)
		bytes += sp.retired & dev->retired_bit ? sp.size : 0;
	return bytes;
}

} // namespace usdma::core
