/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry of regions. */
#include "driver/base/barrier.h"
#include "driver/base/error.h"
#include "driver/base/thread_end.h"
#include "lib/core/memory/internal.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace usdma::core {

constinit no_destructor<range_map> region_map;

static constexpr size_t max_regions = size_t(1) << 22;

struct region_store {
	std::mutex lock; /* one writer at a time; under it no region changes */
	slab<region, max_regions> fresh;
	region *used = nullptr; /* free list, linked by owner, which readers of a removed region do not use */
	u32 last_number = 0;
};

static constinit no_destructor<region_store> store;

memory_state &mem_state()
{
	/* Never destroyed: threads may still free while the process exits. */
	static no_destructor<memory_state> r;

	return *r;
}

/* ---- writers ----------------------------------------------------------------------------------------- */

/*
 * A late reader may still load from a reused region. Release: a reader that sees one of the new words also sees
 * the generation change of the removal and discards its result.
 */
static void region_fill(region *to, const region &from)
{
	store->last_number += store->last_number == ~u32(0) ? 2 : 1;
	store_release(&to->base, from.base);
	store_release(&to->size, from.size);
	store_release(reinterpret_cast<u8 *>(&to->cls), u8(from.cls));
	store_release(reinterpret_cast<u8 *>(&to->kind), u8(from.kind));
	store_release(reinterpret_cast<u8 *>(&to->space), u8(from.space));
	store_release(&to->slot, from.slot);
	store_release(&to->reach, from.reach);
	store_release(&to->flags, from.flags);
	store_release(&to->page_size, from.page_size);
	store_release(&to->delta, from.delta);
	store_release(&to->user, from.user);
	store_release(&to->owner, from.owner);
	store_release(&to->number, store->last_number);
}

static region *region_new()
{
	region *r = store->used;

	if (!r)
		return store->fresh.get();
	store->used = static_cast<region *>(load_relaxed(&r->owner));
	return r;
}

static void region_retire(region *r)
{
	store_release(&r->number, 0u);
	store_release(&r->owner, static_cast<void *>(store->used));
	store->used = r;
}

/* ---- for the race check ----------------------------------------------------------------------------- */

void memory_check_free(const void *ptr)
{
	const translation p = race_on() ? translate(ptr) : translation();

	if (p.size && p.base == reinterpret_cast<u64>(ptr))
		race().memory(race_memory::freed, memory_key(p), 0, 0);
}

void memory_check_reset(const u64 *word)
{
	const translation p = race_on() ? translate(word) : translation();

	if (p.size)
		race().memory(race_memory::reset, memory_key(p), 0, 0);
}

/* ---- changes ---------------------------------------------------------------------------------------- */

int region_add(const region &from, region **out)
{
	std::lock_guard guard(store->lock);
	region *r = region_new();

	if (!r)
		return store->fresh.fail_full(ENOMEM, "memory regions");
	region_fill(r, from);
	const int err = region_map->insert(r);
	if (err) {
		region_retire(r);
		return fail(-err, "the %llu bytes at %#llx %s", static_cast<unsigned long long>(from.size),
			    static_cast<unsigned long long>(from.base),
			    err == -EEXIST ? "overlap memory that is registered, pinned or allocated already" :
			    err == -EINVAL ? "are not a valid address range" :
					     "cannot be registered: no memory for the table");
	}
	if (out)
		*out = r;
	if (race_on())
		race().region(from, true);
	return 0;
}

void region_remove(region *r)
{
	std::lock_guard guard(store->lock);

	if (!load_acquire(&r->number))
		return;
	if (race_on() && !region_is_hidden(r))
		race().region(*r, false);
	region_map->remove(r);
	region_retire(r);
}

void region_hide(region *r)
{
	if (race_on())
		race().region(*r, false);
	store_release(reinterpret_cast<u8 *>(&r->cls), u8(mem_class::unregistered));
	region_map->renew();
}

void region_show(region *r, mem_class cls)
{
	store_release(reinterpret_cast<u8 *>(&r->cls), u8(cls));
	region_map->renew();
	if (race_on())
		race().region(*r, true);
}

region *region_at(u64 addr)
{
	u64 base, size;
	range_entry *e = region_map->find(addr, &base, &size);

	return e && base == addr ? static_cast<region *>(e) : nullptr;
}

/* ---- readers ----------------------------------------------------------------------------------------- */

static translation nowhere(u64 addr)
{
	translation p = {};

	p.cls = in_window(addr) ? mem_class::device : mem_class::unregistered;
	/* Unallocated device addresses: no reach check. */
	p.reach = p.cls == mem_class::device ? ~0u : 0;
	return p;
}

static void region_read(region *r, translation *l)
{
	l->reg = r;
	l->delta = load_acquire(&r->delta);
	l->flags = load_acquire(&r->flags);
	l->reach = load_acquire(&r->reach);
	l->cls = mem_class(load_acquire(reinterpret_cast<u8 *>(&r->cls)));
	l->kind = region_kind(load_acquire(reinterpret_cast<u8 *>(&r->kind)));
	l->space = dma::space(load_acquire(reinterpret_cast<u8 *>(&r->space)));
	l->slot = load_acquire(&r->slot);
	l->number = load_acquire(&r->number);
}

/* False: raced with a writer. *found false: the address is in no region. */
static bool read_entry(u64 addr, translation *l, bool *found)
{
	l->generation = region_map->generation();
	auto *r = static_cast<region *>(region_map->find(addr, &l->base, &l->size));

	*found = r != nullptr;
	if (!r)
		return true;
	region_read(r, l);
	return !(l->generation & 1) && region_map->generation() == l->generation;
}

/* A thread's translation cache. */
struct translation_block {
	alignas(64) translation entry[translation_entries];
	thread_end end;
};

static void translations_end(thread_end *e)
{
	thread_here()->cache = cache_empty;
	free(reinterpret_cast<u8 *>(e) - offsetof(translation_block, end));
}

static bool stay_uncached; /* atomic */

void translations_stay_uncached()
{
	store_relaxed(&stay_uncached, true);
	region_map->renew(); /* what threads have cached already */
}

/* The cache entry for addr; nullptr: no memory, not cached. */
static translation *own_entry(u64 addr)
{
	if (unlikely(load_relaxed(&stay_uncached)))
		return nullptr;
	if (unlikely(thread_here()->cache == cache_empty)) {
		void *const p = aligned_alloc(alignof(translation_block), sizeof(translation_block));
		if (!p)
			return nullptr;
		auto *const b = new (p) translation_block();
		b->end.run = translations_end;
		thread_here()->cache = b->entry;
		at_thread_end(&b->end);
	}
	return const_cast<translation *>(translation_entry(thread_here()->cache, addr));
}

translation translate_slow(u64 addr)
{
	translation l = {};
	bool found, stable = false;

	/* After fork: another thread of the parent may have been changing the table. */
	if (unlikely(forked()))
		return nowhere(addr);
	for (int i = 0; i < 100 && !stable; i++)
		stable = read_entry(addr, &l, &found);
	if (!stable) {
		/* Continuous writers: exclude them once. */
		std::lock_guard guard(store->lock);
		read_entry(addr, &l, &found);
	}
	if (!found || l.cls == mem_class::unregistered)
		return nowhere(addr);
	if (translation *own = own_entry(addr))
		*own = l;
	l.dma = addr + l.delta;
	return l;
}

} // namespace usdma::core
