/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory in the devices' address spaces: one IOVA for all devices, mapped into each. */
#include "driver/base/grow.h"
#include "lib/core/memory/internal.h"

#include <algorithm>

namespace usdma::core {

static u32 bit_of(const device *dev)
{
	return u32(1) << dev->slot;
}

/* ---- IOVAs ------------------------------------------------------------------------------------------- */

static int usable_of(const device *dev, std::vector<vfio::range> *out)
{
	vfio::address_limits lim;
	const int err = dev->eng->transport().limits(&lim);

	if (err)
		return err;
	if (lim.page_size > os_page_size())
		return fail(EOPNOTSUPP, "maps memory in pages of %llu bytes, the CPU has pages of %llu",
			    ull(lim.page_size), ull(os_page_size()));
	std::sort(lim.usable.begin(), lim.usable.end(),
		  [](const vfio::range &a, const vfio::range &b) { return a.start < b.start; });
	*out = std::move(lim.usable);
	return 0;
}

static bool covers(const std::vector<vfio::range> &usable, const dma_range &sp)
{
	for (const vfio::range &r : usable)
		if (sp.iova >= r.start && sp.iova + sp.size - 1 <= r.last)
			return true;
	return false;
}

/* Both inputs are sorted and disjoint. */
static std::vector<vfio::range> intersect(const std::vector<vfio::range> &a, const std::vector<vfio::range> &b)
{
	std::vector<vfio::range> both;

	for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
		const u64 start = std::max(a[i].start, b[j].start), last = std::min(a[i].last, b[j].last);

		if (start <= last)
			both.push_back({start, last});
		(a[i].last < b[j].last ? i : j)++;
	}
	return both;
}

static int usable_of_all(std::vector<vfio::range> *out)
{
	*out = {{iova_first, iova_end - 1}};
	for (const device *dev : mem_state().attached) {
		std::vector<vfio::range> usable;

		if (!dev || dev->lost())
			continue;
		const int err = usable_of(dev, &usable);
		if (err)
			return err;
		*out = intersect(*out, usable);
	}
	return 0;
}

/* IOVAs that all attached devices can access, without those in use. */
static int iovas_make()
{
	const u64 page = os_page_size();
	memory_state &m = mem_state();
	std::vector<vfio::range> usable;
	const int err = usable_of_all(&usable);
	u64 at = 0;
	heap h;

	if (err)
		return err;
	if (h.init(iova_end, page))
		return no_memory("the table of IOVAs");
	for (const vfio::range &r : usable) {
		const u64 first = align_up(r.start, page), end = align_down(r.last + 1, page);

		if (first >= end)
			continue;
		if (first > at && h.reserve(at, first - at))
			return no_memory("the table of IOVAs");
		at = end;
	}
	if (at < iova_end && h.reserve(at, iova_end - at))
		return no_memory("the table of IOVAs");
	/* Ranges in use; one outside all usable ranges is reserved already (-EEXIST). */
	for (const auto &[iova, sp] : m.ranges)
		if (h.reserve(iova, sp.size) == -ENOBUFS)
			return no_memory("the table of IOVAs");
	m.iovas = std::move(h);
	return 0;
}

/* On failure the next iova_get() tries again. */
static int iovas_build()
{
	const int err = within_memory("the table of IOVAs", iovas_make);

	mem_state().iovas_ready = !err;
	return err;
}

/* The last IOVA that the device can access; ~0: unknown. */
static u64 last_usable(const device *dev)
{
	std::vector<vfio::range> usable;

	return usable_of(dev, &usable) || usable.empty() ? ~u64(0) : usable.back().last;
}

static int fail_full(u64 size)
{
	const device *narrowest = nullptr;
	u64 last = ~u64(0);

	for (const device *dev : mem_state().attached) {
		const u64 own = dev && !dev->lost() ? last_usable(dev) : ~u64(0);

		narrowest = own < last ? dev : narrowest;
		last = std::min(last, own);
	}
	return fail(
		ENOMEM,
		"no addresses for %llu bytes in the range that every open device reaches: it ends at %#llx (%s %s), "
		"%llu bytes are free, %llu in one piece",
		ull(size), ull(std::min(last, iova_end - 1)), narrowest ? "the IOMMU of" : "the limit of",
		narrowest ? narrowest->spec.c_str() : "these devices", ull(mem_state().iovas.free_bytes()),
		ull(mem_state().iovas.largest()));
}

static int iova_get(u64 size, u64 *iova)
{
	memory_state &m = mem_state();
	const u64 align = size >= page_huge ? page_huge : os_page_size();
	const int err = m.iovas_ready ? 0 : iovas_build();

	if (err)
		return err;
	const int full = m.iovas.alloc(size, align, iova);
	if (full == -ENOBUFS)
		return no_memory("the table of IOVAs");
	return full ? fail_full(size) : 0;
}

/* ---- mapping a range into one device ----------------------------------------------------------------- */

static int range_map_into(dma_range *sp, device *dev)
{
	vfio::dma_area area;
	int err;

	/* A lost device needs no mapping. */
	if (dev->lost() || !reaches(dev, sp))
		return 0;
	area.iova = sp->iova;
	area.size = sp->size;
	area.skip = sp->skip;
	area.used = sp->used;
	area.vaddr = sp->vaddr;
	area.prot = sp->readonly ? vfio::dma_read : vfio::dma_read | vfio::dma_write;
	area.fd = sp->fd;
	area.fd_offset = sp->fd_offset;
	/* Also if the server refuses the mapping. */
	if (sp->fd >= 0 && dev->eng->transport().retains_files())
		sp->given |= bit_of(dev);
	err = dev->eng->map(area);
	/* Lost before it replied: treat it as mapped, as it may be. */
	if (!err || dev->lost())
		sp->mapped |= bit_of(dev);
	/* A lost device must not fail the mapping for the others. */
	if (err && dev->lost())
		return 0;
	if (err && sp->optional) {
		log_info("device %u cannot reach a peer's memory (%s): copies go through the host", dev->slot,
			 error_text());
		return 0;
	}
	return err ? fail_in(err, "mapping %llu bytes into device %u", ull(sp->size), dev->slot) : 0;
}

/* 0: the device cannot access it any more. */
int range_unmap(dma_range *sp, device *dev)
{
	const int err = sp->mapped & bit_of(dev) ? dev->eng->unmap(sp->iova, sp->size) : 0;

	if (err && !dev->stopped())
		return fail_in(err, "device %u (%s) may still reach %llu bytes", dev->slot, dev->spec.c_str(),
			       ull(sp->size));
	sp->mapped &= ~bit_of(dev);
	return 0;
}

int range_unmap_all(dma_range *sp)
{
	int err = 0;

	for (device *dev : mem_state().attached) {
		const int one = dev ? range_unmap(sp, dev) : 0;

		err = one ? one : err;
	}
	return err;
}

void range_erase(dma_range *sp)
{
	if (sp->of)
		sp->of->is_mapped_by_lost = false;
	mem_state().iovas.free(sp->iova);
	mem_state().ranges.erase(sp->iova);
}

/* No device accesses it or uses its IOVA. */
static bool is_over(const dma_range &sp)
{
	return sp.dead && !sp.is_deferred && !sp.mapped && !sp.mapped_by_lost;
}

bool range_is_reached(const dma_range *sp)
{
	bool reached = sp->reach & reach_common;

	for (const device *dev : mem_state().attached)
		reached |= dev && reaches(dev, sp);
	return reached;
}

bool range_may_be_written(const dma_range *sp)
{
	if (sp->mapped_by_lost)
		return true;
	for (device *dev : mem_state().attached)
		if (dev && sp->mapped & bit_of(dev) && dev->lost() && !dev->stopped())
			return true;
	return false;
}

bool range_is_tainted(dma_range *sp)
{
	for (device *dev : mem_state().attached)
		sp->tainted |= dev && sp->given & bit_of(dev) && dev->lost();
	return sp->tainted;
}

void ranges_quiesce()
{
	mem_state().ranges_pending = false;
	for (auto it = mem_state().ranges.begin(); it != mem_state().ranges.end();) {
		dma_range *sp = &(it++)->second;

		for (device *dev : mem_state().attached)
			if (dev && dev->stopped())
				sp->mapped &= ~bit_of(dev);
		if (is_over(*sp))
			range_erase(sp);
		else
			mem_state().ranges_pending |= sp->dead && !sp->is_deferred;
	}
}

/* ---- mapping into all devices ------------------------------------------------------------------------ */

static int range_map_all(dma_range *sp)
{
	for (device *dev : mem_state().attached) {
		const int err = dev ? range_map_into(sp, dev) : 0;

		if (err)
			return err;
	}
	return 0;
}

void range_restore(dma_range *sp)
{
	for (device *dev : mem_state().attached)
		if (dev && !(sp->mapped & bit_of(dev)) && range_map_into(sp, dev))
			log_error("%s: copies with this memory fail there", error_text());
}

int range_remove(dma_range *sp)
{
	const int err = range_unmap_all(sp);

	if (!err && !sp->mapped_by_lost) {
		range_erase(sp);
		return 0;
	}
	if (err)
		log_info("%s: retained until the device has quiesced", error_text());
	sp->dead = true;
	mem_state().ranges_pending = true;
	return err ? err : -EBUSY;
}

/* Makes a range with an IOVA, not yet mapped. */
static int range_make(const range_spec &what, dma_range **out)
{
	u64 iova;

	if (const int err = iova_get(what.size, &iova))
		return err;
	dma_range *sp = try_emplace(mem_state().ranges, iova);
	if (!sp) {
		mem_state().iovas.free(iova);
		return no_memory("the list of device mappings");
	}
	sp->iova = iova;
	sp->size = what.size;
	sp->vaddr = what.vaddr;
	sp->reach = what.reach;
	sp->readonly = what.readonly;
	*out = sp;
	return 0;
}

/* Maps it into all devices in its reach, or none. */
static int range_spread(dma_range *sp, dma_range **out)
{
	const int err = range_map_all(sp);

	if (!err) {
		*out = sp;
		return 0;
	}
	const saved_error why;
	range_remove(sp);
	return why.again(err);
}

int range_add(const range_spec &what, std::unique_ptr<backing> &store, dma_range **out)
{
	dma_range *sp;

	if (const int err = range_make(what, &sp))
		return err;
	sp->fd = store ? store->fd.get() : -1;
	sp->store = std::move(store);
	return range_spread(sp, out);
}

int range_add_around(const range_spec &what, dma_range **out)
{
	const u64 at = reinterpret_cast<u64>(what.vaddr);
	const page_range around = pages_around(at, what.size);
	range_spec pages = what;
	dma_range *sp;

	pages.vaddr = reinterpret_cast<u8 *>(around.first);
	pages.size = around.size;
	if (const int err = range_make(pages, &sp))
		return err;
	sp->skip = at - around.first;
	sp->used = what.size;
	return range_spread(sp, out);
}

int range_add_peer(device *of, u8 *vaddr, u64 size, int fd, u64 fd_offset, dma_range **out)
{
	dma_range *sp;

	if (const int err = range_make({vaddr, size, reach_common}, &sp))
		return err;
	sp->fd = fd;
	sp->fd_offset = fd_offset;
	sp->optional = true;
	sp->of = of;
	*out = sp;
	return range_map_all(sp);
}

static int ranges_check(const device *dev)
{
	std::vector<vfio::range> usable;
	const int err = within_memory("a device's IOVAs", [&] { return usable_of(dev, &usable); });

	if (err)
		return err;
	for (const auto &[iova, sp] : mem_state().ranges)
		if (!sp.dead && !sp.optional && reaches(dev, &sp) && !covers(usable, sp))
			return fail(ERANGE,
				    "cannot reach host memory that is pinned already (%llu bytes at IOVA %#llx): "
				    "open this device before pinning or registering memory",
				    ull(sp.size), ull(iova));
	return 0;
}

/* dev is already in attached[]. */
int ranges_attach(device *dev)
{
	int err = ranges_check(dev);

	if (!err)
		err = iovas_build();
	for (auto it = mem_state().ranges.begin(); !err && it != mem_state().ranges.end(); ++it)
		if (!it->second.dead)
			err = range_map_into(&it->second, dev);
	return err;
}

/* The last bit is shared once the others are in use: ranges marked with it are never freed. */
static u64 lost_bit_get()
{
	u64 &used = mem_state().lost_bits;
	const u64 bit = ~used ? u64(1) << __builtin_ctzll(~used) : u64(1) << 63;

	used |= bit;
	return bit;
}

bool ranges_detach(device *dev)
{
	memory_state &m = mem_state();
	bool all = true;

	for (auto it = m.ranges.begin(); it != m.ranges.end();) {
		dma_range *sp = &(it++)->second;

		sp->tainted |= (sp->given & bit_of(dev)) != 0;
		sp->given &= ~bit_of(dev);
		if (range_unmap(sp, dev)) {
			all = false;
			if (!dev->lost_bit)
				dev->lost_bit = lost_bit_get();
			sp->mapped_by_lost |= dev->lost_bit;
			sp->mapped &= ~bit_of(dev);
		}
		if (is_over(*sp))
			range_erase(sp);
	}
	m.attached[dev->slot] = nullptr;
	iovas_build();
	return all;
}

} // namespace usdma::core
