/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/stream/pool.h"

#include "driver/base/cancel.h"
#include "driver/base/grow.h"
#include "lib/core/stream/event.h"
#include "lib/core/memory/memory.h"
#include "lib/core/base/slab.h"

#include <map>
#include <vector>

namespace usdma::core {

static constexpr size_t max_pools = 4096;
static constexpr u64 pool_grain = 512;

/* Freed by a stream, retained for the next allocation. */
struct idle_block {
	u64 addr, size;
	const stream *by;
	u32 by_id;
	event *freed; /* reached once that stream is past the free */
};

struct alignas(64) pool {
	u64 alive = 0; /* the handle */
	u32 refs = 1;  /* the handle and the blocks in use; under the lock */
	device *dev = nullptr;
	u64 max = 0, threshold = 0;
	pool_stats stats{};
	std::vector<idle_block> idle;
	u64 user[4] = {};
};

struct pool_block {
	pool *of;
	u64 size;
};

static constinit no_destructor<slab<pool, max_pools, handle_kind::pool>> pools;

using used_map = std::map<u64, pool_block>;

struct pool_state {
	std::mutex lock;
	used_map used; /* by address */
};

static pool_state &state()
{
	static no_destructor<pool_state> s;

	return *s;
}

int pool_create(device *dev, u64 max, pool **out)
{
	const no_cancel scope;
	const int err = device_ref(dev);

	if (err)
		return err;
	pool *p = pools->get();
	if (!p) {
		const int full = pools->fail_full(ENOMEM, "pools");

		device_put(dev);
		return full;
	}
	p->dev = dev;
	p->max = max;
	pools->publish(p);
	*out = p;
	return 0;
}

pool *pool_enter(const void *handle)
{
	std::lock_guard guard(state().lock);
	pool *p = pools->find(handle);

	if (p)
		p->refs++;
	return p;
}

void *pool_handle(const pool *p)
{
	return reinterpret_cast<void *>(load_relaxed(&p->alive));
}

/* Work in flight may still use the memory: device_free() defers the free. */
static void give_back(pool *p, size_t i)
{
	const idle_block b = p->idle[i];

	p->idle.erase(p->idle.begin() + long(i));
	p->stats.reserved -= b.size;
	event_unref(b.freed);
	device_free(b.addr);
}

static void shrink_idle(pool *p, u64 keep)
{
	while (!p->idle.empty() && p->stats.reserved > keep)
		give_back(p, 0);
}

/* With the lock held; true: last reference, the caller calls pool_end() without the lock. */
static bool drop_ref(pool *p)
{
	if (--p->refs)
		return false;
	shrink_idle(p, 0);
	return true;
}

static void pool_end(pool *p)
{
	device *dev = p->dev;

	pools->put(p);
	device_put(dev);
}

void pool_leave(pool *p)
{
	state().lock.lock();
	const bool last = drop_ref(p);
	state().lock.unlock();
	if (last)
		pool_end(p);
}

bool pool_destroy(const void *handle)
{
	const no_cancel scope;
	pool *p = pool_enter(handle);

	if (!p)
		return false;
	state().lock.lock();
	/* Only one of several concurrent destroyers succeeds. */
	const bool first = load_relaxed(&p->alive) != 0;
	if (first) {
		store_release(&p->alive, u64(0));
		shrink_idle(p, 0);
		p->refs--;
	}
	state().lock.unlock();
	pool_leave(p);
	return first;
}

static bool usable(const idle_block &b, const stream *s)
{
	return (b.by == s && b.by_id == s->id) || event_query(b.freed) == event_state::done;
}

/* The smallest idle block that fits without wasting more than half. */
static bool take_idle(pool *p, u64 size, const stream *s, u64 *addr, u64 *got)
{
	size_t best = p->idle.size();

	for (size_t i = 0; i < p->idle.size(); i++) {
		const u64 has = p->idle[i].size;

		if (has >= size && has / 2 <= size && (best == p->idle.size() || has < p->idle[best].size) &&
		    usable(p->idle[i], s))
			best = i;
	}
	if (best == p->idle.size())
		return false;
	*addr = p->idle[best].addr;
	*got = p->idle[best].size;
	event_unref(p->idle[best].freed);
	p->idle.erase(p->idle.begin() + long(best));
	return true;
}

static int take_new(pool *p, u64 size, u64 *addr)
{
	if (p->max && p->stats.reserved + size > p->max)
		shrink_idle(p, p->max > size ? p->max - size : 0);
	if (p->max && p->stats.reserved + size > p->max)
		return fail(ENOMEM, "the pool may hold %llu bytes, and %llu are in use",
			    static_cast<unsigned long long>(p->max), static_cast<unsigned long long>(p->stats.used));
	const int err = device_alloc(p->dev, size, page_policy::huge_first, addr);
	if (!err)
		p->stats.reserved += size;
	return err;
}

/* Preallocates a map entry; empty: no memory. */
static used_map::node_type make_node()
{
	used_map one;

	return try_emplace(one, u64(0), pool_block{}) ? one.extract(one.begin()) : used_map::node_type();
}

int pool_alloc(pool *p, u64 size, stream *s, void **out)
{
	const no_cancel scope;
	pool_state &st = state();
	std::lock_guard guard(st.lock);
	u64 addr, got = align_up(size, pool_grain);

	if (forked())
		return fail_forked();
	if (s->dev != p->dev)
		return fail(EXDEV, "the pool is of device %u, the stream of device %u", p->dev->slot, s->dev->slot);
	if (got < size)
		return fail(ENOMEM, "%llu bytes are too many", static_cast<unsigned long long>(size));
	used_map::node_type node = make_node();
	if (node.empty())
		return no_memory("tracking a pool's memory");
	if (!take_idle(p, got, s, &addr, &got)) {
		const int err = take_new(p, got, &addr);

		if (err)
			return err;
	}
	node.key() = addr;
	node.mapped() = {p, got};
	st.used.erase(addr);
	st.used.insert(std::move(node));
	p->refs++;
	p->stats.used += got;
	p->stats.used_high = std::max(p->stats.used_high, p->stats.used);
	p->stats.reserved_high = std::max(p->stats.reserved_high, p->stats.reserved);
	*out = reinterpret_cast<void *>(addr);
	return 0;
}

/* Retains the block for a later allocation. */
static int retain(pool *p, u64 addr, u64 size, stream *s)
{
	const size_t n = p->idle.size();
	event *e;
	int err = n < p->idle.capacity() || try_reserve(p->idle, 2 * n + 4) ? event_create(p->dev, 0, &e) :
									      no_memory("a pool's list of idle blocks");

	if (err)
		return err;
	err = event_record(e, s);
	if (err) {
		event_unref(e);
		return err;
	}
	push_reserved(p->idle, idle_block{addr, size, s, s->id, e});
	return 0;
}

int pool_free(void *ptr, stream *s)
{
	const no_cancel scope;
	pool_state &st = state();
	std::unique_lock guard(st.lock);
	const auto it = st.used.find(reinterpret_cast<u64>(ptr));
	int err = 0;

	if (forked())
		return fail_forked();
	if (it == st.used.end())
		return fail(ENOENT, "%p is not a live block of a pool", ptr);
	pool *p = it->second.of;
	const u64 size = it->second.size;
	bool stays = load_relaxed(&p->alive) && p->stats.reserved - p->stats.used + size <= p->threshold;
	if (stays)
		err = retain(p, it->first, size, s);
	/* No memory to track the block as idle: return it to the heap, which needs none. */
	if (err == -ENOMEM)
		stays = false;
	else if (err)
		return err;
	if (!stays) {
		p->stats.reserved -= size;
		err = device_free(it->first);
	}
	p->stats.used -= size;
	st.used.erase(it);
	const bool last = drop_ref(p);
	guard.unlock();
	if (last)
		pool_end(p);
	return err;
}

void pool_trim(pool *p, u64 held)
{
	const no_cancel scope;
	std::lock_guard guard(state().lock);

	shrink_idle(p, held);
}

void pool_set_threshold(pool *p, u64 bytes)
{
	std::lock_guard guard(state().lock);

	p->threshold = bytes;
}

u64 pool_threshold(pool *p)
{
	std::lock_guard guard(state().lock);

	return p->threshold;
}

pool_stats pool_get_stats(pool *p)
{
	std::lock_guard guard(state().lock);

	return p->stats;
}

void pool_reset_high(pool *p, bool reserved, bool used)
{
	std::lock_guard guard(state().lock);

	if (reserved)
		p->stats.reserved_high = p->stats.reserved;
	if (used)
		p->stats.used_high = p->stats.used;
}

u64 *pool_user(pool *p)
{
	return p->user;
}

} // namespace usdma::core
