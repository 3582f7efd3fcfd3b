/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files behind memory.h share.  Everything in the room is under its one lock. */
#pragma once

#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "lib/core/device/device.h"
#include "lib/core/memory/heap.h"
#include "lib/core/memory/memory.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace usdma::core {

inline constexpr u64 page_normal = 4 * KiB, page_huge = 2 * MiB, page_1g = GiB;

/* IOVAs: above what engines use for rings of their own; the open devices' limits leave less (iovas_make()). */
inline constexpr u64 iova_first = 4 * GiB, iova_end = u64(1) << 56;

/* Host memory of ours: a file, mapped and faulted in. */
struct backing {
	mapping mem;
	unique_fd fd;
	u64 page = page_normal;
};

/* Host memory that devices reach at one IOVA, the same in all of them that reach it. */
struct span {
	u64 iova = 0;
	u64 size = 0;
	u64 skip = 0, used = 0; /* of it what devices shall reach, where that can be checked; used 0: all */
	u8 *vaddr = nullptr;
	u32 reach = 0;         /* whose engines: it is mapped into no other device */
	bool readonly = false; /* devices may not write it */
	int fd = -1;
	u64 fd_offset = 0;
	bool optional = false;    /* a peer's memory: a device that cannot map it does without */
	u32 mapped = 0;           /* bit i: in the device of slot i */
	u32 given = 0;            /* bit i: its file was sent to the server of slot i, which may keep it … */
	bool spent = false;       /* … and is gone: nothing new comes here */
	u64 retired = 0;          /* by device::retired_bit: in one that is closed and may still write */
	bool dead = false;        /* shall go; a device may still reach it, or name its IOVA */
	bool is_deferred = false; /* dead, and an item of the deferred frees ends it: requests may name its IOVA */
	device *of = nullptr;     /* optional: whose memory */
	std::unique_ptr<backing> store; /* null: the caller's own memory */
};

/* What is to become a span. */
struct span_spec {
	u8 *vaddr;
	u64 size;
	u32 reach;
	bool readonly = false;
};

/* A span that pinned blocks are cut from. */
struct arena {
	heap blocks;
	span *where = nullptr;
	int node = -1;
	bool single = false; /* made for one large block */
};

/* The device's addresses, for as long as this lives. */
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
	slot_window at; /* device pointers to it */
	u64 size = 0;
	u64 dma = 0; /* what requests name offset 0 by */
	dma::space space = dma::space::device;
	u8 *cpu = nullptr;
	span *pool = nullptr; /* memory lent to an engine that has none */
	span *peer = nullptr; /* this memory as the other devices reach it; null: nobody asked yet */
	/* As the user sees it: what waits among the deferred frees counts as free. */
	u64 normal = 0, huge = 0, count = 0, peak = 0;
	u64 granted = 0; /* bytes in blocks that the control group was found to allow */
	/*
	 * By granules of memory that may hold another user's data, 1: it does not; null: none may.  Written
	 * under clean_lock.
	 */
	std::unique_ptr<u8[]> clean;
	std::mutex clean_lock;
};

/*
 * Work that was in flight when something was freed: passed when the hardware queue's channel has completed seq, or when
 * the device is known to write nothing any more.
 */
struct mark {
	device *dev;  /* with its hardware queues: there only while its attach is this one */
	hw_queue *ln; /* null: any work of a device that was lost */
	u64 seq;
	u64 attach;
};

/* Freed, but a device may still touch it. */
struct deferred_free {
	enum { nothing, device_block, arena_block, whole_span, iova } what;
	device *dev = nullptr;
	arena *from = nullptr;
	span *sp = nullptr;
	u64 offset = 0;
	/* First the queues of the time of freeing run dry; then what is in the rings must end. */
	bool queued = true;
	u64 epoch = 0;
	u64 serial = 0;
	std::vector<mark> marks;
};

struct memory_state {
	std::mutex lock;
	device *attached[max_devices] = {};
	u64 last_attach = 0;
	device *retired = nullptr;  /* detached, and may still write; by device::next_retired */
	u64 retired_bits = 0;       /* in use */
	bool spans_pending = false; /* a span that was removed is kept for a lost device … */
	u64 retry_ns = 0;           /* … and this is when to look at all of them again */
	heap iovas;
	bool iovas_ready = false;
	std::map<u64, span> spans; /* by IOVA */
	std::map<arena *, std::unique_ptr<arena>> arenas;
	std::vector<deferred_free> deferred;
	size_t expected = 0; /* blocks that are or may come among the deferred frees: it has room for them all, so that
				freeing needs no memory */
	std::atomic<size_t> deferred_count{0};
	u64 last_serial = 0;              /* of what came into the deferred frees */
	std::atomic<u64> queued_until{0}; /* up to this serial number, queued work has gone into rings */
};

memory_state &mem_state();

/* memory_region.cpp */
region *region_at(u64 base); /* the region that starts here */

/* memory_span.cpp; all under room().lock */
/* Gives the memory an IOVA and maps it into every attached device that shall reach it; on error it is in none. */
int span_add(const span_spec &what, std::unique_ptr<backing> &store, span **out);
/* The same for the pages around memory of the caller's. */
int span_add_around(const span_spec &what, span **out);
/* A device that shall reach it is there, or may come: of an isolated one's memory, it itself. */
bool span_is_reached(const span *sp);
/*
 * Unmaps it everywhere, then frees the store.  -errno: a device may still reach it, and it is kept until that one is
 * proven quiet.
 */
int span_remove(span *sp);
/* Takes it away from this device, or all. 0, or why one may still reach it. */
int span_unmap(span *sp, device *dev);
int span_unmap_all(span *sp);
/* It stays after all: back into the devices that work. */
void span_restore(span *sp);
/* A device that was lost may still write there. */
bool span_is_suspect(const span *sp);
/* A server that is gone may have kept its file: nobody can take that back. */
bool span_is_spent(span *sp);
/* Nothing maps it any more: its IOVA and its store go. */
void span_erase(span *sp);
/* Frees what was removed, and kept for devices that are proven quiet by now. */
void spans_quiesce();
/* As span_add, for memory of a device that others may reach: file and offset as the engine gives them. */
int span_add_peer(device *of, u8 *vaddr, u64 size, int fd, u64 fd_offset, span **out);
int spans_attach(device *dev);
/* False: it may still reach some of them, which dev->retired_bit says now. */
bool spans_detach(device *dev);

/* memory_backing.cpp: takes no lock */
/* node: -1 any. size is a multiple of the page that it gets. */
int backing_make(u64 size, int node, std::unique_ptr<backing> *out);
int node_check(int node);
/* The same for the setting numa_node, which the text names. */
int setting_node_check();
/* The node for memory of a device: what the caller named, the setting, the device's, the first device's; -1: any. */
int node_for(int wish, int setting, const device *dev);

/* memory_host.cpp, memory_device.cpp; under room().lock */
void arena_put_block(arena *a, u64 offset);
/* Closes the empty ones; else of those what a server that is gone may have kept, or no device is there to reach. */
void arenas_trim(bool all);
void device_put_block(device *dev, u64 offset);
int heap_attach(device *dev);
void heap_detach(device *dev, bool clear);

/* memory_clean.cpp; without room().lock */
int heap_follow(const device *dev, device_heap *h);
/* Before a block is handed out: nothing of another user's is in it. */
int device_clean(device *dev, u64 offset, u64 size);

/* memory_reclaim.cpp; the first four under room().lock, the others not */
int deferred_expect();         /* for each block made, or pool: room for it among the deferred frees */
void deferred_forgo(size_t n); /* they do not come */
void deferred_add(deferred_free item, bool clear); /* gives it back at once, or later */
void deferred_run();
/* Before something is freed: how far the streams' queues are. True: what this thread submitted is in rings. */
bool deferred_ask();
/* Waits until what is in flight now has ended, a second at most.  False: it has not. */
bool deferred_drain();

inline bool reaches(const device *dev, const span *sp)
{
	return dev->reaches & sp->reach;
}

/* The bit of host memory that is made for it; for no device, or one that is not isolated: everybody's. */
inline u32 lends_for(const device *dev)
{
	return dev ? dev->lends : reach_common;
}

inline device_heap *heap_of(const device *dev)
{
	return static_cast<device_heap *>(dev->heap);
}

} // namespace usdma::core
