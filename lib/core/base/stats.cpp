/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/base/stats.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/memfd.h"

#include <cstdio>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace usdma::core {

/*
 * Kept open for as long as the process lives: that is how others find it.  Sealed: who reads it, root too,
 * is not to be killed by who passed it on and then cut it short.
 */
static int make_file()
{
	unique_fd fd;

	return memfd_make(stats_name, sizeof(stats_page), 0, &fd) ? -1 : fd.release();
}

static stats_page *make_page()
{
	const int fd = make_file(), kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(nullptr, sizeof(stats_page), PROT_READ | PROT_WRITE, kind | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return nullptr;
	}
	if (fd < 0)
		log_info("no file for counters: usdmactl stat does not see this process");
	auto *page = static_cast<stats_page *>(p);
	page->head.version = stats_version;
	page->head.pid = u32(getpid());
	page->head.slots = stats_slots;
	page->head.hw_queues = stats_hw_queues;
	memcpy(page->head.magic, stats_magic, sizeof(stats_magic));
	return page;
}

/* Made at the first opening of a device at which there is memory for it; devices are opened one at a time. */
static stats_page *page;

int stats_open(unsigned slot, const char *spec, const char *driver, u64 opened_ns)
{
	if (!page)
		page = make_page();
	if (!page)
		return no_memory("counters");
	stats_slot &s = page->head.slot[slot];
	hwq_counters *count = page->count[slot];
	/* Gives the pages back, so that they read as zeros: in a file, or without one. */
	if (madvise(count, sizeof(page->count[slot]), MADV_REMOVE) &&
	    madvise(count, sizeof(page->count[slot]), MADV_DONTNEED))
		memset(static_cast<void *>(count), 0, sizeof(page->count[slot]));
	snprintf(s.spec, sizeof(s.spec), "%s", spec);
	snprintf(s.driver, sizeof(s.driver), "%s", driver);
	s.opened_ns = opened_ns;
	store_relaxed(&s.hw_queues, 0u);
	/* Release: who sees it open sees what it is. */
	store_release(&s.open, 1u);
	return 0;
}

void stats_close(unsigned slot)
{
	if (page)
		store_release(&page->head.slot[slot].open, 0u);
}

void stats_keep(u64 devices, u64 bytes)
{
	if (!page)
		return;
	store_relaxed(&page->head.kept_devices, devices);
	store_relaxed(&page->head.kept_bytes, bytes);
}

hwq_counters *stats_hw_queue(unsigned slot, unsigned hw_queue)
{
	stats_slot &s = page->head.slot[slot];

	if (hw_queue >= load_relaxed(&s.hw_queues))
		store_relaxed(&s.hw_queues, hw_queue + 1);
	return &page->count[slot][hw_queue];
}

} // namespace usdma::core
