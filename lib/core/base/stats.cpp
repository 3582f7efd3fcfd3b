/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/base/stats.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/base/memfd.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace usdma::core {

/*
 * Open for the lifetime of the process, so that other processes find it. Sealed against shrinking, so that a
 * reader cannot get SIGBUS.
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
		log_info("no file for counters: usdmactl stat does not show this process");
	auto *page = static_cast<stats_page *>(p);
	page->head.version = stats_version;
	page->head.pid = u32(getpid());
	page->head.slots = stats_slots;
	page->head.hw_queues = stats_hw_queues;
	page->head.wakes = *wakes;
	memcpy(page->head.magic, stats_magic, sizeof(stats_magic));
	return page;
}

/* Created when the first device is opened; atomic. */
static stats_page *made_page;
static constinit std::mutex make_lock;

static stats_page *page_now()
{
	return load_acquire(&made_page);
}

static stats_page *page_or_new()
{
	std::lock_guard guard(make_lock);

	if (!made_page)
		if (stats_page *const page = make_page()) {
			store_release(&wakes, &page->head.wakes);
			store_release(&made_page, page);
		}
	return made_page;
}

int stats_open(unsigned slot, const char *spec, const char *driver, u64 opened_ns)
{
	stats_page *const page = page_or_new();

	if (!page)
		return no_memory("counters");
	stats_slot &s = page->head.slot[slot];
	/* The counters of the slot's previous device become 0. Processes of the user may have written the page. */
	const u32 used = std::min(load_relaxed(&s.hw_queues), u32(stats_hw_queues));

	std::fill_n(page->count[slot], used, hwq_counters{});
	snprintf(s.spec, sizeof(s.spec), "%s", spec);
	snprintf(s.driver, sizeof(s.driver), "%s", driver);
	s.opened_ns = opened_ns;
	store_relaxed(&s.hw_queues, 0u);
	/* Release: a reader that sees it open sees the other fields. */
	store_release(&s.open, 1u);
	return 0;
}

void stats_close(unsigned slot)
{
	if (stats_page *const page = page_now())
		store_release(&page->head.slot[slot].open, 0u);
}

void stats_retain(u64 devices, u64 bytes)
{
	stats_page *const page = page_now();

	if (!page)
		return;
	store_relaxed(&page->head.retained_devices, devices);
	store_relaxed(&page->head.retained_bytes, bytes);
}

void stats_memory(unsigned slot, u64 used, u64 size)
{
	stats_page *const page = page_now();

	if (!page)
		return;
	store_relaxed(&page->head.memory[slot].used, used);
	store_relaxed(&page->head.memory[slot].size, size);
}

hwq_counters *stats_hw_queue(unsigned slot, unsigned hw_queue)
{
	stats_page *const page = page_now();
	stats_slot &s = page->head.slot[slot];

	if (hw_queue >= load_relaxed(&s.hw_queues))
		store_relaxed(&s.hw_queues, hw_queue + 1);
	return &page->count[slot][hw_queue];
}

} // namespace usdma::core
