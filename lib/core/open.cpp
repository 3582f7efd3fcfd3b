/* SPDX-License-Identifier: BSD-3-Clause */
/* How a device opens, and how it closes: what each floor has to do, in their order. */
#include "lib/core/open.h"

#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/page_guard.h"
#include "driver/dma/registry.h"
#include "lib/core/base/section.h"
#include "lib/core/channel/hw_queues.h"
#include "lib/core/channel/wait.h"
#include "lib/core/copy/staging.h"
#include "lib/core/memory/memory.h"
#include "lib/core/memory/retire.h"
#include "lib/core/stream/recover.h"
#include "lib/core/stream/stripe.h"
#include "lib/core/stream/task.h"

#include <algorithm>

namespace usdma::core {

/* ---- opening ---------------------------------------------------------------------------------------- */

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
	slot_set_reaches(dev->slot, dev->reaches);
	return 0;
}

static int device_make(device *dev, unsigned slot)
{
	dev->slot = slot;
	int err = within_memory("a device", [&] {
		dev->spec = device_spec(slot);
		if (const int wrong = device_bound(dev))
			return wrong;
		return dma::open(
			dev->spec, &dev->eng,
			{.reply_ms = config_get().reply_ms, .open_ms = turns_ms(), .trust = config_get().trust});
	});
	if (err)
		return fail_in(err, "device %u (%s)", slot, dev->spec.c_str());
	if (!dev->eng->limits().channels || !dev->eng->limits().max_len)
		return fail(EPROTO, "device %u (%s) offers no channels", slot, dev->spec.c_str());
	if (!try_resize(dev->hw_queues, dev->eng->limits().channels))
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

int device_open(unsigned slot, device **out)
{
	retired_look();
	stamps_trim();
	if (page_guard_install())
		log_warn("memory that goes while it is copied will raise a signal: %s", error_text());
	device *dev = device_new();
	if (!dev)
		return fail(ENOMEM, "device %u: no memory, or too many that were lost and may still write", slot);
	dev->opening = __atomic_add_fetch(&last_opening, 1, __ATOMIC_RELAXED);
	if (const int err = device_make(dev, slot)) {
		const kept_error why;

		device_retire(dev);
		return why.again(err);
	}
	device_start(dev);
	*out = dev;
	return 0;
}

/* ---- closing ---------------------------------------------------------------------------------------- */

static void hwq_close(hw_queue *l)
{
	/* Freed memory counts as out of the device's reach once ch is null. */
	std::lock_guard guard(l->lock);
	l->ch->ops->close(l->ch);
	l->ch = nullptr;
	delete l->parts;
	l->parts = nullptr;
}

template <class F> static void each_hw_queue(device *dev, F fn)
{
	for (auto &l : dev->hw_queues)
		if (l && l->ch)
			fn(l.get());
}

/* It has nothing to do, or waits for somebody. */
static bool hwq_rests(hw_queue *l)
{
	std::lock_guard guard(l->lock);

	return hwq_done(l, l->ch->posted) || (l->ch->ops->in_wait && l->ch->ops->in_wait(l->ch));
}

/* What waits in a ring is dropped, and what is behind it. */
static void drop_waiting(device *dev)
{
	for (stream *s = dev->forsaken; s; s = s->next_idle)
		if (!hwq_done(s->ln, s->last))
			stream_abort(s);
}

/*
 * All of them before the first is closed: a ring may wait for another.  When all do nothing but wait, look after look,
 * it is for somebody else, who need not come.
 */
static void drain_hw_queues(device *dev)
{
	static constexpr unsigned enough = 4, look_ms = 10;
	const deadline until = deadline::in_ms(hang_over_ms());

	for (unsigned looks = 0; !dev->lost(); looks++) {
		bool done = true, rest = true;

		each_hw_queue(dev, [&](hw_queue *l) { done &= hwq_drain(l, deadline::in_ms(look_ms)); });
		if (done)
			return;
		each_hw_queue(dev, [&](hw_queue *l) { rest &= hwq_rests(l); });
		looks = rest ? looks : 0;
		if (looks >= enough)
			drop_waiting(dev);
		if (until.passed())
			device_fail(dev, ETIMEDOUT, "closed with work that does not end");
	}
}

/* Calls that came before have ended, others find no handle. */
void device_close(device *dev)
{
	grace_wait();
	dev->calls.drain();
	streams_forsake(dev);
	dev->eng->transport().hurry(hang_over_ms() + turns_ms());
	drain_hw_queues(dev);
	streams_reap(dev);
	/* Takes as long as there is memory. */
	dev->eng->transport().hurry(0);
	memory_wipe(dev);
	dev->eng->transport().hurry(turns_ms());
	progress_forget(dev);
	/* Kept until it is freed: see is_over() in retire.cpp. */
	store_release(&dev->kept, dev->opening);
	store_release(&dev->opening, u64(0));
	/* Who found one of its hardware queues by an event is counted there by now, or gone. */
	grace_wait();
	progress_quiesce();
	each_hw_queue(dev, [](hw_queue *l) { l->calls.drain(); });
	each_hw_queue(dev, hwq_close);
	memory_detach(dev);
	/* Its server may have kept what they lie in; or they were its own. */
	if (dev->isolated() || dev->eng->transport().keeps_files()) {
		lent_renew(dev->lends);
		staging_trim(dev);
		stamps_trim();
	}
	stats_close(dev->slot);
	device_retire(dev);
}

} // namespace usdma::core
