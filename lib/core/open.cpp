/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a device across all layers. */
#include "lib/core/open.h"

#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/base/page_guard.h"
#include "driver/dma/registry.h"
#include "lib/core/base/section.h"
#include "lib/core/info.h"
#include "lib/core/queue/hw_queues.h"
#include "lib/core/queue/wait.h"
#include "lib/core/copy/helper.h"
#include "lib/core/copy/staging.h"
#include "lib/core/memory/memory.h"
#include "lib/core/memory/retire.h"
#include "lib/core/queue/recover.h"
#include "lib/core/stream/listen.h"
#include "lib/core/stream/task.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace usdma::core {

/* ---- opening ---------------------------------------------------------------------------------------- */

/* Sets the reach from the device string's options. */
static int set_reach(device *dev)
{
	const u32 own = u32(1) << dev->slot;
	std::string_view bare;
	dma::device_options options;

	if (const int err = dma::parse_options(dev->spec, &bare, &options))
		return err;
	const bool isolated = options.isolated.value_or(false);
	dev->reaches = own | (isolated ? 0 : reach_common);
	dev->host_reach = isolated ? own : reach_common;
	slot_set_reaches(dev->slot, dev->reaches);
	return 0;
}

/* The late timing of race is for devices that have it. */
static check_timing timing_of(const std::string &spec)
{
	const check_words &c = config_get().checks;

	if (spec.starts_with("sim"))
		return check_timing_of(spec);
	return c.implied && !spec.starts_with("vfio-user:") ? check_timing::plain : c.timing;
}

static int device_make(device *dev, unsigned slot)
{
	dev->slot = slot;
	int err = within_memory("a device", [&] {
		dev->spec = device_spec(slot);
		if (const int wrong = set_reach(dev))
			return wrong;
		return dma::open(dev->spec, &dev->eng,
				 {.reply_ms = config_get().reply_ms, .open_ms = open_timeout_ms()});
	});
	if (err)
		return fail_in(err, "device %u (%s)", slot, dev->spec.c_str());
	if (!dev->eng->limits().channels)
		return fail(EPROTO, "device %u (%s) offers no channels", slot, dev->spec.c_str());
	if (dev->eng->limits().max_len < sizeof(u64))
		return fail(
			EPROTO,
			"device %u (%s) reports a longest transfer of %llu bytes, and must be able to move words of 8",
			slot, dev->spec.c_str(), ull(dev->eng->limits().max_len));
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
	dev->eng->transport().set_deadline(0);
	dev->timing = timing_of(dev->spec);
	dev->bar_cached = dev->spec.starts_with("sim") || dev->spec.starts_with("vfio-user");
	dev->cpu_copies = pageable_by_cpu(dev->eng->limits(), dev->timing);
	return 0;
}

static u64 last_opening;

int device_open(unsigned slot, device **out)
{
	retired_poll();
	stamps_trim();
	if (page_guard_install())
		log_warn("memory that is unmapped during a copy will raise a signal: %s", error_text());
	device *dev = device_new();
	if (!dev)
		return fail(ENOMEM, "device %u: no memory, or too many lost devices that may still write", slot);
	dev->opening = fetch_add_relaxed(&last_opening, 1) + 1;
	if (const int err = device_make(dev, slot)) {
		const saved_error why;

		device_retire(dev);
		return why.again(err);
	}
	if (dev->cpu_copies)
		helper_get();
	device_start(dev);
	*out = dev;
	return 0;
}

/* ---- closing ---------------------------------------------------------------------------------------- */

/* Calls in progress may open more. */
static hw_queue *open_hw_queue(device *dev, size_t i)
{
	std::lock_guard guard(dev->lock);
	hw_queue *l = dev->hw_queues[i].get();

	return l && l->ch ? l : nullptr;
}

template <class F> static void each_hw_queue(device *dev, F fn)
{
	for (size_t i = 0; i < dev->hw_queues.size(); i++)
		if (hw_queue *l = open_hw_queue(dev, i))
			fn(l);
}

/* Changes with every request that completes. */
static u64 sum_completed(device *dev)
{
	u64 sum = 0;

	each_hw_queue(dev, [&](const hw_queue *l) { sum += dma::completed(l->ch); });
	return sum;
}

static bool all_idle(device *dev)
{
	bool idle = true;

	each_hw_queue(dev, [&](hw_queue *l) { idle &= hwq_is_idle(l); });
	return idle;
}

/*
 * Drains all rings, as a ring may wait for another. If all are idle or in a WAIT for several checks, the condition may
 * never be met: abort the streams.
 */
static void drain_hw_queues(device *dev)
{
	static constexpr unsigned max_checks = 4, check_ms = 10;
	deadline until = deadline::in_ms(hang_over_ms());
	u64 seen = sum_completed(dev);

	for (unsigned checks = 0; !dev->lost(); checks++) {
		bool done = true;

		each_hw_queue(dev, [&](hw_queue *l) { done &= hwq_drain(l, deadline::in_ms(check_ms)); });
		if (done)
			return;
		checks = all_idle(dev) ? checks : 0;
		if (checks >= max_checks)
			streams_abort(dev);
		const u64 now = sum_completed(dev);
		if (std::exchange(seen, now) != now)
			until = deadline::in_ms(hang_over_ms());
		else if (until.passed())
			device_fail(dev, ETIMEDOUT, "closed with work that did not end");
	}
}

/*
 * No call starts any more. One in progress may wait for a gate, or for slots in a ring, and post, also to a stream that
 * it creates: only when all have ended the rings are drained for good.
 */
static void end_calls(device *dev)
{
	static constexpr u64 step_ns = 10 * ns_per_ms;
	/* Twice: a thread may have begun to destroy a stream after the first time, before that was taken. */
	for (unsigned times = 0; times < 2;) {
		const bool none_left = dev->calls.drain(now_ns() + step_ns);

		streams_orphan(dev, none_left);
		drain_hw_queues(dev);
		times += none_left && streams_wait_calls(dev, now_ns() + step_ns);
	}
	/* Not before: the time of a call is not limited. */
	dev->eng->transport().set_deadline(hang_over_ms() + open_timeout_ms());
	drain_hw_queues(dev);
}

/* While devices are retained, passes are made, which check them (devices_poll); an idle program makes no calls. */
static std::mutex retained_lock;
static bool retained_are_checked;

static bool still_retained(void *)
{
	std::lock_guard guard(retained_lock);

	return retained_are_checked = retired_get().devices;
}

static void retire(device *dev)
{
	static constinit pass_hook hook = {still_retained, nullptr, false};

	device_retire(dev);
	std::lock_guard guard(retained_lock);
	if (!retained_are_checked && retired_get().devices)
		retained_are_checked = !progress_hook(&hook);
}

/* The handle is invalid. */
int device_close(device *dev)
{
	grace_wait();
	end_calls(dev);
	const int err = streams_reap(dev);
	const saved_error why;
	/* No time limit: depends on the memory's size. */
	dev->eng->transport().set_deadline(0);
	memory_wipe(dev);
	dev->eng->transport().set_deadline(open_timeout_ms());
	progress_forget(dev);
	memory_end(dev);
	/* Set until it is freed: see is_over() in retire.cpp. */
	store_release(&dev->closing, dev->opening);
	store_release(&dev->opening, u64(0));
	/* Users that found a hardware queue through an event are counted in its calls by now, or have left. */
	grace_wait();
	each_hw_queue(dev, [](hw_queue *l) { l->calls.drain(); });
	/* Again: they may have had their queue monitored. */
	monitor_forget(dev);
	progress_quiesce();
	each_hw_queue(dev, hwq_close);
	memory_detach(dev);
	if (dev->cpu_copies)
		helper_put();
	/* Its server may have retained the memory, or the memory was allocated for this device only. */
	if (dev->isolated() || dev->eng->transport().retains_files()) {
		host_generation_renew(dev->host_reach);
		staging_trim(dev);
		stamps_trim();
	}
	stats_close(dev->slot);
	retire(dev);
	return why.again(err);
}

} // namespace usdma::core
