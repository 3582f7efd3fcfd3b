/* SPDX-License-Identifier: BSD-3-Clause */
/* The device heap: blocks of device memory, or of host memory provided to a device without memory. */
#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "driver/base/memory_limit.h"
#include "driver/vfio/region.h"
#include "lib/core/base/stats.h"
#include "lib/core/memory/internal.h"
#include "lib/core/memory/touch.h"

#include <algorithm>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <utility>

namespace usdma::core {

static constexpr u64 block_grain = 512;
static constexpr u64 small_max = MiB; /* huge_first: up to here normal pages */
static constexpr u64 grant_step = 64 * MiB;
static constexpr u64 full_ms = 1000;        /* how long an allocation waits for deferred frees */
static constexpr u64 least_part = 64 * MiB; /* least size to which take_addresses() shrinks the memory */

static u64 slot_base(const device *dev)
{
	return heap_of(dev)->at.base;
}

/* ---- counting ---------------------------------------------------------------------------------------- */

static u64 free_of(const device_heap *h)
{
	return h->size - h->normal - h->huge - h->held;
}

/* Core dumps include pages of live blocks; a shared page is excluded once one of its blocks is freed. */
static void dump_block(const device_heap *h, u64 offset, u64 bytes, bool dump)
{
	const u64 page = os_page_size();
	const u64 begin = dump ? align_down(offset, page) : align_up(offset, page);
	const u64 end = dump ? align_up(offset + bytes, page) : align_down(offset + bytes, page);

	if (config_get().dump_memory && h->cpu && begin < end)
		madvise(h->cpu + begin, end - begin, dump ? MADV_DODUMP : MADV_DONTDUMP);
}

static void publish(const device *dev)
{
	const device_heap *h = heap_of(dev);

	stats_memory(dev->slot, h->normal + h->huge + h->held, h->size);
}

static void count_in(device *dev, u64 bytes, bool huge)
{
	device_heap *h = heap_of(dev);

	(huge ? h->huge : h->normal) += bytes;
	h->count++;
	h->peak = std::max(h->peak, h->normal + h->huge);
	publish(dev);
}

static void count_out(device *dev, u64 bytes, bool huge)
{
	device_heap *h = heap_of(dev);

	(huge ? h->huge : h->normal) -= bytes;
	h->count--;
	publish(dev);
}

void device_count_held(device *dev, u64 offset, bool held)
{
	device_heap *h = heap_of(dev);
	const u64 bytes = h->blocks.size_at(offset);

	h->held = held ? h->held + bytes : h->held - bytes;
	publish(dev);
}

/* ---- the control group -------------------------------------------------------------------------------- */

/* Bytes of a software device's memory that have pages. False: not such memory. */
static bool populated_of(const device *dev, u64 *out)
{
	u64 offset;
	struct stat st;
	const int fd = heap_of(dev)->space == dma::space::device ? dev->eng->memory_fd(&offset) : -1;

	/* Only a memfd has seals; huge pages are reserved in advance. */
	if (fd < 0 || fcntl(fd, F_GET_SEALS) < 0 || vfio::is_hugetlb(fd) || fstat(fd, &st))
		return false;
	*out = u64(st.st_blocks) * 512;
	return true;
}

static int check_available(u64 bytes, u64 populated)
{
	return bytes <= populated ?
		       0 :
		       memory_available(bytes - populated, "the memory of a software device", {.machine = false});
}

/*
 * Pages of a software device's memory are allocated on first access, and the OOM killer kills the process if
 * the control group is at its limit. So the limit is checked when blocks are allocated, in larger steps. The
 * machine's memory may be overcommitted: a large, little used device is valid.
 */
static int query_group(device *dev)
{
	device_heap *h = heap_of(dev);
	u64 used, populated;
	{
		std::lock_guard guard(mem_state().lock);

		used = h->normal + h->huge;
		if (used <= h->granted)
			return 0;
	}
	if (!populated_of(dev, &populated))
		return 0;
	u64 granted = std::min(h->size, used + grant_step);
	int err = check_available(granted, populated);
	if (err)
		err = check_available(granted = used, populated);
	if (err)
		return err;
	std::lock_guard guard(mem_state().lock);
	h->granted = std::max(h->granted, granted);
	return 0;
}

/* ---- blocks ------------------------------------------------------------------------------------------ */

/* -ENOMEM: device memory is full; -ENOBUFS: no host memory for the tables. */
static int fail_track(int err)
{
	return err == -ENOBUFS ? no_memory("tracking device memory") : err;
}

static int block_add(device *dev, u64 offset, u64 size, u64 page, u64 *out)
{
	device_heap *h = heap_of(dev);
	const u64 bytes = h->blocks.size_at(offset);
	region r;
	int err;

	r.base = slot_base(dev) + offset;
	r.size = size;
	r.cls = mem_class::device;
	r.kind = region_kind::heap;
	r.space = h->space;
	r.slot = u8(dev->slot);
	r.reach = h->space == dma::space::host ? dev->host_reach : 1u << dev->slot;
	r.page_size = u32(page);
	r.delta = h->dma - slot_base(dev);
	r.owner = h;
	err = deferred_reserve();
	if (!err) {
		err = region_add(r, nullptr);
		if (err)
			deferred_unreserve(1);
	}
	if (err) {
		h->blocks.free(offset);
		return err == -ENOMEM ? -ENOBUFS : err;
	}
	count_in(dev, bytes, page > device_page);
	dump_block(h, offset, bytes, true);
	*out = r.base;
	return 0;
}

static int block_get(device *dev, u64 size, u64 page, u64 *out)
{
	const u64 grain = page == device_page ? block_grain : page;
	device_heap *h = heap_of(dev);
	u64 offset;

	if (size > h->size)
		return -ENOMEM;
	/* Blocks of a page and more are exported by pages (FAQ "inter_process_IPC_page_table_align_requirements"). */
	if (const int err = h->blocks.alloc(align_up(size, grain), size >= device_page ? page : grain, &offset))
		return err;
	return block_add(dev, offset, size, page, out);
}

static int block_by_policy(device *dev, u64 size, page_policy policy, u64 *out)
{
	int err;

	switch (policy) {
	case page_policy::huge_only:
		return block_get(dev, size, page_huge, out);
	case page_policy::huge1g_only:
		return block_get(dev, size, page_1g, out);
	case page_policy::huge_first:
		err = size > small_max ? block_get(dev, size, page_huge, out) : -ENOMEM;
		return err == -ENOMEM ? block_get(dev, size, device_page, out) : err;
	case page_policy::normal_only:
		break;
	}
	return block_get(dev, size, device_page, out);
}

template <class F> static int take_now(const F &take, bool reap)
{
	std::lock_guard guard(mem_state().lock);

	deferred_run();
	exports_reap(reap);
	return take();
}

static int fail_full(device *dev, u64 size)
{
	std::lock_guard guard(mem_state().lock);
	const device_heap *h = heap_of(dev);

	if (h->held)
		return fail(
			ENOMEM,
			"device %u has no space for %llu bytes: %llu of %llu are free, and %llu were freed but other "
			"processes still map them",
			dev->slot, ull(size), ull(free_of(h)), ull(h->size), ull(h->held));
	return fail(ENOMEM, "device %u has no space for %llu bytes: %llu of %llu are free, the largest block has %llu",
		    dev->slot, ull(size), ull(free_of(h)), ull(h->size), ull(h->blocks.largest()));
}

/*
 * The first deferred free from which memory may come, after a nap. 0: there is none to wait for; it did not pass in a
 * second before, and has not since.
 */
static u64 await_free(device *dev)
{
	const timespec nap = {0, 20 * 1000};
	u64 first;
	{
		std::lock_guard guard(mem_state().lock);

		first = deferred_first(dev);
		if (first == ~u64(0) || first == heap_of(dev)->in_vain)
			return 0;
	}
	nanosleep(&nap, nullptr);
	return first;
}

static void note_in_vain(device *dev, u64 first)
{
	std::lock_guard guard(mem_state().lock);

	heap_of(dev)->in_vain = first;
}

/* The heap is full: waits for deferred frees, and frees what other processes have unmapped. */
template <class F> static int take_freed(device *dev, const F &take)
{
	const deadline until = deadline::in_ms(full_ms);
	int err = take_now(take, true);

	while (err == -ENOMEM) {
		const u64 first = await_free(dev);

		if (!first)
			break;
		if (until.passed()) {
			note_in_vain(dev, first);
			break;
		}
		err = take_now(take, false);
	}
	return err;
}

/* take(): gets size bytes, with mem_state().lock held; give(): gives them back after an error. */
template <class F, class G> static int allocate(device *dev, u64 size, const u64 *offset, const F &take, const G &give)
{
	int err = take_now(take, false);

	if (err == -ENOMEM && size <= heap_of(dev)->size)
		err = take_freed(dev, take);
	ranges_unmap_removed(true);
	if (err)
		return err == -ENOMEM ? fail_full(dev, size) : fail_track(err);
	err = query_group(dev);
	if (!err)
		err = device_clean(dev, *offset, size);
	if (err) {
		const saved_error why;

		give();
		return why.again(err);
	}
	device_touch_block(dev, *offset, size);
	return 0;
}

int device_alloc(device *dev, u64 size, page_policy policy, u64 *out)
{
	const no_cancel scope;
	u64 offset;

	if (is_other_process())
		return fail_forked();
	if (!size)
		return fail(EINVAL, "device memory of 0 bytes: size is 0");
	const auto take = [&] {
		const int err = block_by_policy(dev, size, policy, out);

		offset = err ? 0 : *out - slot_base(dev);
		return err;
	};
	return allocate(dev, size, &offset, take, [&] { device_free(*out); });
}

static void release_now(device *dev, u64 offset)
{
	deferred_add({.what = deferred_free::device_block, .dev = dev, .offset = offset});
}

static int free_block(u64 addr)
{
	std::lock_guard guard(mem_state().lock);
	region *r = region_at(addr);

	if (!r || r->cls != mem_class::device || r->kind != region_kind::heap || r->flags & region_shared)
		return fail(EINVAL, "%#llx is not the start of a block of device memory", ull(addr));
	device *dev = mem_state().attached[r->slot];
	device_heap *h = heap_of(dev);
	const u64 offset = addr - slot_base(dev);
	exports_close(dev, offset);
	count_out(dev, h->blocks.size_at(offset), r->page_size > device_page);
	region_remove(r);
	release_now(dev, offset);
	return 0;
}

int device_free(u64 addr)
{
	const no_cancel scope;

	if (forked())
		return fail_forked();
	const int err = free_block(addr);
	ranges_unmap_removed(true);
	exports_report();
	return err;
}

void device_put_block(device *dev, u64 offset)
{
	device_heap *h = heap_of(dev);

	dump_block(h, offset, h->blocks.size_at(offset), false);
	h->blocks.free(offset);
}

heap_info device_heap_info(device *dev)
{
	std::lock_guard guard(mem_state().lock);
	exports_reap(true);
	const device_heap *h = heap_of(dev);

	return {h->size, free_of(h), h->normal, h->huge, h->count, h->peak};
}

/* ---- raw memory -------------------------------------------------------------------------------------- */

static bool is_huge(u64 offset, u64 size)
{
	return offset % page_huge == 0 && size % page_huge == 0;
}

static int carve(device *dev, u64 size, u64 align, u64 *offset)
{
	device_heap *h = heap_of(dev);
	int err = deferred_reserve();

	if (err)
		return -ENOBUFS;
	err = h->blocks.alloc(size, std::max(align, block_grain), offset);
	if (err)
		deferred_unreserve(1);
	else
		count_in(dev, h->blocks.size_at(*offset), is_huge(*offset, h->blocks.size_at(*offset)));
	if (!err)
		dump_block(h, *offset, h->blocks.size_at(*offset), true);
	return err;
}

int device_carve(device *dev, u64 size, u64 align, u64 *offset)
{
	if (forked())
		return fail_forked();
	if (!size || (align && !is_pow2(align)))
		return fail(EINVAL, "device memory of %llu bytes aligned to %llu is invalid", ull(size), ull(align));
	return allocate(
		dev, size, offset, [&] { return carve(dev, size, align, offset); },
		[&] { device_uncarve(dev, *offset, size); });
}

void device_uncarve(device *dev, u64 offset, u64 size)
{
	if (forked())
		return;
	std::lock_guard guard(mem_state().lock);
	device_heap *h = heap_of(dev);
	const u64 bytes = h->blocks.size_at(offset);
	if (!bytes || bytes != align_up(size, block_grain) || region_at(slot_base(dev) + offset)) {
		log_error("device %u: %llu bytes at offset %#llx were not carved; not freed", dev->slot, ull(size),
			  ull(offset));
		return;
	}
	exports_close(dev, offset);
	count_out(dev, bytes, is_huge(offset, bytes));
	release_now(dev, offset);
}

memory_view device_memory(device *dev)
{
	const device_heap *h = heap_of(dev);

	return {h->size, h->at.base, h->dma, h->space, h->cpu};
}

/* ---- attach and detach ------------------------------------------------------------------------------- */

/* Addresses for *size bytes; halves the size until they are free in one piece. */
static int take_addresses(const device *dev, u64 *size, slot_window *out)
{
	const u64 least = std::min(*size, least_part);
	int err = window_take_slot(dev->slot, *size, &out->base);

	while (err == -ENOMEM && *size > least) {
		*size = std::max(align_down(*size / 2, page_huge), least);
		err = window_take_slot(dev->slot, *size, &out->base);
	}
	return err == -ENOBUFS ? no_memory("the table of addresses") : err;
}

/* An engine with memory: device pointers are its DMA addresses. */
static int take_own(device *dev, device_heap *h)
{
	const u64 size = align_down(dev->eng->limits().memory_size, block_grain);
	int err;

	h->size = size;
	err = take_addresses(dev, &h->size, &h->at);
	if (!err)
		err = dev->eng->set_memory_base(h->at.base);
	if (err)
		return err;
	if (size > h->size)
		log_warn("device %u: %llu of its %llu bytes of memory are used: %s", dev->slot, ull(h->size), ull(size),
			 error_text());
	h->dma = h->at.base;
	h->space = dma::space::device;
	h->cpu = dev->eng->memory();
	return 0;
}

static int host_pool_make(device *dev, device_heap *h)
{
	const int node = node_for(-1, config_get().numa_node, dev);
	const u64 size = align_up(config_get().pool_size, page_huge);
	std::unique_ptr<backing> mem;
	int err = setting_node_check();

	if (!err)
		err = backing_make(size, node, &mem);
	if (err)
		return fail_in(err, "memory for a device without memory (USDMA_POOL_SIZE)");
	u8 *base = mem->mem.data();
	err = window_take_slot(dev->slot, size, &h->at.base);
	if (err)
		return err == -ENOBUFS ? no_memory("the table of addresses") : err;
	err = range_add({base, mem->mem.size(), dev->host_reach}, &mem, &h->pool);
	if (err)
		return err;
	h->size = size;
	h->dma = h->pool->iova;
	h->space = dma::space::host;
	h->cpu = base;
	madvise(base, size, MADV_DONTDUMP);
	return 0;
}

/* Its pool is freed like a block. */
static int heap_publish(device *dev, std::unique_ptr<device_heap> *h)
{
	std::lock_guard guard(mem_state().lock);
	const int err = (*h)->pool ? deferred_reserve() : 0;

	if (err)
		return err;
	dev->heap = h->release();
	publish(dev);
	return 0;
}

int heap_attach(device *dev)
{
	std::unique_ptr<device_heap> h(new (std::nothrow) device_heap);

	if (!h)
		return fail(ENOMEM, "no memory for the device's heap");
	const dma::engine_limits &lim = dev->eng->limits();
	const bool own = lim.caps & dma::cap_memory && lim.memory_size && !config_get().provide_memory;
	const int err = own ? take_own(dev, h.get()) : host_pool_make(dev, h.get());

	if (err)
		return err;
	int failed = h->blocks.init(h->size, block_grain) ? no_memory("the device's heap") :
							    heap_track_clean(dev, h.get());
	if (!failed)
		failed = heap_track_touched(dev, h.get());
	if (!failed)
		failed = heap_publish(dev, &h);
	if (failed && h->pool) {
		const saved_error why;

		range_drop(h->pool);
		why.again(failed);
	}
	return failed;
}

/*
 * Blocks that were not freed are not found any more. Work of other devices with this memory fails from the unmapping
 * on; until it has ended, the IOVA is not used for other memory.
 */
static void heap_end(device *dev)
{
	device_heap *h = heap_of(dev);

	if (std::exchange(h->ended, true))
		return;
	h->blocks.each([h](u64 offset) {
		region *r = region_at(h->at.base + offset);

		if (r)
			region_remove(r);
	});
	if (dma_range *sp = std::exchange(h->peer, nullptr)) {
		/* Until range_erase_if_over(). */
		dev->is_mapped_by_lost = true;
		sp->is_deferred = true;
		range_remove(sp);
		deferred_add({.what = deferred_free::iova, .sp = sp});
	}
}

void heap_unshare(device *dev)
{
	{
		std::lock_guard guard(mem_state().lock);

		heap_end(dev);
	}
	ranges_unmap_removed();
	/* Another thread may be unmapping it. */
	if (!dev->lost())
		ranges_await(dev, deadline::in_ms(config_get().reply_ms));
}

void heap_detach(device *dev)
{
	if (heap_of(dev))
		heap_end(dev);
	const std::unique_ptr<device_heap> h(heap_of(dev));

	dev->heap = nullptr;
	if (!h)
		return;
	exports_forget(dev);
	deferred_unreserve(h->blocks.blocks());
	if (h->pool)
		deferred_add({.what = deferred_free::whole_range, .sp = h->pool});
}

/* ---- peers ------------------------------------------------------------------------------------------- */

/* What other devices map. */
static int peer_open(device *of, dma_range **out)
{
	device_heap *h = heap_of(of);
	u64 offset = 0;
	const int fd = of->eng->memory_fd(&offset);

	if (!h->peer && !h->cpu)
		return fail(EXDEV, "device %u offers no view of its memory to others", of->slot);
	if (!h->peer) {
		/* For its IOVA. */
		int err = deferred_reserve();

		if (err)
			return err;
		err = range_make_peer(of, h->cpu, align_up(h->size, os_page_size()), fd, offset, &h->peer);
		if (err) {
			deferred_unreserve(1);
			return err;
		}
	}
	*out = h->peer;
	return 0;
}

static int fail_closed(unsigned slot)
{
	return fail(EFAULT, "device %u, which owned the memory, was closed", slot);
}

/* *out: in use. */
static int peer_enter(const device *dev, unsigned slot, device **of, dma_range **out)
{
	std::lock_guard guard(mem_state().lock);

	*of = slot < max_devices ? mem_state().attached[slot] : nullptr;
	if (!*of || !heap_of(*of) || heap_of(*of)->ended)
		return fail_closed(slot);
	if ((*of)->lost())
		return fail(ENODEV, "device %u (%s), which owns the memory, was lost", slot, (*of)->spec.c_str());
	if (dev->isolated() || (*of)->isolated())
		return fail(EXDEV, "device %u is isolated", dev->isolated() ? dev->slot : slot);
	const int err = peer_open(*of, out);
	if (!err)
		(*out)->users++;
	return err;
}

static int peer_apply(const device *dev, const device *of, const dma_range *sp, translation *p)
{
	const device_heap *h = heap_of(of);

	if (!(load_relaxed(&sp->mapped) & (1u << dev->slot)))
		return fail(EXDEV, "device %u cannot reach the memory of device %u", dev->slot, of->slot);
	if (race_on())
		race().memory(race_memory::alias, memory_key(true, 0, sp->iova), sp->size,
			      memory_key(h->space == dma::space::host, of->slot, h->dma));
	p->delta += sp->iova - h->dma;
	p->dma += sp->iova - h->dma;
	p->space = dma::space::host;
	p->reach = dev->reaches;
	return 0;
}

/* Once for each device, its memory is mapped. */
int peer_translate(device *dev, translation *p)
{
	dma_range *sp = nullptr;
	device *of = nullptr;
	int err = peer_enter(dev, p->slot, &of, &sp);

	if (err)
		return err;
	if (!(load_relaxed(&sp->mapped) & (1u << dev->slot)))
		range_map_peer(sp, dev);
	std::lock_guard guard(mem_state().lock);
	err = sp->dead ? fail_closed(p->slot) : peer_apply(dev, of, sp, p);
	range_leave(sp);
	return err;
}

const u64 *word_view(const translation &p, const void *addr, device *dev)
{
	if (p.cls == mem_class::host)
		return static_cast<const u64 *>(addr);
	if (p.cls != mem_class::device || !p.size || !dev || !dev->heap)
		return nullptr;
	const memory_view v = device_memory(dev);
	/* Not for a region that maps other memory than the device's own. */
	return v.cpu && p.space == v.space && range_within(p.dma - v.dma, sizeof(u64), v.size) ?
		       reinterpret_cast<const u64 *>(v.cpu + (p.dma - v.dma)) :
		       nullptr;
}

} // namespace usdma::core
