/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The areas that one client mapped for DMA: the model's IOMMU.
 *
 * One thread maps and unmaps; engines look up without a lock. An engine works in passes: what it found in a pass
 * stays valid until the pass ends, and an unmap returns only when each engine has left the pass that it was in.
 */
#pragma once

#include "driver/base/asym_barrier.h"
#include "driver/base/barrier.h"
#include "driver/base/mapping.h"
#include "driver/base/range_map.h"
#include "driver/base/unique_fd.h"
#include "driver/sim/file_map.h"
#include "driver/sim/interrupting.h"

#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace usdma::sim {

class backend_client;

/* DMA areas are multiples of this, whatever pages the client's OS has. */
inline constexpr u64 area_page = 4096;

/* An area as an engine looks it up. */
struct window {
	u64 base = 0;
	u64 size = 0;
	u8 *host = nullptr;                /* nullptr: accessible only by messages to the client */
	const file_piece *piece = nullptr; /* the mapped file; nullptr: none, and never dead */
	u32 prot = 0;                      /* vfio::dma_read, vfio::dma_write */
	u64 device = 0;                    /* its address for the device behind the model; 0: none */
};

/* An engine's state in the protocol above; odd: in a pass. In a cache line of its own. */
class alignas(64) dma_reader {
public:
	/* Fences are needed only where the kernel cannot issue barriers on other threads (membarrier(2)). */
	explicit dma_reader(bool fences) : fences_(fences) {}

	void enter() { step(1); }
	void leave() { step(1); }
	/* Ends a pass and begins the next. */
	void pass() { step(2); }

	u64 count() const { return load_acquire(&count_); }
	/* The engine's thread, which may be interrupted by a waiter for the end of the pass. */
	void belongs_to(pthread_t thread)
	{
		thread_ = thread;
		store_release(&runs_, true);
	}
	void thread_stopped() { store_release(&runs_, false); }
	void interrupt() const
	{
		if (load_acquire(&runs_))
			interrupt_thread(thread_);
	}

private:
	void step(u64 n)
	{
		/*
		 * Release: orders the pass's accesses before its end. The next pass must read the generation after
		 * that; without membarrier(2) the fence ensures it.
		 */
		if (unlikely(fences_))
			store_fence(&count_, count_ + n);
		else
			store_release(&count_, count_ + n);
	}

	u64 count_ = 0;
	bool fences_;
	bool runs_ = false; /* this and thread_: mapping thread only */
	pthread_t thread_ = {};
};

/* Limits of one client. */
struct dma_bounds {
	u32 areas = 4194304;          /* 8 GiB in pages of 4 KiB, twice */
	u64 book_keeping = 512 * MiB; /* memory of this process for the tables of areas */
	u64 file_bytes = u64(1) << 40;
	file_bounds files;
	backend_client *device = nullptr; /* memory with a file is mapped for it, too */
};

class dma_space {
public:
	explicit dma_space(const dma_bounds &most);
	~dma_space();
	dma_space(const dma_space &) = delete;
	dma_space &operator=(const dma_space &) = delete;

	/*
	 * fd -1: memory registered by share(), else memory that only messages reach. -EINVAL, -EEXIST, -ENOSPC,
	 * -ENOMEM, …
	 */
	int map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 fd_offset);
	/*
	 * Removes all areas in the range. -ENOENT: there is none; -EINVAL: one would be split, nothing has changed;
	 * -ETIMEDOUT: an engine, or the device behind the model, does not release an area (all are removed, but their
	 * memory is retained).
	 */
	int unmap(u64 iova, u64 size);
	int unmap_all();
	/* When no engine uses it any more: -errno: the device behind the model may still access some of it. */
	int release_retained();
	u32 count() const { return u32(map_.count()); }

	/* Same process: registers the memory of a later DMA_MAP of this area. Any thread. */
	int share(u64 iova, void *vaddr, u64 size);

	/* Before any engine runs. */
	static bool needs_fences() { return !asym_barrier_ready(); }
	int add_reader(const dma_reader *r);
	/* Mapping thread only. True once every pass that was in flight has ended. */
	bool quiesce();

	/* Engines, in a pass. The generation changes before an unmap waits. */
	bool find(u64 addr, window *out) const;
	u64 generation() const { return map_.generation() + load_acquire(&bus_deaths); }

private:
	struct area : range_entry {
		u8 *host = nullptr;
		file_piece *piece = nullptr;
		area *next = nullptr; /* in the free list, or in one of removed areas */
		u32 prot = 0;
		u64 device = 0; /* as in a window */
	};

	int check_space() const;
	int check_share(u64 size) const;
	int fill(area *a, unique_fd fd, u64 fd_offset);
	bool take_shared(u64 iova, u64 size, u8 **out);
	area *new_area();
	void put_area(area *a);
	void retain(area *a);
	int check_whole(u64 first, u64 last) const;
	int remove_areas(u64 first, u64 last);
	int map_for_device(area *a, u64 fd_offset);
	int release_now(area *a);

	dma_bounds most_;
	file_map files_;
	u64 file_bytes_ = 0;
	u32 fence_ = 0;
	range_map map_;
	std::deque<area> slab_; /* never shrinks: a late reader may access a removed entry */
	area *free_ = nullptr, *retained_ = nullptr;
	std::vector<const dma_reader *> readers_;
	std::mutex shared_lock_;
	std::map<u64, std::pair<u8 *, u64>> shared_;
};

} // namespace usdma::sim
