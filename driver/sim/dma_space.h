/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one client mapped for the device: the model's IOMMU.
 *
 * One thread maps and unmaps; engines look up without a lock.  An engine works in
 * passes: what it found in a pass stays there until the pass ends, and an unmap
 * returns only when each engine has ended the pass that it was in (or is away).
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

/* A piece of the address space as an engine sees it. */
struct window {
	u64 base = 0;
	u64 size = 0;
	u8 *host = nullptr;                /* nullptr: reached by messages to the client only */
	const file_piece *piece = nullptr; /* of whose file this is; nullptr: of none, and it cannot die */
	u32 prot = 0;                      /* vfio::dma_read, vfio::dma_write */
};

/* An engine's place in the protocol above; even: away, odd: in a pass.  A line of its own. */
class alignas(64) dma_reader {
public:
	/* Fences are needed only where the kernel cannot make other threads' barriers for us. */
	explicit dma_reader(bool fences) : fences_(fences) {}

	void enter() { step(1); }
	void leave() { step(1); }
	/* Ends a pass and begins the next. */
	void pass() { step(2); }

	u64 count() const { return load_acquire(&count_); }
	/* Whose place it is: who waits for the end of its pass may interrupt it. */
	void belongs_to(pthread_t thread)
	{
		thread_ = thread;
		store_release(&runs_, true);
	}
	void thread_ends() { store_release(&runs_, false); }
	void interrupt() const
	{
		if (load_acquire(&runs_))
			interrupt_thread(thread_);
	}

private:
	void step(u64 n)
	{
		/*
		 * Release: the pass's accesses come before its end.  The next pass's look
		 * at the generation comes after; without membarrier(2) the fence says so.
		 */
		if (unlikely(fences_))
			store_fence(&count_, count_ + n);
		else
			store_release(&count_, count_ + n);
	}

	u64 count_ = 0;
	bool fences_;
	bool runs_ = false; /* both the mapping thread's own */
	pthread_t thread_ = {};
};

/* What one client may have mapped at a time. */
struct dma_bounds {
	u32 areas = 4194304;          /* 8 GiB in pages of 4 KiB, twice */
	u64 book_keeping = 512 * MiB; /* of this process's memory, for all that is known of areas */
	u64 file_bytes = u64(1) << 40;
	file_bounds files;
};

class dma_space {
public:
	explicit dma_space(const dma_bounds &most);
	~dma_space();
	dma_space(const dma_space &) = delete;
	dma_space &operator=(const dma_space &) = delete;

	/*
	 * fd -1: memory that share() told of, else memory that only messages reach. -EINVAL, -EEXIST, -ENOSPC,
	 * -ENOMEM, …
	 */
	int map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 fd_offset);
	/*
	 * All areas within; -ENOENT: there is none; -EINVAL: one would be cut, and nothing has changed.  -ETIMEDOUT: a
	 * engine does not release it (the areas are gone from the map, their memory stays).
	 */
	int unmap(u64 iova, u64 size);
	/* Whatever is there. */
	int unmap_all();
	u32 count() const { return u32(map_.count()); }

	/* Same process: the memory behind an area that a DMA_MAP will name.  Any thread. */
	int share(u64 iova, void *vaddr, u64 size);

	/* Before any engine runs. */
	static bool needs_fences() { return !asym_barrier_ready(); }
	int add_reader(const dma_reader *r);
	/* The mapping thread.  True once every pass that was in flight has ended. */
	bool quiesce();

	/* Units, in a pass.  The generation changes before an unmap waits. */
	bool find(u64 addr, window *out) const;
	u64 generation() const { return map_.generation() + load_acquire(&bus_deaths); }

private:
	struct area : range_entry {
		u8 *host = nullptr;
		file_piece *piece = nullptr;
		area *next = nullptr; /* free, or on its way there */
		u32 prot = 0;
	};

	int check_room() const;
	int check_share(u64 size) const;
	int fill(area *a, unique_fd fd, u64 fd_offset);
	bool take_shared(u64 iova, u64 size, u8 **out);
	area *new_area();
	void put_area(area *a);
	int check_cuts(u64 first, u64 last) const;
	int take_out(u64 first, u64 last);
	void release_now(area *a);

	dma_bounds most_;
	file_map files_;
	u64 file_bytes_ = 0;
	u32 fence_ = 0;
	range_map map_;
	std::deque<area> slab_; /* never shrinks: a late reader may look at a removed entry */
	area *free_ = nullptr;
	std::vector<const dma_reader *> readers_;
	std::mutex shared_lock_;
	std::map<u64, std::pair<u8 *, u64>> shared_;
};

} // namespace usdma::sim
