/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies by the calling CPU, where it can access the device memory. In pieces, each of which looks up its memory
 * again: between two of them it may be freed, and its device may be lost.
 */
#include "driver/base/cpu.h"
#include "driver/copy/copy.h"
#include "lib/core/base/section.h"
#include "lib/core/copy/helper.h"
#include "lib/core/copy/internal.h"
#include "lib/core/memory/touch.h"

#include <algorithm>

namespace usdma::core {

/* Bytes copied inside one read section: closing a device waits for that. */
static constexpr u64 piece_most = MiB;
/* Shorter pieces fault in the pages that they access, not those around them. */
static constexpr u64 touch_from = 16 * KiB;

/*
 * CPU mapping of len bytes of device memory, inside a read section; nullptr: use the engine. On a real BAR loads are
 * uncached, and only short copies gain from stores.
 */
static u8 *cpu_view(const translation &p, u64 len, bool load, bool is_short)
{
	device *dev = device_peek(p.slot);

	if (!dev || dev->lost() || dev->timing != check_timing::plain)
		return nullptr;
	const memory_view v = device_memory(dev);
	if (!v.cpu || p.space != v.space || !range_within(p.dma - v.dma, len, v.size))
		return nullptr;
	if (!dev->cpu_copies && (!is_short || (load && !dev->bar_cached)))
		return nullptr;
	if (len >= touch_from)
		device_touch(dev, p.dma - v.dma, len);
	return v.cpu + (p.dma - v.dma);
}

/* total: bytes of the whole copy, which select the routine. 1: not possible, nothing was done. */
static int copy_piece(const endpoints &e, u8 *dst, const u8 *src, u64 n, u64 total)
{
	const config &cfg = config_get();
	const copy_tuning &t = copy_for_cpu(cfg.copy_rows);
	const bool is_short = total <= cfg.direct_store_max;
	const read_section in; /* keeps the mapping valid */

	if (!in)
		return 1;
	u8 *const to = is_host(e.dst) ? dst : cpu_view(e.dst, n, false, is_short);
	const u8 *const from = is_host(e.src) ? src : cpu_view(e.src, n, true, is_short);
	if (!to || !from)
		return 1;
	return touch([&] {
		if (n <= t.small_max)
			memmove(to, from, n);
		else
			copy_pick(t, total, from, n, cache_hint::none)(to, from, n);
	});
}

/* A copy of any length. */
struct cpu_copy {
	u8 *dst;
	const u8 *src;
	u64 len;
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

		if (const int err = n ? copy_piece(e, dst, src, n, c.len) : 1)
			return err;
		section_pass();
		from += n;
	}
	return 0;
}

static int copy_alone(const cpu_copy &c, deadline until)
{
	for (u64 from = 0, to; from < c.len; from = to) {
		if (from && until.passed())
			return fail(ETIMEDOUT,
				    "a synchronous copy of %" PRIu64 " bytes: %" PRIu64 " were copied in time", c.len,
				    from);
		to = std::min(from + piece_most, c.len);
		if (const int err = copy_range(c, from, to))
			return err;
	}
	return 0;
}

static int helper_part(void *arg, u64 from, u64 to)
{
	return copy_range(*static_cast<const cpu_copy *>(arg), from, to);
}

/* The parts that the helper leaves. */
static int copy_rest(const cpu_copy &c, shared_work *w, deadline until)
{
	u64 from;

	while ((from = fetch_add_acq_rel(&w->next, shared_work::part)) < c.len) {
		store_relaxed(&w->cpu, this_cpu());
		if (from && until.passed())
			return fail(ETIMEDOUT, "a synchronous copy of %" PRIu64 " bytes is not done in time", c.len);
		if (const int err = copy_range(c, from, std::min(from + shared_work::part, c.len)))
			return err;
	}
	return 0;
}

/* With the helper, if it is free. */
static int copy_shared(cpu_copy c, deadline until)
{
	shared_work w = {helper_part, &c, c.len};

	if (!helper_offer(&w))
		return copy_alone(c, until);
	int err = copy_rest(c, &w, until);
	if (err)
		store_release(&w.next, c.len);
	helper_take_back();
	/* Again, for the error and its text. */
	if (!err && w.failed != shared_work::none)
		err = copy_range(c, w.failed, std::min(w.failed + shared_work::part, c.len));
	return err;
}

int copy_by_cpu(u8 *dst, const u8 *src, u64 len, deadline until)
{
	const cpu_copy c = {dst, src, len};
	const int err = len < helped_from ? copy_alone(c, until) : copy_shared(c, until);

	if (len >= helped_from)
		helper_copy_ended();
	/* Order write-combined stores before the next doorbell. */
	barrier_full();
	return err;
}

} // namespace usdma::core
