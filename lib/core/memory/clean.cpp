/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clearing device memory between users: a device keeps its memory's contents from one process to the next.
 * Memory that the device does not clear by itself is tracked in granules. A granule is clean once this process
 * has cleared it; freed memory stays clean, as it holds only this process's data.
 */
#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "lib/core/memory/internal.h"

#include <algorithm>
#include <new>

namespace usdma::core {

/* Small blocks share a granule: only the first waits for the clearing. */
static constexpr u64 granule = 2 * MiB;

static u64 granules_of(u64 size)
{
	return (size + granule - 1) / granule;
}

/* Host pages are zeroed by the kernel, and some devices report zeroed memory: not tracked. */
int heap_track_clean(const device *dev, device_heap *h)
{
	const bool zeroed = h->space == dma::space::host || dev->eng->limits().caps & dma::cap_memory_zeroed;

	if (zeroed || config_get().clear_memory == clear_mode::never)
		return 0;
	h->clean.reset(new (std::nothrow) u8[granules_of(h->size)]());
	return h->clean ? 0 : no_memory("tracking device memory");
}

/* Zeroes each run of granules in [first, end) marked `mark` and marks it clean. */
static int clear_runs(device *dev, u64 first, u64 end, u8 mark)
{
	device_heap *h = heap_of(dev);
	int err = 0;

	for (u64 at = first, run; !err && at < end; at = run + 1) {
		run = at;
		while (run < end && h->clean[run] == mark)
			run++;
		if (run == at)
			continue;
		err = memory_up.zero(dev, h->dma + at * granule, std::min(run * granule, h->size) - at * granule);
		for (u64 i = at; !err && i < run; i++)
			/* Release: the fill precedes any write of a thread that sees the mark. */
			store_release(&h->clean[i], u8(1));
	}
	return err;
}

static bool all_clean(const device_heap *h, u64 first, u64 end)
{
	for (u64 i = first; i < end; i++)
		if (!load_acquire(&h->clean[i]))
			return false;
	return true;
}

int device_clean(device *dev, u64 offset, u64 size)
{
	device_heap *h = heap_of(dev);
	u64 first = offset / granule, end = granules_of(offset + size);

	if (!h->clean || all_clean(h, first, end))
		return 0;
	if (config_get().clear_memory == clear_mode::open)
		first = 0, end = granules_of(h->size);
	/* Blocks may share a granule: the second allocation waits for the clearing. */
	std::lock_guard guard(h->clean_lock);
	const int err = clear_runs(dev, first, end, 0);
	return err ? fail_in(err, "clearing device memory of another user (clear_memory)") : 0;
}

void memory_wipe(device *dev)
{
	device_heap *h = heap_of(dev);
	int err = 0;

	if (!h)
		return;
	heap_unshare(dev);
	if (!h->clean || config_get().clear_memory != clear_mode::close)
		return;
	if (!dev->lost())
		err = clear_runs(dev, 0, granules_of(h->size), 1);
	if (err || dev->lost())
		log_warn("device %u: this program's data remain in its memory (%s)", dev->slot,
			 err ? error_text() : "the device is lost");
}

} // namespace usdma::core
