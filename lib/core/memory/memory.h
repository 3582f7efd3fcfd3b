/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory: address translation, pinned host memory, registered host memory, the device heap. Thread-safe.
 * Errors: -errno with error_text().
 */
#pragma once

#include "driver/base/range_map.h"
#include "driver/base/types.h"
#include "driver/dma/request.h"
#include "lib/core/base/slab.h"
#include "lib/core/base/thread_words.h"
#include "lib/core/device/device.h"
#include "lib/core/memory/window.h"

#include <algorithm>

#pragma GCC visibility push(default)
namespace usdma::core {

enum class mem_class : u8 { unregistered, host, device };
/* remote: of another machine. No device reaches it, and its DMA addresses mean nothing. */
enum class region_kind : u8 { heap, pinned, registered, vmm, imported, remote };

enum region_flags : u32 {
	region_chains = 1,   /* a copy may continue in the next region (pages of one virtual range) */
	region_shared = 2,   /* a view of memory owned elsewhere: not to be freed as a heap block */
	region_readonly = 4, /* devices must not write it */
	region_charged = 8,  /* counts against pin_limit */
	region_program = 16, /* the program's own host memory, which the race check follows */
};

/* The normal pages of device memory; a heap's blocks share them. */
inline constexpr u32 device_page = 4 * KiB;

struct region : range_entry {
	u32 number = 0; /* differs from that of every other region at this address; 0: removed */
	mem_class cls = mem_class::unregistered;
	region_kind kind = region_kind::heap;
	dma::space space = dma::space::host; /* its address space in requests */
	u8 slot = 0;                         /* slot of the device that owns it; host: that it was allocated for */
	u32 reach = 0;                       /* bits of the devices that can access it (device::reaches) */
	u32 flags = 0;
	u32 page_size = device_page;
	u64 delta = 0; /* DMA address = address + delta: an IOVA (host, same in all devices) or device memory address */
	u64 user = 0;  /* tag for front ends */
	void *owner = nullptr; /* heap, arena or range */
};

/*
 * What is at an address: the result of a lookup, and an entry of a thread's cache, valid while the registry's
 * generation is unchanged. Unallocated device addresses: size == 0.
 */
struct translation {
	u64 generation;
	u64 base, size; /* of the region */
	u64 delta;      /* DMA address = address + delta */
	region *reg;
	u32 flags;
	u32 reach; /* unregistered: unused */
	mem_class cls;
	region_kind kind;
	u8 slot;
	dma::space space;
	u32 number; /* of the region */
	u64 dma;    /* of the address that was looked up */
};

/* A byte as a device has it. host: by its IOVA, which is the same for all; else of the memory of a device's slot. */
constexpr u64 memory_key(bool host, unsigned slot, u64 dma)
{
	return host ? dma : u64(1) << 62 | u64(slot) << 56 | (dma & ((u64(1) << 56) - 1));
}
inline u64 memory_key(const translation &p)
{
	return memory_key(p.space == dma::space::host, p.slot, p.dma);
}

extern no_destructor<range_map> region_map;
inline constexpr unsigned translation_entries = 4;
static_assert(translation_entries * sizeof(translation) == cache_bytes);

/* Looks up the region and fills the cache entry. */
translation translate_slow(u64 addr);
/* From now on no thread caches translations: each copy takes its slow path. */
void translations_stay_uncached();

/* Bit 46 separates device from host pointers; adjacent 2 MiB blocks use different entries. */
inline unsigned translation_index(u64 addr)
{
	return unsigned(addr >> 45 & 2) | unsigned(addr >> 21 & 1);
}

/* cache: the thread's (thread_words.h), allocated on first use. */
inline const translation *translation_entry(const void *cache, u64 addr)
{
	return static_cast<const translation *>(cache) + translation_index(addr);
}

/* Lock-free, no system call; cached per thread. */
inline translation translate(u64 addr)
{
	const translation *l = translation_entry(thread_here()->cache, addr);

	if (unlikely(addr - l->base >= l->size || l->generation != region_map->generation()))
		return translate_slow(addr);
	translation p = *l;
	p.dma = addr + p.delta;
	return p;
}

inline translation translate(const void *p)
{
	return translate(reinterpret_cast<u64>(p));
}

/*
 * Inside a read section: the region that was looked up is still there. Its remover changes the generation, then
 * waits for read sections: what is posted in the same section is in a ring, or in a stream's queue, by then.
 */
inline bool is_current(const translation &p)
{
	if (likely(p.generation == region_map->generation()))
		return true;
	/* Other regions may change all the time. */
	const translation now = translate(p.dma - p.delta);
	return now.reg == p.reg && now.number == p.number;
}

/* Neither 0 nor -errno: memory was freed or unregistered since it was looked up. */
inline constexpr int stale = 2;

/* What was looked up for requests, all of it since the generation was read. */
struct lookups {
	u64 generation;
	const translation *all;
	size_t n;

	bool are_current() const
	{
		return likely(generation == region_map->generation()) || std::all_of(all, all + n, is_current);
	}
};

/* For modules that create regions (VMM, sharing). */
int region_add(const region &r, region **out); /* -EEXIST, -ENOMEM */
void region_remove(region *r);

/* ---- pinned host memory ---------------------------------------------------------------------------- */

/*
 * memfd-backed, faulted in, mapped into every open device that is not isolated, or, if dev is isolated, into
 * dev only; at least 64-byte aligned. -ENOMEM, or a device's error.
 */
int host_alloc(u64 size, int numa_node, void **out, const device *dev = nullptr);
/* For the program: counts against pin_limit. */
int host_alloc_charged(u64 size, int numa_node, void **out, const device *dev);
/* -EINVAL: not the start of such a block. Deferred while a device may still access it. */
int host_free(void *ptr);

enum host_register_flags : u32 {
	host_reg_readonly = 1,
	host_reg_over_pinned = 2, /* memory inside a block of pinned memory too; until that is freed */
	host_reg_charged = 4,     /* for the program: counts against pin_limit */
};
/*
 * Pins the caller's memory [ptr, ptr+size), any alignment; dev as for host_alloc(); user: a tag for the API layer.
 * -EEXIST: overlaps registered or pinned memory.
 */
int host_register(void *ptr, u64 size, u32 flags, const device *dev = nullptr, u64 user = 0);
/* The tag of the registration that contains ptr; false: there is none. */
bool host_registration(const void *ptr, u64 *user);
/* Work of this process in rings or behind gates may access the pinned memory; may be true by mistake. */
bool host_in_use(const void *mem, u64 len);
/* -ENOENT: not the start of a registration. -EBUSY: a lost device may still write there; it stays registered. */
int host_unregister(void *ptr);

/* Pages of a memfd come from this node where it has some left; -1: from any.  -EINVAL: there is no such node. */
int file_on_node(int fd, u64 size, int node);

/* ---- device memory --------------------------------------------------------------------------------- */

enum class page_policy : u8 { huge_first, huge_only, normal_only, huge1g_only };
/* At least 512-byte aligned (2 MiB for huge pages). -ENOMEM: exhausted. */
int device_alloc(device *dev, u64 size, page_policy policy, u64 *out);
/* -EINVAL: not the start of such a block. Reused only after work submitted before has ended. */
int device_free(u64 addr);

struct heap_info {
	u64 total, free; /* bytes of the device's memory */
	u64 used_normal, used_huge;
	u64 blocks;
	u64 peak;
};
heap_info device_heap_info(device *dev);

/* Raw device memory for modules that map it themselves (VMM); offset: from the start of the memory. */
int device_carve(device *dev, u64 size, u64 align, u64 *offset);
void device_uncarve(device *dev, u64 offset, u64 size);

/* The device's memory; an engine without memory is provided host memory (space::host). */
struct memory_view {
	u64 size; /* exclusive limit of offsets */
	u64 base; /* device pointer to offset 0 */
	u64 dma;  /* DMA address of offset 0, in … */
	dma::space space;
	u8 *cpu; /* CPU mapping of offset 0; nullptr: none */
};
memory_view device_memory(device *dev);
/* CPU mapping of the word that was looked up, while its device (nullptr: host memory) is in use; nullptr: none. */
const u64 *word_view(const translation &p, const void *addr, device *dev);

/*
 * Translates another device's memory for dev's engine: changes p's dma, space and reach. -EXDEV: not
 * accessible, copies go through the host. The first call for a device maps it into that.
 */
int peer_translate(device *dev, translation *p);

/*
 * Locks: they wait for no lock of another module but the list of gated streams, which is held for short times only.
 * host_unregister() takes locks of hardware queues, and all but translate() may wait for a device: see internal.h.
 */

/* ---- for open.cpp -------------------------------------------------------------------------------- */

/* Maps all pinned and registered memory into a device just opened; on error nothing stays mapped. */
int memory_attach(device *dev);
/*
 * At close, with drained hardware queues: nothing is posted any more. A grace period later deferred frees, and
 * unregistrations that are not counted in hw_queue::calls, do not use its channels.
 */
void memory_end(device *dev);
/*
 * Before close, with drained hardware queues: its memory is not found any more, no other device accesses it, and, if so
 * configured, it is cleared for the next user.
 */
void memory_wipe(device *dev);
/* At close: unmaps all memory from it. */
void memory_detach(device *dev);
/* The detached device has quiesced: frees the memory retained for it. */
void memory_forget(device *dev);
/* Bytes of host memory that a detached device may still access. */
u64 memory_retained_by(const device *dev);
/* Before the program frees what is at ptr: reported if that is in use (USDMA_CHECK=race). */
void memory_check_free(const void *ptr);
/* The host stores to a word that streams write and wait for. */
void memory_check_reset(const u64 *word);
/* Completes deferred frees whose devices cannot access the memory any more. Cheap if there are none. */
void memory_reclaim();

/*
 * Internal memory for devices (staging buffers, time stamps) has a generation. After a device is lost, memory
 * of older generations that it could access is not reused: a dead server may have retained it.
 */
u32 host_generation(u32 host_reach); /* device::host_reach */
void host_generation_renew(u32 host_reach);

/* Atomic: how often work behind gates went to a ring or was dropped, plus 1. */
extern u64 gated_left;

/* Host memory of the program, and its address in devices. */
struct memory_use {
	const void *mem;
	dma::iova_range dma;
};

/* Functions of upper layers that this layer calls: lib/core/upcalls.cpp. */
struct memory_upcalls {
	/* Work behind gates is numbered: the latest number. Takes no lock. */
	u64 (*gated_last)();
	/* All of the device's work up to this number was posted or dropped. Takes no lock but the list's. */
	u64 (*gated_posted)(const device *dev);
	/* Waits until no work behind a gate uses the memory. False: timed out. Takes locks of hardware queues. */
	bool (*gated_await)(const memory_use &use, deadline until);
	/*
	 * *seq: the last request in the ring that may access the memory; 0: there is none. False: the queue's lock was
	 * not free in time. The caller waits for it, and has counted itself in the queue's calls.
	 */
	bool (*last_use)(hw_queue *l, const dma::iova_range &where, u64 *seq, deadline until);
	/* Zeroes device memory at a DMA address; synchronous. */
	int (*zero)(device *dev, u64 dma, u64 len);
	/* Checks the device. 0, or -errno if it is dead. */
	int (*alive)(device *dev);
};
extern const memory_upcalls memory_up;

} // namespace usdma::core
#pragma GCC visibility pop
