/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory: which class an address is of, pinned host memory, registered host
 * memory, the device heap.  All thread-safe.  Errors: -errno with error_text().
 */
#pragma once

#include "driver/base/range_map.h"
#include "driver/base/types.h"
#include "driver/dma/request.h"
#include "lib/core/base/slab.h"
#include "lib/core/base/thread_words.h"
#include "lib/core/device/device.h"
#include "lib/core/memory/window.h"

#pragma GCC visibility push(default)
namespace usdma::core {

enum class mem_class : u8 { unregistered, host, device };
enum class region_kind : u8 { heap, pinned, registered, vmm, imported };

enum region_flags : u32 {
	region_chains = 1,   /* a copy may run on into the next region (pages of one virtual range) */
	region_shared = 2,   /* not for the heap's free: a view of memory that somebody else owns */
	region_readonly = 4, /* nothing writes it but the program */
};

struct region : range_entry {
	u32 alive = 0;
	mem_class cls = mem_class::unregistered;
	region_kind kind = region_kind::heap;
	dma::space space = dma::space::host; /* how requests name it */
	u8 slot = 0;                         /* device: whose memory; host: the device that it was made for */
	u32 reach = 0;                       /* whose engines reach it */
	u32 flags = 0;
	u32 page_size = 4096;
	u64 delta = 0; /* DMA address = address + delta: an IOVA (host, same in all devices) or device memory address */
	u64 user = 0;  /* front ends: a tag of their own */
	void *owner = nullptr; /* the heap's or arena's own */
};

/* Where an address is.  For device class in no region: size == 0. */
struct place {
	mem_class cls;
	region_kind kind;
	u8 slot;
	dma::space space;
	u32 reach;      /* unregistered: unused */
	u64 base, size; /* of the region */
	u64 dma;        /* of the address asked for */
	region *reg;
	u32 flags;
};

/* What a thread remembers of a region that it met, a cache line; good while the registry's generation is the same. */
struct alignas(64) located {
	u64 generation, base, size, delta;
	region *reg;
	u32 flags, reach;
	mem_class cls;
	region_kind kind;
	u8 slot;
	dma::space space;

	place at(u64 addr) const { return {cls, kind, slot, space, reach, base, size, addr + delta, reg, flags}; }
};

extern immortal<range_map> region_map;
inline constexpr unsigned located_entries = 4;
static_assert(located_entries * sizeof(located) == cache_bytes);

/* Looks it up, and fills the cache's entry. */
place locate_slow(u64 addr);

/* Device pointers and host pointers differ in bit 46; neighbours of 2 MiB fall on two entries. */
inline unsigned located_index(u64 addr)
{
	return unsigned(addr >> 45 & 2) | unsigned(addr >> 21 & 1);
}

/* Of the thread's cache (thread_words.h): entries on the heap, at first empty ones. */
inline const located *located_entry(const void *cache, u64 addr)
{
	return static_cast<const located *>(cache) + located_index(addr);
}

/* Lock-free, no system call; remembers its last results per thread. */
inline place locate(u64 addr)
{
	const located *l = located_entry(thread_here()->cache, addr);

	if (unlikely(addr - l->base >= l->size || l->generation != region_map->generation()))
		return locate_slow(addr);
	return l->at(addr);
}

inline place locate(const void *p)
{
	return locate(reinterpret_cast<u64>(p));
}

/* For rooms that make regions of their own (VMM, sharing). */
int region_add(const region &r, region **out); /* -EEXIST, -ENOMEM */
void region_remove(region *r);

/* ---- pinned host memory ---------------------------------------------------------------------------- */

/*
 * memfd-backed, faulted in, mapped into every open device; 64-byte aligned at least. -ENOMEM, or a device's error.
 * dev, where it is isolated: mapped into that one alone, else into none that is isolated.  So for the next one.
 */
int host_alloc(u64 size, int numa_node, void **out, const device *dev = nullptr);
/* -EINVAL: not the start of such a block. Deferred while a device may still touch it. */
int host_free(void *ptr);

enum host_register_flags : u32 { host_reg_readonly = 1 };
/*
 * Pins the caller's own memory [ptr, ptr+size), any alignment. -EEXIST: overlaps a registration or one of our
 * blocks.
 */
int host_register(void *ptr, u64 size, u32 flags, const device *dev = nullptr);
/*
 * -ENOENT: not the start of a registration. -EBUSY: a device that was lost may still write there; it stays
 * registered.
 */
int host_unregister(void *ptr);

/* ---- device memory --------------------------------------------------------------------------------- */

enum class page_policy : u8 { huge_first, huge_only, normal_only, huge1g_only };
/* At least 512-byte aligned (2 MiB for huge pages). -ENOMEM: exhausted. */
int device_alloc(device *dev, u64 size, page_policy policy, u64 *out);
/* -EINVAL: not the start of such a block. Space is reused only when work submitted before has ended. */
int device_free(u64 addr);

struct heap_info {
	u64 total, free; /* bytes of the device's memory */
	u64 used_normal, used_huge;
	u64 blocks;
	u64 peak;
};
heap_info device_heap_info(device *dev);

/* Raw device memory for rooms that map it themselves (VMM); offset counts from the memory's start. */
int device_carve(device *dev, u64 size, u64 align, u64 *offset);
void device_uncarve(device *dev, u64 offset, u64 size);

/* The device's memory as such; an engine without memory of its own is lent host memory (space::host). */
struct memory_view {
	u64 size; /* offsets are below */
	u64 base; /* the device pointer to offset 0 */
	u64 dma;  /* what requests name offset 0 by, in … */
	dma::space space;
	u8 *cpu; /* the CPU's view of offset 0; nullptr: none */
};
memory_view device_memory(device *dev);
/* The CPU's view of a word, inside a read section; nullptr: it has none, or there is no memory any more. */
const u64 *word_view(const void *addr);

/*
 * Another device's memory as dev's engine names it: changes p's dma, space and reach.  -EXDEV where it
 * cannot reach it (then copies go through the host).  The first call maps it into every device that is not isolated.
 */
int peer_place(device *dev, place *p);

/*
 * Locks: locate, host_alloc and host_register wait for no lock of another room.
 * What frees, unregisters or reclaims looks at the streams' queues, and so does a
 * device's allocation that finds no room: not to be called under hardware queue->lock or a
 * lock that is taken under it.
 */

/* ---- for open.cpp -------------------------------------------------------------------------------- */

/* Maps everything that is pinned or registered into a device just opened; on error nothing stays mapped. */
int memory_attach(device *dev);
/*
 * Before it goes, with its hardware queues drained: what it leaves to the next user is cleared, if the settings
 * say so.
 */
void memory_wipe(device *dev);
/* The device goes: its heap's regions end, and what it reaches is taken away from it. */
void memory_detach(device *dev);
/* It is proven that the device, detached, writes nothing any more: what was kept for that is free. */
void memory_forget(device *dev);
/* Bytes of host memory that a detached device may still reach. */
u64 memory_kept_for(const device *dev);
/* Gives back what was freed while devices could still touch it and can no longer. Cheap when there is nothing. */
void memory_reclaim();

/*
 * Memory that the library lends a device for its own purposes (staging buffers, time stamps) is of a generation.  Once
 * a device is lost, what it reached of older ones serves no new purpose: a server that is gone may have kept it.
 */
u32 lent_generation(u32 lends); /* device::lends */
void lent_renew(u32 lends);

/* What this floor asks of those above it: lib/core/upcalls.cpp. */
struct memory_upcalls {
	/*
	 * Work behind gates is numbered; all of it up to queue_epoch() has gone into rings (or was dropped)
	 * once queue_done(that).
	 */
	u64 (*queue_epoch)();
	bool (*queue_done)(u64 epoch);
	/* Zeros in the device's own memory, named as requests name it; done when it returns. */
	int (*zero)(device *dev, u64 dma, u64 len);
	/* Looks after the device.  0, or the errno with which it is dead. */
	int (*alive)(device *dev);
};
extern const memory_upcalls memory_up;

} // namespace usdma::core
#pragma GCC visibility pop
