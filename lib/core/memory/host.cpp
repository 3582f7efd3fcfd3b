/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned host memory: blocks from arenas that all non-isolated devices, or one isolated device, can access. */
#include "driver/base/cancel.h"
#include "driver/base/grow.h"
#include "lib/core/memory/internal.h"
#include "lib/core/memory/retire.h"

#include <mutex>
#include <new>

namespace usdma::core {

static constexpr u64 host_grain = cache_line, disk_block = 4 * KiB;

/* Large blocks get a dedicated arena. */
static bool is_large(u64 size)
{
	return size > config_get().host_arena / 2;
}

/* Requested properties. */
struct host_request {
	u64 size;
	int node;
	const device *dev; /* nullptr: all */
	u32 reach;
	u32 flags; /* the region's */
};

/* ---- pin_limit ---------------------------------------------------------------------------------------- */

static u64 pinned_bytes; /* of charged regions; atomic */

/* *flags: of the region, for pin_discharge(). */
int pin_charge(u64 size, u32 *flags)
{
	const u64 limit = config_get().pin_limit;

	*flags = 0;
	if (likely(!limit))
		return 0;
	const u64 before = fetch_add_relaxed(&pinned_bytes, size);
	if (before <= limit && size <= limit - before) {
		*flags = region_charged;
		return 0;
	}
	fetch_add_relaxed(&pinned_bytes, -size);
	return fail(
		ENOMEM,
		"pinning %llu bytes more than the %llu pinned already exceeds pin_limit (USDMA_PIN_LIMIT), %llu bytes",
		static_cast<unsigned long long>(size), static_cast<unsigned long long>(before),
		static_cast<unsigned long long>(limit));
}

void pin_discharge(u64 size, u32 flags)
{
	if (unlikely(flags & region_charged))
		fetch_add_relaxed(&pinned_bytes, -size);
}

/* ---- arenas ------------------------------------------------------------------------------------------- */

static int first_device_node()
{
	std::lock_guard guard(mem_state().lock);

	for (const device *dev : mem_state().attached)
		if (dev)
			return dev->eng->limits().numa_node;
	return -1;
}

int node_for(int requested, int setting, const device *dev)
{
	if (requested >= 0)
		return requested;
	if (setting >= 0)
		return setting;
	return dev ? dev->eng->limits().numa_node : first_device_node();
}

/* Not yet listed. */
static int arena_make(const host_request &w, u64 size, bool single, std::unique_ptr<backing> &mem,
		      std::unique_ptr<arena> *out)
{
	std::unique_ptr<arena> a(new (std::nothrow) arena);
	u8 *base = mem->mem.data();

	if (!a || a->blocks.init(size, host_grain))
		return no_memory("tracking pinned memory");
	a->node = w.node;
	a->single = single;
	if (const int err = range_add({base, mem->mem.size(), w.reach}, &mem, &a->where))
		return err;
	*out = std::move(a);
	return 0;
}

static void arena_close(arena *a)
{
	range_remove(a->where);
	mem_state().arenas.erase(a);
}

/* *unsafe: an arena has space, but a lost device may still write there. */
static arena *arena_with_space(const host_request &w, bool *unsafe)
{
	*unsafe = false;
	for (auto &[key, a] : mem_state().arenas) {
		if (a->single || a->node != w.node || a->where->reach != w.reach || a->blocks.largest() < w.size ||
		    range_is_tainted(a->where))
			continue;
		if (!range_may_be_written(a->where))
			return a.get();
		*unsafe = true;
	}
	return nullptr;
}

static arena *other_empty(const arena *a)
{
	for (auto &[key, other] : mem_state().arenas)
		if (other.get() != a && !other->single && other->where->reach == a->where->reach &&
		    other->blocks.empty())
			return other.get();
	return nullptr;
}

/* Closes an empty arena, but retains one for small blocks: the largest, or all would be made again. */
static void arena_quiesce(arena *a)
{
	if (!a->blocks.empty())
		return;
	if (a->single || range_is_tainted(a->where) || !range_is_reached(a->where))
		return arena_close(a);
	if (arena *other = other_empty(a))
		arena_close(other->blocks.size() < a->blocks.size() ? other : a);
}

void arena_put_block(arena *a, u64 offset)
{
	a->blocks.free(offset);
	arena_quiesce(a);
}

void arenas_trim(bool all)
{
	auto &arenas = mem_state().arenas;

	for (auto it = arenas.begin(); it != arenas.end();) {
		arena *a = (it++)->second.get();

		if (a->blocks.empty() && (all || range_is_tainted(a->where) || !range_is_reached(a->where)))
			arena_close(a);
	}
}

/* Blocks of a page or more begin at one; shorter ones where a disk can write to them, if they have a block of it. */
static u64 alignment_of(u64 size)
{
	return size >= os_page_size() ? os_page_size() : size >= disk_block ? disk_block : host_grain;
}

static int block_carve(arena *a, const host_request &w, void **out)
{
	const u64 size = w.size, align = alignment_of(size);
	u64 offset;
	int err = a->blocks.alloc(size, align, &offset);

	if (err)
		return err == -ENOBUFS ? no_memory("tracking pinned memory") : err;
	err = deferred_reserve();
	if (err) {
		a->blocks.free(offset);
		return err;
	}
	region r;
	r.base = reinterpret_cast<u64>(a->where->vaddr) + offset;
	r.size = size;
	r.cls = mem_class::host;
	r.kind = region_kind::pinned;
	r.slot = u8(w.dev ? w.dev->slot : 0);
	r.reach = w.reach;
	r.flags = w.flags;
	r.page_size = u32(a->where->store->page);
	r.delta = a->where->iova - reinterpret_cast<u64>(a->where->vaddr);
	r.owner = a;
	err = region_add(r, nullptr);
	if (err) {
		deferred_unreserve(1);
		a->blocks.free(offset);
		return err;
	}
	*out = reinterpret_cast<void *>(r.base);
	return 0;
}

/* With the lock held. The first block is carved before others see the arena. */
static int arena_list(std::unique_ptr<arena> a, const host_request &w, void **out)
{
	arena *const made = a.get();
	std::unique_ptr<arena> *listed = try_emplace(mem_state().arenas, made);
	int err;

	if (!listed) {
		range_remove(a->where);
		return no_memory("tracking pinned memory");
	}
	*listed = std::move(a);
	err = block_carve(made, w, out);
	if (err)
		arena_quiesce(made);
	return err;
}

/* From an existing arena; 1: none has space. */
static int carve_from_present(const host_request &w, void **out, bool *unsafe)
{
	std::lock_guard guard(mem_state().lock);

	deferred_run();
	/* An aligned block may not fit in largest(). */
	arena *a = arena_with_space(w, unsafe);
	return a && !block_carve(a, w, out) ? 0 : 1;
}

/* A lost device usually quiesces soon if at all: wait for that before making a new arena. */
static int carve_from_any_present(const host_request &w, void **out)
{
	bool unsafe;
	const int err = carve_from_present(w, out, &unsafe);

	if (!err || !unsafe)
		return err;
	devices_quiesce();
	return carve_from_present(w, out, &unsafe);
}

/*
 * Of the next arena for small blocks: as much as there is, so that a program that needs little takes little, and one
 * that needs much makes few.
 */
static u64 shared_size(const host_request &w)
{
	const u64 most = config_get().host_arena;
	u64 present = 0;
	std::lock_guard guard(mem_state().lock);

	for (auto &[key, a] : mem_state().arenas)
		if (!a->single && a->node == w.node && a->where->reach == w.reach)
			present += a->blocks.size();
	return std::min(most, std::max(align_up(w.size, page_huge), align_down(present, page_huge)));
}

static int carve_from_new(const host_request &w, void **out)
{
	const bool single = is_large(w.size);
	const u64 whole = single ? align_up(w.size, w.size >= page_huge ? page_huge : os_page_size()) :
				   align_up(shared_size(w), os_page_size());
	std::unique_ptr<backing> mem;
	std::unique_ptr<arena> a;
	/* Faulting in and mapping are slow: not under the lock. */
	int err = backing_make(whole, w.node, &mem);

	if (!err)
		err = arena_make(w, whole, single, mem, &a);
	if (err)
		return err;
	std::lock_guard guard(mem_state().lock);
	return arena_list(std::move(a), w, out);
}

/* One thread makes an arena for small blocks; concurrent callers allocate from it. */
static int carve_from_shared(const host_request &w, void **out)
{
	static std::mutex making;
	int err = carve_from_any_present(w, out);

	if (err <= 0)
		return err;
	std::lock_guard guard(making);
	err = carve_from_any_present(w, out);
	return err > 0 ? carve_from_new(w, out) : err;
}

static int allocate(u64 size, int numa_node, void **out, const device *dev, u32 flags)
{
	const no_cancel scope;
	int err;

	if (is_other_process())
		return fail_forked();
	if (!size || size > iova_end)
		return fail(size ? ENOMEM : EINVAL, "pinned memory of %llu bytes is %s",
			    static_cast<unsigned long long>(size), size ? "unavailable" : "invalid");
	err = node_check(numa_node);
	if (err)
		return err;
	err = setting_node_check();
	if (err)
		return err;
	ranges_unmap_removed();
	const host_request w = {size, node_for(numa_node, config_get().numa_node, dev), dev, host_reach_of(dev), flags};
	return is_large(size) ? carve_from_new(w, out) : carve_from_shared(w, out);
}

int host_alloc(u64 size, int numa_node, void **out, const device *dev)
{
	return allocate(size, numa_node, out, dev, 0);
}

int host_alloc_charged(u64 size, int numa_node, void **out, const device *dev)
{
	u32 flags;
	int err = pin_charge(size, &flags);

	if (err)
		return err;
	err = allocate(size, numa_node, out, dev, flags | region_program);
	if (err)
		pin_discharge(size, flags);
	return err;
}

static int free_block(void *ptr)
{
	std::lock_guard guard(mem_state().lock);
	region *r = region_at(reinterpret_cast<u64>(ptr));

	if (!r || r->kind != region_kind::pinned || r->cls != mem_class::host || r->flags & region_shared)
		return fail(EINVAL, "%p is not the start of a block of pinned memory", ptr);
	auto *const from = static_cast<arena *>(r->owner);
	const u64 offset = r->base - reinterpret_cast<u64>(from->where->vaddr);
	pinned_unregister_block(r->base, r->size);
	pin_discharge(r->size, r->flags);
	region_remove(r);
	deferred_add({.what = deferred_free::arena_block, .from = from, .offset = offset});
	return 0;
}

int host_free(void *ptr)
{
	const no_cancel scope;

	if (is_other_process())
		return fail_forked();
	const int err = free_block(ptr);
	if (!err)
		ranges_unmap_removed();
	return err;
}

} // namespace usdma::core
