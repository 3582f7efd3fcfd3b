/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hang recovery, by escalation: reset the channel, which loses one request and does not affect other channels;
 * then the device, which loses all pending work; then mark the device as lost.
 *
 * Locks: recover_lock, then dev->lock, then a hardware queue's.
 */
#include "driver/base/error.h"
#include "driver/base/eventfd.h"
#include "driver/base/log.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/recover.h"
#include "lib/core/queue/ring_signal.h"
#include "lib/core/memory/memory.h"
#include "lib/core/memory/retire.h"

#include <unistd.h>

namespace usdma::core {

/* Least interval of fault checks and of hang checks of a device. */
static constexpr u64 check_interval = ns_per_ms, hang_interval = 5 * ns_per_ms;
/* Factor for the hang limit of a channel whose engine serves others. */
static constexpr u64 busy_engine_factor = 16;
/* Interval at which a device without progress is probed by a bus access. */
static constexpr u64 probe_interval = 100 * ns_per_ms;

enum : u8 { tried_nothing, tried_channel, tried_device };

static u32 failures; /* atomic */

u32 devices_failures()
{
	return load_acquire(&failures);
}

static int dead_error(device *dev)
{
	const int err = load_relaxed(&dev->dead);

	if (err == ETIMEDOUT)
		return fail(ENODEV,
			    "device %u (%s) made no progress for %u ms, resets did not help, and it was disabled: "
			    "close it and open it again",
			    dev->slot, dev->spec.c_str(), config_get().hang_ms);
	return fail(ENODEV, "device %u (%s) was lost: its server ended or it was unplugged", dev->slot,
		    dev->spec.c_str());
}

/* Makes sleepers recheck and rearm their interrupt; without this they recheck every 50 ms. */
static void wake_sleepers(hw_queue *l)
{
	store_release(&l->recheck, true);
	/* Must not block: the device's server shares the eventfd, and locks are held here. */
	if (!eventfd_raise(l->ch->irq_fd[dma::irq_waiter]))
		log_debug("waking hardware queue %u failed", l->ch->index);
}

void device_fail(device *dev, int err, const char *why)
{
	int none = 0;

	/* First: a caller that sees the device dead must not get memory that the device can still access. */
	host_generation_renew(dev->host_reach);
	if (!cmpxchg_seq_cst(&dev->dead, &none, err))
		return;
	store_relaxed(&dev->lost_at_ns, now_ns());
	fetch_add_release(&failures, 1u);
	log_error("device %u (%s): %s", dev->slot, dev->spec.c_str(), why);
	std::lock_guard guard(dev->lock);
	for (auto &l : dev->hw_queues)
		if (l && l->ch) {
			wake_sleepers(l.get());
			signal_lost(l.get());
		}
}

/* ---- the channel ------------------------------------------------------------------------------------ */

static int channel_cancel(hw_queue *l)
{
	std::lock_guard guard(l->lock);
	dma::channel *ch = l->ch;

	if (load_relaxed(&l->stuck))
		return fail(EIO, "channel %u cannot be resumed", ch->index);
	if (!ch->ops->abort)
		return fail(EOPNOTSUPP, "the engine cannot reset a channel");
	return ch->ops->abort(ch);
}

/* An aborted request appears as a fault and is handled as one. */
static int channel_reset(hw_queue *l)
{
	if (const int err = channel_cancel(l))
		return err;
	std::lock_guard guard(l->lock);
	hwq_handle_fault(l);
	if (load_relaxed(&l->stuck))
		return -EIO;
	signal_rearm(l);
	return 0;
}

/* ---- the device ------------------------------------------------------------------------------------- */

/* Terminates all pending work of the queue and notes an error on each affected stream. */
static int hwq_restart(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	queue_up.on_reset(l);
	const int err = l->ch->ops->restart(l->ch);
	store_relaxed(&l->stuck, u32(err != 0));
	if (!err)
		signal_rearm(l);
	return err;
}

static int device_reset(device *dev)
{
	std::lock_guard guard(dev->lock);

	for (auto &l : dev->hw_queues)
		if (l && l->ch && !l->ch->ops->restart)
			return fail(EOPNOTSUPP, "the engine cannot go on after a reset");
	/* After this no pending request runs on any channel. */
	int err = dev->eng->reset();
	for (auto &l : dev->hw_queues)
		if (!err && l && l->ch)
			err = hwq_restart(l.get());
	return err;
}

/* ---- hang detection --------------------------------------------------------------------------------- */

/* No progress for too long with work pending. With recover_lock held. */
static bool is_hung(hw_queue *l, u64 now)
{
	/* Contended: another thread submits or runs a command; the next check is soon. */
	if (!l->lock.try_lock())
		return false;
	const dma::progress p = dma::read_progress(l->ch);
	const bool pending = l->ch->posted != dma::completed(l->ch);
	l->lock.unlock();
	const bool busy = pending && (!p.halted || load_relaxed(&l->stuck));

	return l->hang.sample(now, busy, p.completed, p.heartbeat, u64(config_get().hang_ms) * ns_per_ms,
			      hwq_in_wait(l));
}

/* May be in a WAIT, which this engine cannot distinguish from a hang. */
static bool may_wait(const hw_queue *l)
{
	return !l->ch->ops->abort && hwq_in_wait(l);
}

static dma::progress progress_of(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	return dma::read_progress(l->ch);
}

static bool tried(hw_queue *l, u8 what, int err)
{
	log_warn("device %u channel %u hangs: %s reset: %s", l->dev->slot, l->ch->index,
		 what == tried_channel ? "channel" : "device", err ? error_text() : "done");
	l->tried = what;
	l->tried_at = progress_of(l).completed;
	l->hang.restart();
	return !err;
}

/* Logged before the reset, to show the state of the hang. */
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

static void note_loss(device *dev)
{
	if (dev->eng->lost() && !load_seq_cst(&dev->dead))
		device_fail(dev, ENODEV, "lost");
}

/* With recover_lock held. No completion since the last reset: escalate. */
static void escalate(hw_queue *l)
{
	device *dev = l->dev;

	/* Check again: this thread may have been preempted since the sample. */
	const dma::progress p = progress_of(l);
	if (!l->hang.as_seen(p.completed, p.heartbeat))
		return;
	if (l->tried && l->tried_at != p.completed)
		l->tried = tried_nothing;
	if (l->tried < tried_channel && may_wait(l))
		return l->hang.restart();
	fetch_add_release(&failures, 1u);
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
	/* Meanwhile: the resets have failed for that. */
	if (dev->eng->lost())
		return note_loss(dev);
	/* First: callers that see the device lost reclaim its memory. */
	if (dev->eng->give_up())
		log_error("device %u (%s) may still write to memory: %s", dev->slot, dev->spec.c_str(), error_text());
	device_fail(dev, ETIMEDOUT, "no progress for too long, and resets did not help: device disabled");
}

/* Time of the last progress seen on any channel of the same engine, or any engine; with the device's lock held. */
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

/* The engine serves, or until recently served, other channels and has not begun this one's request. */
static bool waits_for_turn(hw_queue *l, u64 now)
{
	const u64 limit = u64(config_get().hang_ms) * ns_per_ms;

	if (!l->ch->ops->begun || now - std::min(now, engine_moved(l)) > limit ||
	    l->hang.still_ns() > busy_engine_factor * limit)
		return false;
	/* Contended: the next check is soon. */
	std::unique_lock guard(l->lock, std::try_to_lock);
	return !guard.owns_lock() || l->ch->ops->begun(l->ch) == 0;
}

/* The hang time restarts when the engine turns to this channel. */
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

/*
 * *longest: longest time without progress among the queues. Not while a channel is opened, which may wait for a
 * server: the caller may serve other devices.
 */
static hw_queue *find_hung(device *dev, u64 now, u64 *longest)
{
	std::unique_lock guard(dev->lock, std::try_to_lock);
	hw_queue *found = nullptr;

	if (!guard.owns_lock())
		return nullptr;
	/* Sample every queue: the watchdog compares with the previous sample. */
	for (auto &l : dev->hw_queues) {
		if (!l || !l->ch)
			continue;
		if (is_hung(l.get(), now) && (l->hang.only_beats() || !has_excuse(l.get(), now)) && !found)
			found = l.get();
		*longest = std::max(*longest, l->hang.still_ns());
	}
	return found;
}

/* With recover_lock held. Detects a dead link long before the hang limit. */
static bool answers(device *dev, u64 now, u64 still_ns)
{
	if (still_ns < probe_interval || now - std::min(now, dev->probed_ns) < probe_interval)
		return true;
	dev->probed_ns = now;
	return dev->eng->transport().answers() != -ENODEV;
}

static void check_for_hangs(device *dev)
{
	std::unique_lock guard(dev->recover_lock, std::try_to_lock);

	if (!guard.owns_lock() || dev->lost())
		return;
	/* Read under the lock: samples must be in time order. */
	const u64 now = now_ns();
	u64 still_ns = 0;
	hw_queue *l = find_hung(dev, now, &still_ns);
	if (answers(dev, now, still_ns) && l)
		escalate(l);
}

/* Add rather than subtract: another thread may have stored a later time than now. */
static bool is_time(u64 *last, u64 every)
{
	const u64 now = now_ns();
	u64 was = load_relaxed(last);

	return now >= was + every && cmpxchg_seq_cst(last, &was, now);
}

void devices_note_loss()
{
	static u32 seen;
	const u32 now = load_acquire(&vfio::losses);

	if (likely(now == load_acquire(&seen)))
		return;
	device_each([](device *dev, void *) { note_loss(dev); }, nullptr);
	store_release(&seen, now);
}

/* Halted channels: reported to their streams, and resumed. */
static void check_for_faults(device *dev)
{
	/* Contended while a channel is opened or reset: the next check is soon. */
	std::unique_lock guard(dev->lock, std::try_to_lock);

	if (!guard.owns_lock())
		return;
	for (auto &l : dev->hw_queues)
		if (l && l->ch && dma::halted(l->ch))
			hwq_check_fault(l.get());
}

static void device_poll(device *dev)
{
	note_loss(dev);
	if (load_seq_cst(&dev->dead) || !is_time(&dev->polled_ns, check_interval))
		return;
	check_for_faults(dev);
	if (is_time(&dev->hangs_checked_ns, hang_interval))
		check_for_hangs(dev);
}

void devices_poll()
{
	static u64 polled_ns;

	if (!is_time(&polled_ns, check_interval))
		return;
	device_each([](device *dev, void *) { device_poll(dev); }, nullptr);
	retired_poll();
}

static void arm_posted(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	if (dma::completed(l->ch) < l->ch->posted)
		l->ch->ops->arm(l->ch, dma::irq_service, l->ch->posted);
}

static void arm_held(device *dev)
{
	if (dev->timing < check_timing::late)
		return;
	std::unique_lock guard(dev->lock, std::try_to_lock);
	if (!guard.owns_lock())
		return;
	for (auto &l : dev->hw_queues)
		if (l && l->ch)
			arm_posted(l.get());
}

void devices_arm_held()
{
	device_each([](device *dev, void *) { arm_held(dev); }, nullptr);
}

int device_alive(device *dev)
{
	device_poll(dev);
	return load_seq_cst(&dev->dead) ? dead_error(dev) : 0;
}

} // namespace usdma::core
