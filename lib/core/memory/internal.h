/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the implementation files of memory.h. One lock (memory_state::lock) protects all state but the
 * registry of regions, which has its own. Messages to devices are sent without it: their server may answer late.
 *
 * Regions. A region is a range of addresses with one answer to "what is here": its class (host or device
 * memory), its DMA address (address + delta), the devices that reach it. Blocks of device memory, blocks of
 * pinned memory, registrations, and mappings of virtual or imported memory are regions; everything else is
 * pageable. The registry (region.cpp) is a range_map, which readers search without a lock.
 *
 * Translation. translate() searches the four cache entries of the thread, then the registry. Each change
 * of the registry raises its generation, which makes all threads' entries invalid.
 *
 * Pinning. Devices reach host memory by a dma_range (dma_range.cpp): one IOVA, the same in every device, mapped
 * into each attached device in its reach, where VFIO pins the pages. Pinned memory is allocated from arenas
 * (host.cpp), each a memfd (backing.cpp) in one dma_range; a registration (register.cpp) has a dma_range around
 * the caller's pages. Device memory (device.cpp) is a heap of offsets; its pointers lie in a reserved window of
 * addresses (window.cpp), and a dma_range maps it into other devices at the first copy between them.
 *
 * Deferred frees. A free removes the region at once, so no new copy finds the memory; but requests in a ring,
 * or work behind a gate, may still use it. So reclaim.cpp puts it into a list, where it stays until that work has
 * ended. Until then, the block, the range or the IOVA is not used again. Synchronisations, allocations and frees run
 * the lists. A device that was lost may write at any later time: what it reaches is retained until it has quiesced
 * (retire.h).
 */
#pragma once

#include "driver/base/huge_pages.h"
#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "lib/core/base/section.h"
#include "lib/core/config/race.h"
#include "lib/core/device/device.h"
#include "lib/core/memory/heap.h"
#include "lib/core/memory/memory.h"

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace usdma::core {

/* Beside device_page and page_huge, and the OS's pages of host memory. */
inline constexpr u64 page_1g = GiB;

/* IOVAs: above those of the engines' rings; further limited by the open devices (iovas_make()). */
inline constexpr u64 iova_first = 4 * GiB, iova_end = u64(1) << 56;

/* Host memory allocated by the library: a file, mapped and faulted in. */
struct backing {
	mapping mem;
	unique_fd fd;
	u64 page = 0;

	bool is_huge() const { return page > os_page_size(); }
};

/* Arguments for a new range. */
struct range_spec {
	u8 *vaddr = nullptr;
	u64 size = 0;
	u32 reach = 0;          /* devices that can access it: mapped into no others */
	bool readonly = false;  /* devices must not write it */
	u64 skip = 0, used = 0; /* part that devices may access, where that can be checked; used 0: all */
	int fd = -1;
	u64 fd_offset = 0;
	device *of = nullptr; /* of a peer's memory: its owner */
};

/* Host memory at one IOVA, the same in all devices that can access it. */
struct dma_range : range_spec {
	u64 iova = 0;
	bool optional = false;  /* a peer's memory: a failure to map it is not an error */
	u32 mapped = 0;         /* bit i: in the device of slot i; atomic, as are the next two */
	u32 refused = 0;        /* bit i: the device of slot i cannot map it (optional) */
	u32 given = 0;          /* bit i: its file was sent to the server of slot i, which may retain it … */
	bool tainted = false;   /* … and such a server is dead: no new allocations here */
	u64 mapped_by_lost = 0; /* device::lost_bit of closed devices that may still write it */
	bool dead = false;      /* removed; a device may still access it or use its IOVA */
	bool removing = false;  /* dead, and in memory_state::removed */
	dma_range *next_removed = nullptr;
	u32 users = 0;            /* it is being mapped or unmapped, without the lock */
	bool is_deferred = false; /* dead, and freed by an item of the deferred frees: requests may use its IOVA */
	std::unique_ptr<backing> store; /* null: registered memory of the caller */
};

/* A range from which pinned blocks are allocated. */
struct arena {
	heap blocks;
	dma_range *where = nullptr;
	int node = -1;
	bool single = false; /* holds one large block */
};

/* Owns a device's address window. */
struct slot_window {
	u64 base = 0;

	slot_window() = default;
	slot_window(const slot_window &) = delete;
	~slot_window()
	{
		if (base)
			window_give(base);
	}
};

struct device_heap {
	heap blocks;
	slot_window at; /* window of its device pointers */
	u64 size = 0;
	u64 dma = 0; /* DMA address of offset 0 */
	dma::space space = dma::space::device;
	u8 *cpu = nullptr;
	dma_range *pool = nullptr; /* host memory provided to an engine without memory */
	dma_range *peer = nullptr; /* mapping for other devices; null: not yet requested */
	bool ended = false;        /* the device is being closed: no other one maps it */
	/* As shown to the user: deferred frees count as free. */
	u64 normal = 0, huge = 0, count = 0, peak = 0;
	u64 held = 0;    /* bytes of freed blocks that other processes map */
	u64 granted = 0; /* bytes of blocks that the control group was found to allow */
	u64 in_vain = 0; /* a full heap waited for this deferred free as long as is allowed */
	/* One byte per granule, 1: holds no data of another user; null: not tracked. Written under clean_lock. */
	std::unique_ptr<u8[]> clean;
	std::mutex clean_lock;
	/* One bit per 64 KiB: its pages were faulted in; null: not tracked. Atomic, as is the next. */
	std::unique_ptr<u64[]> touched;
	u64 touched_blocks = 0; /* bytes of blocks faulted in at allocation */
};

/* A registration of memory inside a pinned block. */
struct pinned_registration {
	u64 size;
	u64 user;
};

/* Freed, but a device may still access it. */
struct deferred_free {
	enum { device_block, arena_block, whole_range, iova } what;
	device *dev = nullptr;
	arena *from = nullptr;
	dma_range *sp = nullptr;
	u64 offset = 0;
	u64 serial = 0;
	deferred_free *next = nullptr;
};

struct deferred_list {
	deferred_free *first = nullptr, *last = nullptr;

	void add(deferred_free *item);
	deferred_free *take(); /* the first one: there is one */
};

/* A block of device memory that was exported. */
struct exported_block {
	device *dev = nullptr;
	std::list<u32 *> closed; /* words of its exports */
	bool freed = false;      /* and not reused, as it is imported */
};

using export_map = std::map<std::pair<const device *, u64>, exported_block>;

struct memory_state {
	std::mutex lock;
	std::mutex messages[max_devices]; /* one message to a device at a time; taken before lock */
	device *attached[max_devices] = {};
	dma_range *removed = nullptr; /* for ranges_unmap_removed(); atomic */
	u64 lost_bits = 0;            /* lost bits in use */
	bool ranges_pending = false;  /* a removed range is retained for a lost device … */
	u64 retry_ns = 0;             /* … and this is when to check all of them again */
	heap iovas;
	bool iovas_ready = false;
	std::map<u64, dma_range> ranges; /* by IOVA */
	std::map<arena *, std::unique_ptr<arena>> arenas;
	std::map<u64, pinned_registration> over_pinned; /* by address */
	export_map exports;                             /* by device and offset */
	size_t exports_held = 0;                        /* of them freed */
	u32 exports_ended = 0;                          /* some were closed since exports_report(); atomic */
	u64 reap_ns = 0;                                /* when to check those again */
	/* By what may access them: the device of a slot, or [max_devices] all that are not isolated. */
	deferred_list deferred[max_devices + 1];
	deferred_list held;              /* passed, but the CPU accesses it (hold.h) */
	deferred_list retained;          /* passed, but a lost device that is closed may still write there */
	deferred_list spare;             /* one for each block that may be freed, so that freeing needs no memory */
	size_t deferred_count = 0;       /* in deferred; atomic */
	u64 last_serial = 0;             /* of the latest deferred free */
	u64 graced = 0, grace_until = 0; /* the grace period of frees up to this has ended, or has begun */
	/* For is_blocked(); atomic: all lists wait for this number in this ring, or for gated_left to change. */
	hw_queue *blocked_by = nullptr;
	u64 blocked_until = 0, blocked_gate = 0;
	/* … and the first of `held` for this one to change. */
	const held_range *held_by = nullptr;
	u64 held_end = 0;
};

memory_state &mem_state();

/* region.cpp */
region *region_at(u64 base); /* the region that starts here */
/* Until it is shown or removed it is not found, but its addresses are not free. */
void region_hide(region *r);
void region_show(region *r, mem_class cls);
inline bool region_is_hidden(const region *r)
{
	return r->cls == mem_class::unregistered;
}

/* host.cpp */
int pin_charge(u64 size, u32 *flags);
void pin_discharge(u64 size, u32 flags);

/* register_pinned.cpp; all under mem_state().lock */
int pinned_register(u64 base, u64 size, u64 user); /* -EEXIST: overlaps another */
bool pinned_unregister(u64 base);                  /* false: none starts here */
void pinned_unregister_block(u64 base, u64 size);  /* all in a block that is freed */
const pinned_registration *pinned_registered(u64 addr);

/*
 * dma_range.cpp. Those that send messages to devices, which may take until a server's reply, are called without
 * mem_state().lock, and take memory_state::messages of one device at a time.
 */
/* Assigns an IOVA and maps the memory into every attached device in reach; on error it is mapped nowhere. */
int range_add(const range_spec &what, std::unique_ptr<backing> *store, dma_range **out);
/* As range_add() for the pages around the caller's memory. */
int range_add_around(const range_spec &what, dma_range **out);
/* Undoes range_add(). */
void range_drop(dma_range *sp);
/* Unmaps it from all devices. -errno: a device may still access it. */
int range_unmap_all(dma_range *sp);
/* Unmaps it from those that were lost. */
void range_unmap_lost(dma_range *sp);
/* Undoes range_unmap_all(): maps it into the working devices again. */
void range_restore(dma_range *sp);
/* Maps a peer's memory, if the device can. */
void range_map_peer(dma_range *sp, const device *dev);
/* Unmaps removed ranges, then frees them. local: only those that no other process must unmap. */
void ranges_unmap_removed(bool local = false);
int ranges_attach(device *dev);
/* False: it may still access some ranges; dev->lost_bit marks those. */
bool ranges_detach(device *dev);

/* dma_range.cpp; under mem_state().lock */
/* True: a device in its reach is attached, or may be later: false for memory of an isolated device that is closed. */
bool range_is_reached(const dma_range *sp);
/* The next ranges_unmap_removed() unmaps and frees it; what a device may still access is retained until that has
 * quiesced. */
void range_remove(dma_range *sp);
/* A lost device may still write there. */
bool range_may_be_written(const dma_range *sp);
/* A dead server may have retained its file, which cannot be revoked. */
bool range_is_tainted(dma_range *sp);
/* Frees IOVA and store of a dead range that no device accesses. */
void range_erase_if_over(dma_range *sp);
/* The caller had incremented dma_range::users. */
void range_leave(dma_range *sp);
/* Frees removed ranges whose devices have quiesced. */
void ranges_quiesce();
/* Waits while another thread, which closes its peer, unmaps the memory of this device. */
void ranges_await(const device *of, deadline until);
/* Device memory for peers, not yet mapped; file and offset as reported by the engine. */
int range_make_peer(device *of, u8 *vaddr, u64 size, int fd, u64 fd_offset, dma_range **out);

/* backing.cpp: takes no lock */
/* node: -1: any. size: a multiple of the page size used. */
int backing_make(u64 size, int node, std::unique_ptr<backing> *out);
int node_check(int node);
/* As node_check() for the setting numa_node, named in the error text. */
int setting_node_check();
/* Node for memory of a device, in order: requested, setting, the device's, the first device's; -1: any. */
int node_for(int requested, int setting, const device *dev);

/* host.cpp, device.cpp; under mem_state().lock */
void arena_put_block(arena *a, u64 offset);
/* Closes empty arenas: all, or only the tainted ones and those that no device can access. */
void arenas_trim(bool all);
void device_put_block(device *dev, u64 offset);
/* Counts a freed block as used, or no longer so, as other processes map it. */
void device_count_held(device *dev, u64 offset, bool held);
void heap_detach(device *dev);

/* device.cpp; without it */
int heap_attach(device *dev);
/* Its blocks are not found any more, and no other device accesses it. */
void heap_unshare(device *dev);

/* exports.cpp; under mem_state().lock */
/* The block is freed by the caller: no new imports. */
void exports_close(const device *dev, u64 block);
/* After frees, without a lock: calls what was given to exports_set_ended() if the memory of exports was freed. */
void exports_report();
/* Before the block is reused. True: it is imported; freed by a later exports_reap(). */
bool exports_hold(device *dev, u64 block);
/* Frees blocks that are not imported any more; now: even if it checked them a moment ago. */
void exports_reap(bool now);
/* The device is detached. */
void exports_forget(const device *dev);

/* clean.cpp; without mem_state().lock */
int heap_track_clean(const device *dev, device_heap *h);
/* Clears another user's data from a block before it is allocated. */
int device_clean(device *dev, u64 offset, u64 size);

/* reclaim.cpp; under mem_state().lock */
int deferred_reserve();                       /* reserves a deferred free for a new block or pool */
void deferred_unreserve(size_t n);            /* returns n such reservations */
void deferred_add(const deferred_free &what); /* frees it at once, or later; its region was removed */
void deferred_run();
/* The number of the first deferred free that may release memory of the device; ~0: none. */
u64 deferred_first(const device *dev);

/* uses.cpp; without it */
/* Waits until no device has work that uses the memory. False: timed out. */
bool uses_await(const memory_use &use, u32 reach, deadline until);

inline bool reaches(const device *dev, const dma_range *sp)
{
	return dev->reaches & sp->reach;
}

/* Reach of host memory allocated for dev: its own bit if isolated, else reach_common. */
inline u32 host_reach_of(const device *dev)
{
	return dev ? dev->host_reach : reach_common;
}

inline device_heap *heap_of(const device *dev)
{
	return static_cast<device_heap *>(dev->heap);
}

} // namespace usdma::core
