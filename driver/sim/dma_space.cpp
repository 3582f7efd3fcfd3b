/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/dma_space.h"

#include "driver/base/asym_barrier.h"
#include "driver/base/clock.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/sim/backend.h"
#include "driver/vfio_user/proto.h"

#include <cinttypes>
#include <sched.h>

namespace usdma::sim {

static_assert(area_page == vfio::proto::default_pgsizes);
static constexpr u64 max_iova = u64(1) << 57;
static constexpr u64 release_ms = 4000;
static constexpr u64 interrupt_ns = 20 * ns_per_ms;

dma_space::dma_space(const dma_bounds &most) : most_(most), files_(most.files) {}

/* The engines have ended: no need to wait for them. */
dma_space::~dma_space() = default;

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
	return try_push(readers_, r) ? 0 : no_memory("the list of engines");
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

int dma_space::check_space() const
{
	const u64 used = slab_.size() * sizeof(area) + map_.bytes();

	if (map_.count() >= most_.areas)
		return fail(ENOSPC, "sim: DMA_MAP: %u areas are mapped, the limit of this device", most_.areas);
	if (!free_ && used >= most_.book_keeping)
		return fail(ENOSPC,
			    "sim: DMA_MAP: the tables of %zu areas take %" PRIu64 " MiB, the limit of this device: map "
			    "larger areas",
			    map_.count(), used / MiB);
	return 0;
}

int dma_space::check_share(u64 size) const
{
	if (size > most_.file_bytes || file_bytes_ > most_.file_bytes - size)
		return fail(ENOSPC,
			    "sim: DMA_MAP: %" PRIu64 " bytes in addition to %" PRIu64
			    " mapped ones exceed the limit of %" PRIu64 " (setting \"share\")",
			    size, file_bytes_, most_.file_bytes);
	return 0;
}

int dma_space::fill(area *a, unique_fd fd, u64 fd_offset)
{
	a->host = nullptr;
	a->piece = nullptr;
	a->device = 0;
	if (take_shared(a->base, a->size, &a->host) || !fd.valid())
		return 0;
	int err = check_share(a->size);

	if (!err)
		err = files_.get(std::move(fd), fd_offset, a->size, a->prot, &a->piece, &a->host);
	if (err)
		return err;
	file_bytes_ += a->size;
	return most_.device ? map_for_device(a, fd_offset) : 0;
}

int dma_space::map_for_device(area *a, u64 fd_offset)
{
	return most_.device->map({.size = a->size,
				  .vaddr = a->host,
				  .prot = a->prot,
				  .fd = a->piece->file->fd.get(),
				  .fd_offset = fd_offset},
				 &a->device);
}

/* Releases the area's part of the client's file, if any. -errno: the device behind the model may access it. */
int dma_space::release_now(area *a)
{
	if (!a->piece)
		return 0;
	if (const int err = a->device ? most_.device->unmap(a->device, a->size) : 0)
		return err;
	file_bytes_ -= a->size;
	files_.put(a->piece);
	a->piece = nullptr;
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

void dma_space::retain(area *a)
{
	a->next = retained_;
	retained_ = a;
}

void dma_space::put_area(area *a)
{
	a->next = free_;
	free_ = a;
}

int dma_space::map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 fd_offset)
{
	if (!size || iova % area_page || size % area_page || fd_offset % area_page ||
	    !range_within(iova, size, max_iova) || fd_offset + size < size)
		return fail(EINVAL,
			    "sim: DMA_MAP: 0x%" PRIx64 " and 0x%" PRIx64
			    " bytes are not page-aligned, or beyond the address space",
			    iova, size);
	if (const int err = check_space())
		return err;
	if (map_.first_in(iova, iova + size - 1))
		return fail(EEXIST, "sim: DMA_MAP: 0x%" PRIx64 " and 0x%" PRIx64 " bytes overlap an area", iova, size);
	area *a = new_area();
	if (!a)
		return no_memory("a mapped area");
	store_relaxed(&a->base, iova);
	store_relaxed(&a->size, size);
	a->prot = prot;
	int err = fill(a, std::move(fd), fd_offset);
	if (!err) {
		err = map_.insert(a);
		if (err)
			err = no_memory("a mapped area");
	}
	if (err) {
		const saved_error why;

		if (!release_now(a))
			put_area(a);
		else
			retain(a);
		return why.again(err);
	}
	return 0;
}

/* Interrupts an engine that blocks in a write to the client's eventfd, until its pass ends. */
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
	const deadline until = deadline::in_ms(release_ms);

	/*
	 * Orders the removal before reading the counts of the engines: either an engine's next pass sees the removal,
	 * or we see the engine in its pass.
	 */
	if (asym_barrier_ready())
		barrier_or_wait();
	store_fence(&fence_, 0u);
	for (const dma_reader *r : readers_)
		if (!wait_pass(*r, until))
			return false;
	return true;
}

/* Only whole areas are unmapped: fails if the first or the last extends beyond the range. */
int dma_space::check_whole(u64 first, u64 last) const
{
	const range_entry *low = map_.first_in(first, last), *high = map_.first_in(last, last);

	if (!low)
		return fail(ENOENT, "sim: DMA_UNMAP: nothing is mapped from 0x%" PRIx64 " to 0x%" PRIx64, first, last);
	if (low->base < first || (high && high->base + high->size - 1 > last))
		return fail(EINVAL, "sim: DMA_UNMAP: 0x%" PRIx64 " to 0x%" PRIx64 " would split an area", first, last);
	return 0;
}

/* Removes all areas in the range, then waits for the engines once. */
int dma_space::remove_areas(u64 first, u64 last)
{
	area *removed = nullptr;
	int err = 0;

	for (u64 at = first; auto *a = static_cast<area *>(map_.first_in(at, last));) {
		at = a->base + a->size;
		map_.remove(a);
		a->next = removed;
		removed = a;
	}
	/* Retain the areas rather than unmap memory during a copy. */
	const bool late = removed && !quiesce();
	if (removed && !late)
		(void)release_retained();
	while (area *a = removed) {
		removed = a->next;
		if (const int e = late ? -ETIMEDOUT : release_now(a)) {
			err = e;
			retain(a);
		} else {
			put_area(a);
		}
	}
	return late ? fail(ETIMEDOUT, "sim: DMA_UNMAP: an engine has used 0x%" PRIx64 " for over %" PRIu64 " ms", first,
			   release_ms) :
		      err;
}

/* No engine uses them: what was in use when it was unmapped is released now, if the device obeys. */
int dma_space::release_retained()
{
	area *list = std::exchange(retained_, nullptr);
	int err = 0;

	while (area *a = list) {
		list = a->next;
		if (const int e = release_now(a)) {
			err = e;
			retain(a);
		} else {
			put_area(a);
		}
	}
	return err;
}

int dma_space::unmap(u64 iova, u64 size)
{
	if (!size || iova + size - 1 < iova)
		return fail(EINVAL, "sim: DMA_UNMAP: 0x%" PRIx64 " and 0x%" PRIx64 " bytes are not a valid range", iova,
			    size);
	const int err = check_whole(iova, iova + size - 1);

	return err ? err : remove_areas(iova, iova + size - 1);
}

int dma_space::unmap_all()
{
	return remove_areas(0, max_iova);
}

bool dma_space::find(u64 addr, window *out) const
{
	u64 base, size;
	auto *a = static_cast<area *>(map_.find(addr, &base, &size));

	if (!a)
		return false;
	*out = {base, size, a->host, a->piece, a->prot, a->device};
	return true;
}

} // namespace usdma::sim
