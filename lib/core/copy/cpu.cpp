/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies by the calling CPU, where it can access the device memory. In pieces, each of which looks up its memory
 * again: between two of them it may be freed, and its device may be lost.
 */
#include "driver/base/cpu.h"
#include "driver/copy/copy.h"
#include "driver/copy/unordered.h"
#include "lib/core/config/race.h"
#include "lib/core/copy/helper.h"
#include "lib/core/copy/mapped.h"
#include "lib/core/copy/internal.h"
#include "lib/core/memory/touch.h"
#include "lib/core/stream/guard.h"

#include <algorithm>
#include <utility>

namespace usdma::core {

/* Bytes looked up, and held, at once. */
static constexpr u64 piece_most = MiB;
/* Shorter pieces fault in the pages that they access, not those around them. */
static constexpr u64 touch_from = 16 * KiB;

/* The memory of a device as the CPU has it mapped; the device is in use meanwhile. */
struct cpu_view {
	device *dev = nullptr;
	memory_view mem = {};

	cpu_view() = default;
	cpu_view(const cpu_view &) = delete;
	~cpu_view() { leave(); }
	void leave()
	{
		if (dev)
			device_leave(std::exchange(dev, nullptr));
	}
};

/* False: use the engine. On a real BAR loads are uncached, and only short copies gain from stores. */
static bool is_viewed(const device *dev, bool load, bool is_short)
{
	return !dev->lost() && dev->timing == check_timing::plain &&
	       (dev->cpu_copies || (is_short && (!load || dev->bar_cached)));
}

static bool view_device(cpu_view *v, unsigned slot, bool load, bool is_short)
{
	v->leave();
	v->dev = device_enter(slot);
	if (v->dev && is_viewed(v->dev, load, is_short))
		v->mem = device_memory(v->dev);
	else
		v->mem = {};
	if (!v->mem.cpu)
		v->leave();
	return v->dev;
}

/* nullptr: not in this memory. total: bytes of the whole access. */
static u8 *in_view(const cpu_view &v, const translation &p, u64 len, u64 total)
{
	const u64 off = p.dma - v.mem.dma;

	if (p.space != v.mem.space || !range_within(off, len, v.mem.size))
		return nullptr;
	if (len >= touch_from)
		device_touch(v.dev, off, len, total);
	return v.mem.cpu + off;
}

/* CPU mapping of len bytes of device memory, a part of total; nullptr: use the engine. */
static u8 *cpu_mapping(cpu_view *v, const translation &p, u64 len, u64 total, bool load)
{
	const bool is_short = total <= config_get().direct_store_max;

	return view_device(v, p.slot, load, is_short) ? in_view(*v, p, len, total) : nullptr;
}

/* total: bytes of the whole copy, which select the routine. 1: not possible, nothing was done; stale. */
static int copy_piece(const endpoints &e, u8 *dst, const u8 *src, u64 n, u64 total)
{
	const copy_tuning &t = copy_for_cpu();
	cpu_view dst_view, src_view;
	memory_hold held;

	u8 *const to = is_host(e.dst) ? dst : cpu_mapping(&dst_view, e.dst, n, total, false);
	const u8 *const from = is_host(e.src) ? src : cpu_mapping(&src_view, e.src, n, total, true);
	if (!to || !from)
		return 1;
	/* After the devices: a region that is still there belongs to them. */
	if (const int err = held.take(e.dst, e.src))
		return err;
	return touch({to, n}, {from, n}, [&] {
		if (n <= t.small_max)
			memmove(to, from, n);
		else
			copy_pick(t, total, from, n, cache_hint::none)(to, from, n);
	});
}

/* The race check knows copies only. */
ssize_t fill_mapped(void *dst, u64 len, mapped_fill fill, void *arg)
{
	const translation p = translate(dst);
	u64 n = std::min(len, piece_most);
	memory_hold held;
	cpu_view v;

	if (race_on() || p.flags & region_readonly)
		return -EAGAIN;
	if (p.size)
		n = std::min(n, left_in(p, reinterpret_cast<u64>(dst)));
	else if (!is_host(p))
		return -EAGAIN;
	u8 *to = static_cast<u8 *>(dst);
	if (!is_host(p))
		to = view_device(&v, p.slot, false, false) ? in_view(v, p, n, len) : nullptr;
	return to && !held.take(p) ? fill(arg, to, n) : -EAGAIN;
}

/* A copy of any length. */
struct cpu_copy {
	u8 *dst;
	const u8 *src;
	u64 len;
	deadline until;
};

/* Bytes of the next piece: up to the end of a region of device memory. */
static u64 piece_of(const endpoints &e, const u8 *dst, const u8 *src, u64 len)
{
	u64 n = std::min(len, piece_most);

	if (!is_host(e.dst))
		n = std::min(n, left_in(e.dst, reinterpret_cast<u64>(dst)));
	if (!is_host(e.src))
		n = std::min(n, left_in(e.src, reinterpret_cast<u64>(src)));
	return n;
}

/* Copies [from, to). 1: as for copy_piece(). */
static int copy_range(const cpu_copy &c, u64 from, u64 to)
{
	while (from < to) {
		u8 *const dst = c.dst + from;
		const u8 *const src = c.src + from;
		const endpoints e = translate_both(dst, src);
		const u64 n = piece_of(e, dst, src, to - from);

		int err = n ? copy_piece(e, dst, src, n, c.len) : 1;
		if (err == stale)
			err = check_freed(e);
		if (err && err != stale)
			return err;
		from += err ? 0 : n;
	}
	return 0;
}

static int copy_alone(const cpu_copy &c, u64 from)
{
	for (u64 to; from < c.len; from = to) {
		if (from && c.until.passed())
			return fail(ETIMEDOUT,
				    "a synchronous copy of %" PRIu64 " bytes: %" PRIu64 " were copied in time", c.len,
				    from);
		to = std::min(from + piece_most, c.len);
		if (const int err = copy_range(c, from, to))
			return err;
	}
	return 0;
}

static int copy_part(void *arg, u64 from, u64 to)
{
	const cpu_copy &c = *static_cast<const cpu_copy *>(arg);

	return from && c.until.passed() ? 1 : copy_range(c, from, to);
}

/* In long parts each thread copies faster; in short ones the other waits less for the last. */
static u64 part_size(u64 len)
{
	return std::clamp(align_down(len / 16, 128 * KiB), 128 * KiB, MiB);
}

int copy_by_cpu(u8 *dst, const u8 *src, u64 len, deadline until)
{
	cpu_copy c = {dst, src, len, until};
	shared_work w = {copy_part, &c, len, part_size(len)};

	page_guard_check(len);
	const u64 done = len < helped_from ? 0 : helper_share(&w);
	/* After a failure: again, for the error and its text. */
	const int err = copy_alone(c, done);

	/* Order write-combined stores before the next doorbell. */
	barrier_full();
	return err;
}

/* ---- short copies, many at once --------------------------------------------------------------------- */

struct cpu_group {
	const sides *expected;
	const copy_tuning &tuning;
	u64 total;
	copy_fn copy = nullptr; /* for what is not small; chosen at the first such copy */
	cpu_view view = {};     /* of the last item's device */
	memory_hold held = {};
	const region *held_region = nullptr;
	u32 held_number = 0;

	/* Device memory of the item; mostly that of the one before. */
	bool hold(const translation &p)
	{
		if (held_region == p.reg && held_number == p.number)
			return true;
		const bool done = !held.take(p);
		held_region = done ? p.reg : nullptr;
		held_number = p.number;
		return done;
	}
};

/* One side is device memory, the other one pageable. */
static bool is_short_pageable(const endpoints &e, const copy_item &i, const sides *expected)
{
	const bool in = is_host(e.src);
	const translation &mem = in ? e.dst : e.src, &host = in ? e.src : e.dst;

	if (i.len - 1 >= helped_from - 1 || !i.dst || !i.src || host.cls != mem_class::unregistered ||
	    mem.cls != mem_class::device || is_remote(mem) || e.dst.flags & region_readonly ||
	    !holds(mem, reinterpret_cast<u64>(in ? i.dst : i.src), i.len))
		return false;
	return !expected ||
	       ((in ? expected->dst : expected->src) == mem.slot && (in ? expected->src : expected->dst) == side_host);
}

static void copy_in_group(cpu_group *g, u8 *dst, const u8 *src, u64 len)
{
	if (len <= g->tuning.small_max) {
		memmove(dst, src, len);
		return;
	}
	if (!g->copy) {
		g->copy = copy_pick(g->tuning, g->total, src, len, cache_hint::none);
		if (g->copy == g->tuning.stream)
			g->copy = stream_unordered(g->tuning);
	}
	g->copy(dst, src, len);
}

/* False: it takes another path, nothing was done. */
static bool copy_item_in_group(cpu_group *g, const copy_item &i, page_guard &guard)
{
	const endpoints e = translate_both(i.dst, i.src);

	if (!is_short_pageable(e, i, g->expected))
		return false;
	const bool in = is_host(e.src);
	const translation &mem = in ? e.dst : e.src;
	if ((!g->view.dev || g->view.dev->slot != mem.slot) && !view_device(&g->view, mem.slot, !in, false))
		return false;
	u8 *const at = in_view(g->view, mem, i.len, i.len);
	if (!at || !g->hold(mem))
		return false;
	guard.cover({at, i.len}, {in ? i.src : i.dst, i.len});
	copy_in_group(g, in ? at : static_cast<u8 *>(i.dst), in ? static_cast<const u8 *>(i.src) : at, i.len);
	return true;
}

bool is_by_cpu(const endpoints &e)
{
	const slot_guard dev(is_host(e.dst) ? e.src.slot : e.dst.slot);

	return dev && dev->cpu_copies;
}

bool is_for_cpu(const copy_item &i, const sides *expected)
{
	const endpoints e = translate_both(i.dst, i.src);

	return !race_on() && is_short_pageable(e, i, expected) && is_by_cpu(e);
}

size_t copy_group_by_cpu(const copy_list &items, size_t n, u64 total, const sides *expected)
{
	cpu_group g = {expected, copy_for_cpu(), total};
	volatile size_t done = 0;
	const void *bad;

	if (race_on())
		return 0;
	page_guard_check(total);
	/* A fault stops the group at its item. */
	page_guarded(
		{&g, 1}, {},
		[&](page_guard &guard) {
			while (done < n && copy_item_in_group(&g, items[done], guard))
				done = done + 1;
		},
		&bad);
	barrier_full();
	return done;
}

int copy_mapped(void *dst, const void *src, u64 len)
{
	const endpoints e = translate_both(dst, src);

	if (race_on() || is_host(e.dst) == is_host(e.src) || e.dst.flags & region_readonly || !is_by_cpu(e))
		return 1;
	return copy_by_cpu(static_cast<u8 *>(dst), static_cast<const u8 *>(src), len, deadline::never());
}

} // namespace usdma::core
