/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What hangs: its channel is reset first, which costs one request and
 * disturbs no other channel.  If that does not help, the device is reset, which
 * costs all that is pending on it.  If that does not help either, it is lost.
 *
 * Locks: recover_lock, then dev->lock, then a hardware queue's.
 */
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/log.h"
#include "lib/core/memory/memory.h"
#include "lib/core/memory/retire.h"
#include "lib/core/stream/fault.h"
#include "lib/core/stream/recover.h"
#include "lib/core/stream/task.h"
#include "lib/core/channel/wait.h"

#include <unistd.h>

namespace usdma::core {

/* At most so often a device's hardware queues are looked at, and for hangs. */
static constexpr u64 look_every = ns_per_ms, hangs_every = 5 * ns_per_ms;
/* A channel whose engine is busy with others has so many times as long. */
static constexpr u64 turns = 16;
/* One that hangs is asked whether it is there after so long, and each time again: a bus access. */
static constexpr u64 ask_every = 100 * ns_per_ms;

enum : u8 { tried_nothing, tried_channel, tried_device };

static int dead_error(device *dev)
{
	const int err = dev->dead.load(std::memory_order_relaxed);

	if (err == ETIMEDOUT)
		return fail(ENODEV,
			    "device %u (%s) made no progress for %u ms, resets did not help, and it was given up: "
			    "close it and open it again",
			    dev->slot, dev->spec.c_str(), config_get().hang_ms);
	return fail(ENODEV, "device %u (%s) is gone: its server ended or it was unplugged", dev->slot,
		    dev->spec.c_str());
}

/* Whoever sleeps looks again, and asks the device anew to be woken; by itself it looks every 50 ms. */
static void wake_sleepers(hw_queue *l)
{
	l->look_again.store(true, std::memory_order_release);
	/* The device's server holds it, too, and locks of ours are held. */
	if (!eventfd_raise(l->ch->irq_fd[dma::irq_waiter]))
		log_debug("waking hardware queue %u failed", l->ch->index);
}

void device_fail(device *dev, int err, const char *why)
{
	int none = 0;

	/* First: whoever sees that it is dead is given nothing any more that it reaches. */
	lent_renew(dev->lends);
	if (!dev->dead.compare_exchange_strong(none, err))
		return;
	dev->lost_ns.store(now_ns(), std::memory_order_relaxed);
	log_error("device %u (%s): %s", dev->slot, dev->spec.c_str(), why);
	std::lock_guard guard(dev->lock);
	for (auto &l : dev->hw_queues)
		if (l && l->ch)
			wake_sleepers(l.get());
}

/* ---- the channel ------------------------------------------------------------------------------------ */

static int channel_cut(hw_queue *l)
{
	std::lock_guard guard(l->lock);
	dma::channel *ch = l->ch;

	if (load_relaxed(&l->stuck))
		return fail(EIO, "channel %u cannot be resumed", ch->index);
	if (!ch->ops->cut)
		return fail(EOPNOTSUPP, "the engine cannot reset a channel");
	return ch->ops->cut(ch);
}

/* What was cut looks like a fault, and is handled as one. */
static int channel_reset(hw_queue *l)
{
	if (const int err = channel_cut(l))
		return err;
	hwq_check_fault(l);
	return load_relaxed(&l->stuck) ? -EIO : 0;
}

/* ---- the device ------------------------------------------------------------------------------------- */

/* All that is pending there ends, and each stream that has any hears of it. */
static int hwq_restart(hw_queue *l)
{
	const auto on_hw_queue = [](const stream *s, const void *arg) { return s->ln == arg; };
	std::lock_guard guard(l->lock);
	int err;

	/* Held, not visited: what is told to them may call back into the list. */
	for (size_t at = 0; stream *s = stream_next(&at, on_hw_queue, l);) {
		if (!hwq_done(l, s->last)) {
			stream_note_error(s, dma::fault_errno(dma::fault_reason::reset), dma::fault_reason::reset, 0,
					  s->last);
			if (s->stopped)
				stream_drop_queue(s);
		}
		stream_unref(s);
	}
	err = l->ch->ops->restart(l->ch);
	store_relaxed(&l->stuck, u32(err != 0));
	return err;
}

static int device_reset(device *dev)
{
	std::lock_guard guard(dev->lock);

	for (auto &l : dev->hw_queues)
		if (l && l->ch && !l->ch->ops->restart)
			return fail(EOPNOTSUPP, "the engine cannot go on after a reset");
	/* From its return on nothing pending runs any more, in no channel. */
	int err = dev->eng->reset();
	for (auto &l : dev->hw_queues)
		if (!err && l && l->ch)
			err = hwq_restart(l.get());
	return err;
}

/* ---- who decides ------------------------------------------------------------------------------------ */

/* As far as its ring tells: for a word, an event, or for helpers. */
static bool waits_outside(const hw_queue *l)
{
	return hwq_in_wait(l) || hwq_joins(l);
}

/* With recover_lock held: no progress for too long though there is something to do. */
static bool stands_still(hw_queue *l, u64 now)
{
	/* Held: somebody submits, or waits for a command; the next look is soon. */
	if (!l->lock.try_lock())
		return false;
	const u64 done = dma::completed(l->ch), beat = load_relaxed(&l->ch->record->heartbeat);
	const bool pending = l->ch->posted != done;
	l->lock.unlock();
	const bool busy = pending && (!dma::halted(l->ch) || load_relaxed(&l->stuck));

	return l->hang.look(now, busy, done, beat, u64(config_get().hang_ms) * ns_per_ms, waits_outside(l));
}

/* One that can only be told by its ring whether it waits for something outside. */
static bool may_wait(const hw_queue *l)
{
	return !l->ch->ops->cut && waits_outside(l);
}

static bool tried(hw_queue *l, u8 what, int err)
{
	log_warn("device %u channel %u hangs: %s reset: %s", l->dev->slot, l->ch->index,
		 what == tried_channel ? "channel" : "device", err ? error_text() : "done");
	l->tried = what;
	l->tried_at = dma::completed(l->ch);
	l->hang.restart();
	return !err;
}

/* Said before it is touched, so that the message shows what it stood at. */
static void describe(hw_queue *l)
{
	const dma::channel *ch = l->ch;
	char text[400] = "";

	if (ch->ops->describe) {
		std::lock_guard guard(l->lock);

		ch->ops->describe(ch, text, sizeof(text));
	}
	log_warn("device %u channel %u hangs, for %llu ms: %s; woken %llu times by this process", l->dev->slot,
		 ch->index, static_cast<unsigned long long>(l->hang.still_ns() / ns_per_ms), text,
		 static_cast<unsigned long long>(load_relaxed(&l->count->wakes)));
}

/* With recover_lock held.  A recovery after which not one request ended was none: the next one then. */
static void escalate(hw_queue *l)
{
	device *dev = l->dev;

	/* The look was a while ago where this thread had to wait for its CPU. */
	if (!l->hang.as_seen(dma::completed(l->ch), load_relaxed(&l->ch->record->heartbeat)))
		return;
	if (l->tried && l->tried_at != dma::completed(l->ch))
		l->tried = tried_nothing;
	if (l->tried < tried_channel && may_wait(l))
		return l->hang.restart();
	describe(l);
	if (l->tried < tried_channel) {
		const int err = channel_reset(l);

		if (err == -EAGAIN)
			return l->hang.restart();
		if (tried(l, tried_channel, err))
			return wake_sleepers(l);
	}
	if (l->tried < tried_device && tried(l, tried_device, device_reset(dev))) {
		std::lock_guard guard(dev->lock);

		for (auto &one : dev->hw_queues)
			if (one && one->ch)
				wake_sleepers(one.get());
		return;
	}
	/* First: whoever hears that it is lost takes its memory back. */
	if (!dev->eng->lost() && dev->eng->give_up())
		log_error("device %u (%s) may still write to memory: %s", dev->slot, dev->spec.c_str(), error_text());
	device_fail(dev, ETIMEDOUT, "no progress for too long, and resets did not help: given up");
}

/* When a channel of the same engine, this one included, was last seen to make progress; with the device's lock held. */
static u64 engine_moved(const hw_queue *of)
{
	device *dev = of->dev;
	const u32 engines = dev->eng->limits().engines;
	u64 moved = 0;

	for (auto &l : dev->hw_queues)
		if (l && l->ch && l->ch->index % engines == of->ch->index % engines)
			moved = std::max(moved, l->hang.moved());
	return moved;
}

/* The engine is, or was until just now, at another channel's work, and has not begun this one's. */
static bool waits_for_turn(hw_queue *l, u64 now)
{
	const u64 limit = u64(config_get().hang_ms) * ns_per_ms;

	if (!l->ch->ops->begun || now - std::min(now, engine_moved(l)) > limit || l->hang.still_ns() > turns * limit)
		return false;
	/* Held: the next look is soon. */
	std::unique_lock guard(l->lock, std::try_to_lock);
	return !guard.owns_lock() || l->ch->ops->begun(l->ch) == 0;
}

/* Its time begins anew with its turn: what it waited before was the others'. */
static bool has_excuse(hw_queue *l, u64 now)
{
	if (waits_for_turn(l, now)) {
		l->waited = true;
		return true;
	}
	if (!l->waited)
		return false;
	l->waited = false;
	l->hang.restart();
	return true;
}

/* longest: for how long any of them has hung. */
static hw_queue *find_still(device *dev, u64 now, u64 *longest)
{
	std::lock_guard guard(dev->lock);
	hw_queue *found = nullptr;

	/* All of them: what was seen is kept for the next time. */
	for (auto &l : dev->hw_queues) {
		if (!l || !l->ch)
			continue;
		if (stands_still(l.get(), now) && (l->hang.only_beats() || !has_excuse(l.get(), now)) && !found)
			found = l.get();
		*longest = std::max(*longest, l->hang.still_ns());
	}
	return found;
}

/* With recover_lock held.  One whose link is down would get all the time that a hang gets. */
static bool answers(device *dev, u64 now, u64 still_ns)
{
	if (still_ns < ask_every || now - std::min(now, dev->asked_ns) < ask_every)
		return true;
	dev->asked_ns = now;
	return dev->eng->transport().answers() != -ENODEV;
}

static void look_for_hangs(device *dev)
{
	std::unique_lock guard(dev->recover_lock, std::try_to_lock);

	if (!guard.owns_lock() || dev->lost())
		return;
	/* Read under the lock: looks are in the order of their times. */
	const u64 now = now_ns();
	u64 still_ns = 0;
	hw_queue *l = find_still(dev, now, &still_ns);
	if (answers(dev, now, still_ns) && l)
		escalate(l);
}

/* By a sum: another thread may have looked after we read the clock. */
static bool is_time(std::atomic<u64> *last, u64 every)
{
	const u64 now = now_ns();
	u64 was = last->load(std::memory_order_relaxed);

	return now >= was + every && last->compare_exchange_strong(was, now);
}

static void note_loss(device *dev)
{
	if (dev->eng->lost() && !dev->dead)
		device_fail(dev, ENODEV, "lost");
}

void devices_note_loss()
{
	static std::atomic<u32> seen{0};
	const u32 now = vfio::losses.load(std::memory_order_acquire);

	if (likely(now == seen.load(std::memory_order_acquire)))
		return;
	device_each([](device *dev, void *) { note_loss(dev); }, nullptr);
	seen.store(now, std::memory_order_release);
}

static void look_after_device(device *dev)
{
	note_loss(dev);
	if (dev->dead || !is_time(&dev->looked_ns, look_every))
		return;
	device_check_faults(dev);
	if (is_time(&dev->watched_ns, hangs_every))
		look_for_hangs(dev);
}

void watch_all()
{
	static std::atomic<u64> looked_ns{0};

	if (!is_time(&looked_ns, look_every))
		return;
	device_each([](device *dev, void *) { look_after_device(dev); }, nullptr);
	retired_look();
}

int device_alive(device *dev)
{
	look_after_device(dev);
	return dev->dead ? dead_error(dev) : 0;
}

} // namespace usdma::core
