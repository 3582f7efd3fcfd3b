/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/dma_space.h"

#include "driver/base/asym_barrier.h"
#include "driver/base/clock.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/vfio/device.h"

#include <cinttypes>
#include <sched.h>
#include <sys/stat.h>

namespace usdma::sim {

static constexpr u64 page = 4096;
static constexpr u64 max_iova = u64(1) << 57;
static constexpr u64 let_go_ms = 4000;
static constexpr u64 interrupt_ns = 20 * ns_per_ms;
/* Up to here memory is brought in when it is mapped, as a real IOMMU driver pins it. */
static constexpr u64 populate_max = 256 * MiB;
/* … and no more than this for one client: files may be larger than what their owner has put into them. */
static constexpr u64 populate_total = 8 * GiB;

dma_space::dma_space(const dma_bounds &most) : most_(most) {}

dma_space::~dma_space()
{
	/* Units have ended; what is left needs no waiting. */
	for (auto &[iova, a] : by_iova_)
		map_.remove(a);
}

int dma_space::share(u64 iova, void *vaddr, u64 size)
{
	std::lock_guard guard(shared_lock_);
	auto *at = try_emplace(shared_, iova);

	if (!at)
		return no_memory("the list of shared memory");
	*at = {static_cast<u8 *>(vaddr), size};
	return 0;
}

int dma_space::add_reader(const dma_reader *r)
{
	return try_push(readers_, r) ? 0 : no_memory("the list of units");
}

bool dma_space::take_shared(u64 iova, u64 size, u8 **out)
{
	std::lock_guard guard(shared_lock_);
	const auto it = shared_.find(iova);

	if (it == shared_.end())
		return false;
	const auto [vaddr, len] = it->second;
	shared_.erase(it);
	*out = vaddr;
	return len == size;
}

static int check_file(int fd, u64 offset, u64 size)
{
	struct stat st;

	if (fstat(fd, &st))
		return fail_errno("sim: DMA_MAP: the descriptor");
	/* Memory, or a file: mapping a device is an act, and may reach what is not the client's to give. */
	if (!S_ISREG(st.st_mode))
		return fail(EINVAL, "sim: DMA_MAP: the descriptor is neither memory nor a file");
	if (!range_within(offset, size, u64(st.st_size)))
		return fail(EINVAL, "sim: DMA_MAP: the file has %" PRIu64 " bytes and the area ends at %" PRIu64,
			    u64(st.st_size), offset + size);
	return 0;
}

static int map_file(int fd, u64 offset, u64 size, u32 prot, bool populate, mapping *out)
{
	const int rights = prot & vfio::dma_write ? PROT_READ | PROT_WRITE : PROT_READ;
	const int err = check_file(fd, offset, size);

	if (err)
		return err;
	void *p = mmap(nullptr, size, rights, MAP_SHARED, fd, off_t(offset));
	if (p == MAP_FAILED)
		return fail_errno("sim: DMA_MAP: cannot map %" PRIu64 " bytes of the client's file", size);
	*out = mapping(p, size);
	madvise(p, size, MADV_DONTFORK);
#ifndef MADV_POPULATE_WRITE
	(void)populate;
#else
	if (populate)
		madvise(p, size, rights & PROT_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
#endif
	return 0;
}

int dma_space::fill(area *a, unique_fd fd, u64 fd_offset)
{
	a->host = nullptr;
	if (take_shared(a->base, a->size, &a->host) || !fd.valid())
		return 0;
	int err = check_room(a->size, true);

	if (!err)
		err = map_file(fd.get(), fd_offset, a->size, a->prot,
			       a->size <= populate_max && file_bytes_ + a->size <= populate_total, &a->own);
	if (err)
		return err;
	a->host = a->own.data();
	files_++;
	file_bytes_ += a->size;
	return 0;
}

/* Gives the client's file back, if there is one. */
void dma_space::let_go(area *a)
{
	if (!a->own.size())
		return;
	files_--;
	file_bytes_ -= a->own.size();
	a->own = mapping();
}

int dma_space::check_room(u64 size, bool file) const
{
	if (by_iova_.size() >= most_.areas)
		return fail(ENOSPC, "sim: DMA_MAP: there are %u areas, which is all that this device takes", most_.areas);
	if (file && files_ >= most_.files)
		return fail(ENOSPC, "sim: DMA_MAP: %u files are mapped, which is all that this device takes: map larger pieces",
			    most_.files);
	if (file && (size > most_.file_bytes || file_bytes_ > most_.file_bytes - size))
		return fail(ENOSPC, "sim: DMA_MAP: %" PRIu64 " bytes beside the %" PRIu64 " that are mapped: more than the %" PRIu64
			    " that this device takes (setting \"share\")", size, file_bytes_, most_.file_bytes);
	return 0;
}

dma_space::area *dma_space::new_area()
{
	if (!free_)
		return try_push(slab_) ? &slab_.back() : nullptr;
	area *a = free_;

	free_ = a->next;
	return a;
}

void dma_space::put_area(area *a)
{
	a->next = free_;
	free_ = a;
}

int dma_space::map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 fd_offset)
{
	if (!size || iova % page || size % page || fd_offset % page || !range_within(iova, size, max_iova) ||
	    fd_offset + size < size)
		return fail(EINVAL, "sim: DMA_MAP: 0x%" PRIx64 " and 0x%" PRIx64 " bytes are not whole pages of an address",
			    iova, size);
	if (const int err = check_room(size, false))
		return err;
	area *a = new_area();
	if (!a)
		return no_memory("a mapped area");
	area **const listed = try_emplace(by_iova_, iova, a);
	if (!listed || *listed != a) {
		put_area(a);
		return listed ? fail(EEXIST, "sim: DMA_MAP: 0x%" PRIx64 " overlaps an area", iova) : no_memory("a mapped area");
	}
	a->base = iova;
	a->size = size;
	a->prot = prot;
	int err = fill(a, std::move(fd), fd_offset);
	if (!err) {
		err = map_.insert(a);
		if (err)
			err = fail(-err, "sim: DMA_MAP: 0x%" PRIx64 " overlaps an area or cannot be kept", iova);
	}
	if (err) {
		let_go(a);
		put_area(a);
		by_iova_.erase(iova);
		return err;
	}
	return 0;
}

/* A unit that stands in a write to the client's eventfd is interrupted, until its pass ends. */
static bool wait_pass(const dma_reader &r, deadline until)
{
	const u64 seen = r.count();
	u64 interrupt_at = now_ns() + interrupt_ns;

	for (unsigned spins = 0; (seen & 1) && r.count() == seen; spins++) {
		if (spins < 1000) {
			cpu_relax();
			continue;
		}
		if (until.passed())
			return false;
		if (now_ns() >= interrupt_at) {
			r.interrupt();
			interrupt_at = now_ns() + interrupt_ns;
		}
		sched_yield();
	}
	return true;
}

bool dma_space::quiesce()
{
	const deadline until = deadline::in_ms(let_go_ms);

	/*
	 * The removal before the look at the units: either a unit's next pass sees
	 * the removal, or we see the unit in its pass.
	 */
	if (asym_barrier_ready() && !barrier_for_all())
		return false;
	store_fence(&fence_, 0u);
	for (const dma_reader *r : readers_)
		if (!wait_pass(*r, until))
			return false;
	return true;
}

int dma_space::drop(area *a)
{
	map_.remove(a);
	if (!quiesce()) {
		/* Neither unmapped nor used again: better lose it than pull it from under a copy. */
		new (std::nothrow) mapping(std::move(a->own));
		return fail(ETIMEDOUT, "sim: DMA_UNMAP: a unit has used 0x%" PRIx64 " for over %" PRIu64 " ms", a->base,
			    let_go_ms);
	}
	let_go(a);
	put_area(a);
	return 0;
}

int dma_space::unmap(u64 iova, u64 size)
{
	const auto it = by_iova_.find(iova);

	if (it == by_iova_.end() || it->second->size != size)
		return fail(ENOENT, "sim: DMA_UNMAP: nothing is mapped from 0x%" PRIx64 " over 0x%" PRIx64 " bytes", iova, size);
	area *a = it->second;

	by_iova_.erase(it);
	return drop(a);
}

void dma_space::unmap_all()
{
	while (!by_iova_.empty())
		if (unmap(by_iova_.begin()->first, by_iova_.begin()->second->size))
			log_warn("%s", error_text());
}

bool dma_space::find(u64 addr, window *out) const
{
	u64 base, size;
	auto *a = static_cast<area *>(map_.find(addr, &base, &size));

	if (!a)
		return false;
	*out = {base, size, a->host, a->prot};
	return true;
}

} // namespace usdma::sim
