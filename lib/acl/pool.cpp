/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream-ordered memory pools. A block freed by a stream is reusable at once by that stream, and by others once that
 * stream has reached the free.
 */
#include "driver/base/cancel.h"
#include "driver/base/grow.h"
#include "lib/acl/state.h"
#include "lib/core/base/slab.h"
#include "lib/core/memory/memory.h"
#include "lib/core/stream/event.h"
#include "lib/core/stream/task.h"

#include <map>
#include <vector>

namespace usdma::acl {

static constexpr size_t max_pools = 4096;
static constexpr u64 pool_grain = 512;

/* Freed by a stream, retained for the next allocation. */
struct idle_block {
	u64 addr, size;
	const core::stream *by;
	u32 by_id;
	core::event *freed; /* reached once that stream is past the free */
};

struct pool_stats {
	u64 reserved, reserved_high; /* bytes that the pool holds */
	u64 used, used_high;         /* bytes of it in use */
};

struct alignas(64) pool {
	u64 alive = 0; /* the handle */
	u32 refs = 1;  /* the handle and the blocks in use; under the lock */
	core::device *dev = nullptr;
	u64 max = 0, threshold = 0;
	pool_stats stats{};
	std::vector<idle_block> idle;
	u64 off[3] = {}; /* the switches that are off; atomic */
};

struct pool_block {
	pool *of;
	u64 size;
};

static constinit core::no_destructor<core::slab<pool, max_pools, core::handle_kind::pool>> pools;

using used_map = std::map<u64, pool_block>;

struct pool_state {
	std::mutex lock;
	used_map used; /* by address */
};

static pool_state &state()
{
	static core::no_destructor<pool_state> s;

	return *s;
}

static int pool_create(core::device *dev, u64 max, pool **out)
{
	const no_cancel scope;
	const int err = core::device_ref(dev);

	if (err)
		return err;
	pool *p = pools->get();
	if (!p) {
		const int full = pools->fail_full(ENOMEM, "pools");

		core::device_put(dev);
		return full;
	}
	p->dev = dev;
	p->max = max;
	pools->publish(p);
	*out = p;
	return 0;
}

/* Takes a reference, dropped by pool_leave(); nullptr: invalid handle. */
static pool *pool_enter(const void *handle)
{
	std::lock_guard guard(state().lock);
	pool *p = pools->find(handle);

	if (p)
		p->refs++;
	return p;
}

/* Work in flight may still use the memory: core::device_free() defers the free. */
static void give_back(pool *p, size_t i)
{
	const idle_block b = p->idle[i];

	p->idle.erase(p->idle.begin() + long(i));
	p->stats.reserved -= b.size;
	core::event_unref(b.freed);
	core::device_free(b.addr);
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
	core::device *dev = p->dev;

	pools->put(p);
	core::device_put(dev);
}

static void pool_leave(pool *p)
{
	state().lock.lock();
	const bool last = drop_ref(p);
	state().lock.unlock();
	if (last)
		pool_end(p);
}

/* Blocks in use stay valid until they are freed. False: invalid handle. */
static bool pool_destroy(const void *handle)
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

static bool usable(const idle_block &b, const core::stream *s)
{
	return (b.by == s && b.by_id == s->id) || core::event_query(b.freed) == core::event_state::done;
}

/* The smallest idle block that fits without wasting more than half. */
static bool take_idle(pool *p, u64 size, const core::stream *s, u64 *addr, u64 *got)
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
	core::event_unref(p->idle[best].freed);
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
	const int err = core::device_alloc(p->dev, size, core::page_policy::huge_first, addr);
	if (!err)
		p->stats.reserved += size;
	return err;
}

/* As for what is submitted, but in a capture, and of a lost device, where blocks are still freed. */
static int refusal(const core::stream *s)
{
	const int err = core::stream_refuses(s);

	return err == -EINPROGRESS || s->dev->lost() ? 0 : err;
}

/* Preallocates a map entry; empty: no memory. */
static used_map::node_type make_node()
{
	used_map one;

	return try_emplace(one, u64(0), pool_block{}) ? one.extract(one.begin()) : used_map::node_type();
}

static int pool_alloc(pool *p, u64 size, core::stream *s, void **out)
{
	const no_cancel scope;
	pool_state &st = state();
	std::lock_guard guard(st.lock);
	u64 addr, got = align_up(size, pool_grain);

	if (core::forked())
		return core::fail_forked();
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
static int retain(pool *p, u64 addr, u64 size, core::stream *s)
{
	const size_t n = p->idle.size();
	core::event *e;
	int err = n < p->idle.capacity() || try_reserve(p->idle, 2 * n + 4) ? core::event_create(p->dev, 0, &e) :
									      no_memory("a pool's list of idle blocks");

	if (err)
		return err;
	err = core::event_record(e, s);
	if (err) {
		core::event_unref(e);
		return err;
	}
	push_reserved(p->idle, idle_block{addr, size, s, s->id, e});
	return 0;
}

static int pool_free(void *ptr, core::stream *s)
{
	const no_cancel scope;
	pool_state &st = state();
	std::unique_lock guard(st.lock);
	const auto it = st.used.find(reinterpret_cast<u64>(ptr));
	int err = 0;

	if (core::forked())
		return core::fail_forked();
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
		err = core::device_free(it->first);
	}
	p->stats.used -= size;
	st.used.erase(it);
	const bool last = drop_ref(p);
	guard.unlock();
	if (last)
		pool_end(p);
	return err;
}

/* Returns idle blocks to the device until at most `held` bytes are reserved. */
static void pool_trim(pool *p, u64 held)
{
	const no_cancel scope;
	std::lock_guard guard(state().lock);

	shrink_idle(p, held);
}

using pool_guard = object_guard<pool, pool_enter, pool_leave>;

static aclError no_pool(const char *call, const void *handle)
{
	return fault(call, ACL_ERROR_RT_INVALID_HANDLE, "%p is not a live memory pool", handle);
}

static aclError get_pool(const char *call, const void *handle, pool_guard *out)
{
	if (!handle)
		return bad_arg(call, "memPool is NULL");
	if (core::forked())
		return no_context(call);
	return out->take(handle) ? ACL_SUCCESS : no_pool(call, handle);
}

static bool is_switch(aclrtMemPoolAttr attr)
{
	return attr >= ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
	       attr <= ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

/* Initially all switches are on. */
static u64 *switch_of(pool *p, aclrtMemPoolAttr attr)
{
	return &p->off[attr - ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES];
}

/* The others; nullptr: unknown. */
static u64 *figure_of(pool *p, aclrtMemPoolAttr attr)
{
	switch (attr) {
	case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
		return &p->threshold;
	case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
		return &p->stats.reserved;
	case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
		return &p->stats.reserved_high;
	case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
		return &p->stats.used;
	case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
		return &p->stats.used_high;
	default:
		return nullptr;
	}
}

static aclError set_attr(const char *call, pool *p, aclrtMemPoolAttr attr, const void *value)
{
	if (is_switch(attr)) {
		store_relaxed(switch_of(p, attr), u64(!*static_cast<const u32 *>(value)));
		return ACL_SUCCESS;
	}
	const u64 v = *static_cast<const u64 *>(value);
	std::lock_guard guard(state().lock);
	if (attr == ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD)
		p->threshold = v;
	else if (attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH && !v)
		p->stats.reserved_high = p->stats.reserved;
	else if (attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH && !v)
		p->stats.used_high = p->stats.used;
	else
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "attr %d is unknown or read-only, or its value is not 0",
			     attr);
	return ACL_SUCCESS;
}

static aclError get_attr(const char *call, pool *p, aclrtMemPoolAttr attr, void *value)
{
	if (is_switch(attr)) {
		*static_cast<u32 *>(value) = !load_relaxed(switch_of(p, attr));
		return ACL_SUCCESS;
	}
	std::lock_guard guard(state().lock);
	const u64 *const figure = figure_of(p, attr);
	if (!figure)
		return fault(call, ACL_ERROR_RT_PARAM_INVALID, "attr %d is unknown", attr);
	*static_cast<u64 *>(value) = *figure;
	return ACL_SUCCESS;
}

} // namespace usdma::acl

using namespace usdma;
using namespace usdma::acl;

extern "C" {

aclError aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps)
{
	pool *p = nullptr;
	core::device *dev;
	int err, slot;

	if (!memPool || !poolProps)
		return bad_arg(__func__, "memPool or poolProps is NULL");
	if (poolProps->allocType != ACL_MEM_ALLOCATION_TYPE_PINNED ||
	    poolProps->location.type != ACL_MEM_LOCATION_TYPE_DEVICE)
		return bad_arg(__func__, "poolProps: allocType must be PINNED and location DEVICE");
	if (poolProps->handleType != ACL_MEM_HANDLE_TYPE_NONE)
		return fault(__func__, ACL_ERROR_RT_PARAM_INVALID, "poolProps: handleType must be NONE");
	slot = slot_of(poolProps->location.id);
	if (slot < 0)
		return no_device(__func__, poolProps->location.id);
	err = core::device_get(unsigned(slot), &dev);
	if (err)
		return core_fault(__func__, err, at::open);
	err = pool_create(dev, poolProps->maxSize, &p);
	core::device_put(dev); /* the pool holds its own reference */
	if (!err)
		*memPool = reinterpret_cast<void *>(load_relaxed(&p->alive));
	return check(__func__, err, at::memory);
}

} // extern "C"

#include "lib/acl/calls_pool.h"
