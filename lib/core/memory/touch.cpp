/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/memory/touch.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/huge_pages.h"
#include "driver/base/madvise.h"
#include "driver/base/memory_limit.h"
#include "lib/core/memory/internal.h"

#include <algorithm>
#include <new>

namespace usdma::core {

/* Faulted in, and noted, together. */
static constexpr u64 grain = 64 * KiB;
static_assert(grain % os_page_most == 0);
/* At allocation: blocks of at most this size, and of a device this much. Larger ones may stay unused in part. */
static constexpr u64 block_most = 64 * MiB, device_most = 256 * MiB;

int heap_track_touched(const device *dev, device_heap *h)
{
	if (!h->cpu || h->space != dma::space::device || !(dev->eng->limits().caps & dma::cap_memory_cached))
		return 0;
	h->touched.reset(new (std::nothrow) u64[h->size / (64 * grain) + 1]());
	return h->touched ? 0 : no_memory("tracking device memory");
}

static bool is_touched(const device_heap *h, u64 i)
{
	return load_relaxed(&h->touched[i / 64]) >> (i % 64) & 1;
}

static bool all_touched(const device_heap *h, u64 offset, u64 size)
{
	for (u64 i = offset / grain; i * grain < offset + size; i++)
		if (!is_touched(h, i))
			return false;
	return true;
}

/* Only a hint: what is not faulted in here, for lack of memory or on an old kernel, is by its first access. */
static void fault_in_grains(device_heap *h, u64 first, u64 end)
{
	u8 *const mem = h->cpu + first * grain;
	const u64 size = std::min(end * grain, h->size) - first * grain;
	const huge_mode huge = config_get().huge_pages;

	if (huge != huge_mode::off && huge != huge_mode::require) /* required: they are of 2 MiB already */
		collapse_pages(mem, size);
	madvise(mem, size, MADV_POPULATE_WRITE);
	for (u64 i = first; i < end; i++)
		fetch_or_acq_rel(&h->touched[i / 64], u64(1) << (i % 64));
}

void device_touch(device *dev, u64 offset, u64 size, u64 total)
{
	device_heap *const h = heap_of(dev);
	/* Of a long access all pages of 2 MiB, at most half of one unused. */
	const u64 step = total >= page_huge / 2 ? page_huge : grain;
	const u64 end = h->touched ? std::min(align_up(offset + size, step), align_up(h->size, grain)) / grain : 0;

	for (u64 at = align_down(offset, step) / grain, run; at < end; at = run + 1) {
		run = at;
		while (run < end && !is_touched(h, run))
			run++;
		if (run > at)
			fault_in_grains(h, at, run);
	}
}

void device_touch_block(device *dev, u64 offset, u64 size)
{
	device_heap *const h = heap_of(dev);

	if (!h->touched || size > block_most || all_touched(h, offset, size) ||
	    fetch_add_relaxed(&h->touched_blocks, size) > device_most)
		return;
	const saved_error why;
	if (!memory_available(size, "the pages of device memory"))
		device_touch(dev, offset, size, size);
	why.again(0);
}

} // namespace usdma::core
