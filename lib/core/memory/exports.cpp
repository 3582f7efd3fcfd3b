/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/memory/exports.h"

#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/grow.h"
#include "lib/core/memory/internal.h"

#include <algorithm>
#include <fcntl.h>

namespace usdma::core {

/* How often allocations check for blocks that no process maps any more. */
static constexpr u64 reap_interval = 10 * ns_per_ms;

int device_memory_fd(device *dev, u64 *offset)
{
	const device_heap *h = heap_of(dev);

	if (!h->pool)
		return dev->eng->memory_fd(offset);
	*offset = h->pool->fd_offset;
	return h->pool->fd;
}

/* Allocated before the lock is taken. */
static int add_export(device *dev, u64 block, export_map *fresh)
{
	memory_state &m = mem_state();
	std::lock_guard guard(m.lock);

	if (!heap_of(dev)->blocks.size_at(block))
		return fail(ENOENT, "device %u has no memory at offset %#llx", dev->slot, ull(block));
	/* What is exported already stays in fresh. */
	m.exports.merge(*fresh);
	exported_block &b = m.exports.find({dev, block})->second;
	if (b.freed)
		return fail(ENOENT, "the device memory at offset %#llx of device %u was freed", ull(block), dev->slot);
	if (!fresh->empty())
		b.closed.splice(b.closed.end(), fresh->begin()->second.closed);
	if (race_on())
		race().memory(race_memory::written,
			      memory_key(heap_of(dev)->space == dma::space::host, dev->slot, heap_of(dev)->dma + block),
			      heap_of(dev)->blocks.size_at(block), 0);
	return 0;
}

int device_export(device *dev, u64 block, u32 *closed)
{
	export_map fresh;
	exported_block *b = try_emplace(fresh, std::pair<const device *, u64>(dev, block));

	if (!b || (closed && !try_push(b->closed, closed)))
		return no_memory("the list of exported memory");
	b->dev = dev;
	return add_export(dev, block, &fresh);
}

void device_unexport(const device *dev, u64 block, const u32 *closed)
{
	memory_state &m = mem_state();
	std::lock_guard guard(m.lock);
	const auto it = m.exports.find({dev, block});

	if (it != m.exports.end())
		std::erase(it->second.closed, closed);
}

static void close_all(exported_block *b)
{
	/* Ordered before the query for locks; an importer locks before it checks this word (share.cpp). */
	for (u32 *word : b->closed)
		store_fence(word, 1u);
	if (!b->closed.empty())
		store_release(&mem_state().exports_ended, 1u);
	b->closed.clear();
}

static void (*on_ended)(); /* atomic */

void exports_set_ended(void (*fn)())
{
	store_release(&on_ended, fn);
}

void exports_report()
{
	if (likely(!load_relaxed(&mem_state().exports_ended)) || !exchange_acq_rel(&mem_state().exports_ended, 0u))
		return;
	if (void (*const fn)() = load_acquire(&on_ended))
		fn();
}

void exports_close(const device *dev, u64 block)
{
	const auto it = mem_state().exports.find({dev, block});

	if (it != mem_state().exports.end())
		close_all(&it->second);
}

/* Whether an importer has a lock in the block. */
static bool is_imported(device *dev, u64 block)
{
	struct flock l = {};
	u64 offset = 0;
	const int fd = device_memory_fd(dev, &offset);

	l.l_type = F_WRLCK;
	l.l_whence = SEEK_SET;
	l.l_start = off_t(offset + block);
	l.l_len = off_t(heap_of(dev)->blocks.size_at(block));
	/* If the query fails, assume an importer. */
	return fd >= 0 && (fcntl(fd, F_OFD_GETLK, &l) || l.l_type != F_UNLCK);
}

bool exports_hold(device *dev, u64 block)
{
	memory_state &m = mem_state();
	const auto it = m.exports.find({dev, block});

	if (it == m.exports.end())
		return false;
	close_all(&it->second); /* an export that raced with the free, too */
	if (is_imported(dev, block)) {
		it->second.freed = true;
		m.exports_held++;
		device_count_held(dev, block, true);
		return true;
	}
	m.exports.erase(it);
	return false;
}

static void put_held(device *dev, u64 block)
{
	device_count_held(dev, block, false);
	mem_state().exports_held--;
	deferred_unreserve(1);
	device_put_block(dev, block);
}

void exports_reap(bool now)
{
	memory_state &m = mem_state();

	if (likely(!m.exports_held) || (!now && now_ns() < m.reap_ns))
		return;
	std::erase_if(m.exports, [](auto &e) {
		const u64 block = e.first.second;
		const bool over = e.second.freed && !is_imported(e.second.dev, block);

		if (over)
			put_held(e.second.dev, block);
		return over;
	});
	m.reap_ns = now_ns() + reap_interval;
}

void exports_forget(const device *dev)
{
	memory_state &m = mem_state();

	for (auto &[at, b] : m.exports)
		if (b.dev == dev) {
			close_all(&b);
			m.exports_held -= b.freed;
		}
	std::erase_if(m.exports, [dev](const auto &e) { return e.second.dev == dev; });
}

} // namespace usdma::core
