/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of devices: opened on first use, closed with the last reference; and their lanes. */
#include "lib/core/device.h"

#include "driver/base/cancel.h"
#include "driver/base/grow.h"
#include "driver/dma/registry.h"
#include "lib/core/event.h"
#include "lib/core/retire.h"
#include "lib/core/section.h"
#include "lib/core/slab.h"
#include "lib/core/staging.h"
#include "lib/core/stream.h"
#include "lib/core/stripe.h"
#include "lib/core/task.h"
#include "lib/core/wait.h"

#include <algorithm>
#include <cstring>
#include <pthread.h>
#include <new>
#include <utility>

namespace usdma::core {

/* With those that were closed and may still write. */
static constexpr size_t most_devices = 1024;
static constinit immortal<slab<device, most_devices>> all_devices;

struct device_table {
	std::mutex open_lock; /* one opens or closes at a time */
	std::mutex lock;      /* the arrays; held briefly, never while calling out */
	device *dev[max_devices] = {};
	int refs[max_devices] = {};
	const char *added[max_devices] = {}; /* behind the configured ones; never taken away */
	std::atomic<unsigned> n_added{0};
};

static constinit immortal<device_table> table;
static u32 in_child;

static void note_fork()
{
	store_relaxed(&in_child, 1u);
	section_self = nullptr;
}

static void watch_forks()
{
	static const int once = pthread_atfork(nullptr, nullptr, note_fork);

	(void)once;
}

bool forked()
{
	return load_relaxed(&in_child) != 0;
}

int fail_forked()
{
	return fail(EPERM, "this process is a fork of one that uses usdma: the device stays with the parent; "
			   "call exec, or open the device only in the child");
}

int device_count()
{
	if (const int err = config_ready())
		return err;
	const config &cfg = config_get();
	if (!cfg.error.empty())
		return fail(EINVAL, "%s", cfg.error.c_str());
	return int(std::min<size_t>(cfg.devices.size(), max_devices) + table->n_added.load(std::memory_order_acquire));
}

const char *device_spec(unsigned slot)
{
	const config &cfg = config_get();
	const size_t configured = std::min<size_t>(cfg.devices.size(), max_devices);

	if (slot < configured)
		return cfg.devices[slot].c_str();
	return slot - configured < table->n_added.load(std::memory_order_acquire) ? table->added[slot - configured] : nullptr;
}

int device_add(const char *spec)
{
	std::lock_guard adding(table->open_lock);
	const int n = device_count();

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++)
		if (!strcmp(device_spec(unsigned(i)), spec))
			return i;
	if (const int err = within_memory("a device's name", [spec] {
		    std::string scheme;

		    return dma::parse_scheme(spec, &scheme);
	    }))
		return err;
	if (unsigned(n) >= max_devices)
		return fail(ENOSPC, "'%s' would be one device too many: there can be %u", spec, max_devices);
	const unsigned at = table->n_added.load(std::memory_order_relaxed);
	table->added[at] = strdup(spec);
	if (!table->added[at])
		return fail(ENOMEM, "no memory for a device's name");
	/* The name is there before the count says so. */
	table->n_added.store(at + 1, std::memory_order_release);
	return n;
}

device *device_peek(unsigned slot)
{
	std::lock_guard guard(table->lock);

	return slot < max_devices ? table->dev[slot] : nullptr;
}

device *device_enter(unsigned slot)
{
	/* The lock may be a thread's of the parent, for good. */
	if (forked())
		return nullptr;
	std::lock_guard guard(table->lock);
	device *dev = slot < max_devices ? table->dev[slot] : nullptr;

	if (dev)
		dev->calls.enter();
	return dev;
}

void device_leave(device *dev)
{
	dev->calls.leave();
}

int device_ref(device *dev)
{
	std::lock_guard guard(table->lock);

	if (table->dev[dev->slot] != dev)
		return fail(ENODEV, "device %u is being closed", dev->slot);
	table->refs[dev->slot]++;
	return 0;
}

bool device_valid(const void *handle)
{
	return all_devices->holds(handle);
}

void device_each(void (*fn)(device *dev, void *arg), void *arg)
{
	for (unsigned slot = 0; slot < max_devices; slot++)
		if (device *dev = device_enter(slot)) {
			fn(dev, arg);
			device_leave(dev);
		}
}

/* ---- opening ---------------------------------------------------------------------------------------- */

/* For all that a server is asked at opening, of the device or a channel, or at closing: none of them takes it long. */
static u64 turns_ms()
{
	return std::max<u64>(3 * config_get().reply_ms, 5000);
}

/* Of a slot it is always the same, as its string is. */
static u32 reaches_of[max_devices];

u32 slot_reaches(unsigned slot)
{
	return load_relaxed(&reaches_of[slot]);
}

/* As its string says. */
static int device_bound(device *dev)
{
	const u32 own = u32(1) << dev->slot;
	std::string_view bare;
	dma::device_options said;

	if (const int err = dma::parse_options(dev->spec, &bare, &said))
		return err;
	const bool isolated = said.isolated.value_or(false);
	dev->reaches = own | (isolated ? 0 : reach_common);
	dev->lends = isolated ? own : reach_common;
	store_relaxed(&reaches_of[dev->slot], dev->reaches);
	return 0;
}

static int device_make(device *dev, unsigned slot)
{
	dev->slot = slot;
	int err = within_memory("a device", [&] {
		dev->spec = device_spec(slot);
		if (const int wrong = device_bound(dev))
			return wrong;
		return dma::open(dev->spec, &dev->eng, {.reply_ms = config_get().reply_ms, .open_ms = turns_ms(),
							.trust = config_get().trust});
	});
	if (err)
		return fail_in(err, "device %u (%s)", slot, dev->spec.c_str());
	if (!dev->eng->limits().channels || !dev->eng->limits().max_len)
		return fail(EPROTO, "device %u (%s) offers no channels", slot, dev->spec.c_str());
	if (!try_resize(dev->lanes, dev->eng->limits().channels))
		return no_memory("a device's channels");
	dev->opened_ns = now_ns();
	err = stats_open(slot, dev->spec.c_str(), dev->eng->driver_name(), dev->opened_ns);
	if (!err)
		err = memory_attach(dev);
	if (err) {
		stats_close(slot);
		return fail_in(err, "device %u (%s)", slot, dev->spec.c_str());
	}
	dev->eng->transport().hurry(0);
	dev->bar_cached = dev->spec.starts_with("sim") || dev->spec.starts_with("vfio-user");
	return 0;
}

static u64 last_opening;

static int device_open(unsigned slot, device **out)
{
	retired_look();
	stamps_trim();
	device *dev = all_devices->get();
	if (!dev)
		return fail(ENOMEM, "device %u: no memory, or too many that were lost and may still write", slot);
	dev->opening = __atomic_add_fetch(&last_opening, 1, __ATOMIC_RELAXED);
	if (const int err = device_make(dev, slot)) {
		const kept_error why;

		device_retire(dev);
		return why.again(err);
	}
	all_devices->enliven(dev);
	*out = dev;
	return 0;
}

int device_get(unsigned slot, device **out)
{
	const no_cancel quiet;
	const int n = device_count();

	watch_forks();
	if (forked())
		return fail_forked();
	if (n < 0)
		return n;
	if (slot >= unsigned(n))
		return fail(ENODEV, "no device %u: USDMA_DEVICES names %d", slot, n);
	std::lock_guard opening(table->open_lock);
	device *dev = device_peek(slot);
	if (!dev) {
		const int err = device_open(slot, &dev);

		if (err)
			return err;
	}
	std::lock_guard guard(table->lock);
	/* It may have been lost before anybody could see it here. */
	if (std::exchange(table->dev[slot], dev) != dev)
		vfio::losses.fetch_add(1);
	table->refs[slot]++;
	*out = dev;
	return 0;
}

void device_delete(device *dev)
{
	all_devices->put(dev);
}

/* ---- closing ---------------------------------------------------------------------------------------- */

static void lane_close(lane *l)
{
	/* Freed memory counts as out of the device's reach once ch is null. */
	std::lock_guard guard(l->lock);
	l->ch->ops->close(l->ch);
	l->ch = nullptr;
	delete l->parts;
	l->parts = nullptr;
}

template <class F> static void each_lane(device *dev, F fn)
{
	for (auto &l : dev->lanes)
		if (l && l->ch)
			fn(l.get());
}

/* It has nothing to do, or waits for somebody. */
static bool lane_rests(lane *l)
{
	std::lock_guard guard(l->lock);

	return lane_done(l, l->ch->posted) || (l->ch->ops->in_wait && l->ch->ops->in_wait(l->ch));
}

/* What waits in a ring is dropped, and what is behind it. */
static void drop_waiting(device *dev)
{
	for (stream *s = dev->forsaken; s; s = s->next_idle)
		if (!lane_done(s->ln, s->last))
			stream_abort(s);
}

/*
 * All of them before the first is closed: a ring may wait for another.  When all do nothing but wait, look after look,
 * it is for somebody else, who need not come.
 */
static void drain_lanes(device *dev)
{
	static constexpr unsigned enough = 4, look_ms = 10;
	const deadline until = deadline::in_ms(hang_over_ms());

	for (unsigned looks = 0; !dev->lost(); looks++) {
		bool done = true, rest = true;

		each_lane(dev, [&](lane *l) { done &= lane_drain(l, deadline::in_ms(look_ms)); });
		if (done)
			return;
		each_lane(dev, [&](lane *l) { rest &= lane_rests(l); });
		looks = rest ? looks : 0;
		if (looks >= enough)
			drop_waiting(dev);
		if (until.passed())
			device_fail(dev, ETIMEDOUT, "closed with work that does not end");
	}
}

/* Calls that came before have ended, others find no handle. */
static void device_close(device *dev)
{
	grace_wait();
	dev->calls.drain();
	streams_forsake(dev);
	dev->eng->transport().hurry(hang_over_ms() + turns_ms());
	drain_lanes(dev);
	streams_reap(dev);
	/* Takes as long as there is memory. */
	dev->eng->transport().hurry(0);
	memory_wipe(dev);
	dev->eng->transport().hurry(turns_ms());
	pump_forget(dev);
	/* Kept until it is freed: see is_over() in retire.cpp. */
	store_release(&dev->kept, dev->opening);
	store_release(&dev->opening, u64(0));
	/* Who found one of its lanes by an event is counted there by now, or gone. */
	grace_wait();
	pump_settle();
	each_lane(dev, [](lane *l) { l->calls.drain(); });
	each_lane(dev, lane_close);
	memory_detach(dev);
	/* Its server may have kept what they lie in; or they were its own. */
	if (dev->isolated() || dev->eng->transport().keeps_files()) {
		staging_renew(dev);
		staging_trim(dev);
		stamps_renew(dev);
		stamps_trim();
	}
	stats_close(dev->slot);
	device_retire(dev);
}

/* With both locks of the table held.  True: it was the last. */
static bool drop_ref(device *dev)
{
	if (--table->refs[dev->slot])
		return false;
	table->dev[dev->slot] = nullptr;
	store_release(&dev->alive, u64(0));
	return true;
}

void device_put(device *dev)
{
	const no_cancel quiet;

	if (forked())
		return;
	std::lock_guard opening(table->open_lock);
	table->lock.lock();
	const bool last = drop_ref(dev);
	table->lock.unlock();
	if (last)
		device_close(dev);
}

int device_close_handle(const void *handle)
{
	const no_cancel quiet;
	device *dev = object_at<device>(handle);

	if (forked())
		return fail_forked();
	std::lock_guard opening(table->open_lock);
	table->lock.lock();
	const bool valid = device_valid(handle), last = valid && drop_ref(dev);
	table->lock.unlock();
	if (last)
		device_close(dev);
	return valid ? 0 : -EBADF;
}

/* ---- lanes ------------------------------------------------------------------------------------------ */

/* A quarter of the channels is for streams that share; with few channels, all but those that leave one to share. */
static u32 shared_from(const device *dev)
{
	const u32 n = u32(dev->lanes.size());

	return n - std::max(1u, n / 4);
}

static int lane_open(device *dev, u32 i)
{
	std::unique_ptr<lane> l(new (std::nothrow) lane);
	dma::channel_config cfg;
	int err;

	if (!l)
		return fail(ENOMEM, "channel %u: no memory", i);
	cfg.first_seq = config_get().first_seq;
	cfg.coalesce_count = config_get().coalesce_count;
	cfg.coalesce_us = config_get().coalesce_us;
	l->dev = dev;
	l->count = stats_lane(dev->slot, i);
	l->exclusive = i < shared_from(dev);
	l->wait_seq = l->join_seq = cfg.first_seq;
	/* With its lock held: nobody else opens a channel, and neither opening nor closing the device is under way. */
	dev->eng->transport().hurry(turns_ms());
	err = dev->eng->channel_open(i, cfg, &l->ch);
	dev->eng->transport().hurry(0);
	if (err)
		return err;
	dev->lanes[i] = std::move(l);
	return 0;
}

static u32 lane_choose(device *dev)
{
	const u32 shared = shared_from(dev), n = u32(dev->lanes.size());
	u32 best = shared;

	for (u32 i = 0; i < shared; i++)
		if (!dev->lanes[i] || !dev->lanes[i]->streams)
			return i;
	for (u32 i = shared; i < n; i++) {
		const u32 users = dev->lanes[i] ? dev->lanes[i]->streams : 0;

		if (!users)
			return i;
		if (users < dev->lanes[best]->streams)
			best = i;
	}
	return best;
}

int lane_get(device *dev, lane **out)
{
	std::lock_guard guard(dev->lock);
	const u32 i = lane_choose(dev);

	if (!dev->lanes[i]) {
		const int err = lane_open(dev, i);

		if (err)
			return err;
	}
	dev->lanes[i]->streams++;
	*out = dev->lanes[i].get();
	return 0;
}

/* From the end: streams take theirs from the beginning. */
static lane *lane_idle(device *dev, u32 unit)
{
	for (u32 i = shared_from(dev); i-- > 0;) {
		if (i % dev->eng->limits().engines != unit || (dev->lanes[i] && dev->lanes[i]->streams))
			continue;
		return dev->lanes[i] || !lane_open(dev, i) ? dev->lanes[i].get() : nullptr;
	}
	return nullptr;
}

int lane_get_helper(device *dev, u32 unit)
{
	std::lock_guard guard(dev->lock);

	if (dev->helper[unit].load(std::memory_order_relaxed))
		return 0;
	lane *l = lane_idle(dev, unit);
	if (!l)
		return -EBUSY;
	auto *parts = new (std::nothrow) stripe_ledger;
	if (!parts)
		return fail(ENOMEM, "no memory for a list of parts");
	store_release(&l->parts, parts);
	l->streams = 1;
	/* Release: who sees it sees its ledger. */
	dev->helper[unit].store(l, std::memory_order_release);
	return 0;
}

void lane_put(lane *l)
{
	std::lock_guard guard(l->dev->lock);

	l->streams--;
}

} // namespace usdma::core
