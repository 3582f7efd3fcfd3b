/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory in the devices' address spaces: one IOVA for all devices, mapped into each. */
#include "driver/base/grow.h"
#include "lib/core/memory/internal.h"

#include <algorithm>

namespace usdma::core {

using ull = unsigned long long;

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
	if (lim.page_size > page_normal)
		return fail(EOPNOTSUPP, "maps memory in pages of %llu bytes, the CPU has pages of %llu",
			    ull(lim.page_size), ull(page_normal));
	std::sort(lim.usable.begin(), lim.usable.end(),
		  [](const vfio::range &a, const vfio::range &b) { return a.start < b.start; });
	*out = std::move(lim.usable);
	return 0;
}

static bool covers(const std::vector<vfio::range> &usable, const span &sp)
{
	for (const vfio::range &r : usable)
		if (sp.iova >= r.start && sp.iova + sp.size - 1 <= r.last)
			return true;
	return false;
}

/* Both sorted and disjoint. */
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

/* What all attached devices can reach, without what is in use. */
static int iovas_make()
{
	memory_state &m = mem_state();
	std::vector<vfio::range> usable;
	const int err = usable_of_all(&usable);
	u64 at = 0;
	heap h;

	if (err)
		return err;
	if (h.init(iova_end, page_normal))
		return no_memory("the table of IOVAs");
	for (const vfio::range &r : usable) {
		const u64 first = align_up(r.start, page_normal), end = align_down(r.last + 1, page_normal);

		if (first >= end)
			continue;
		if (first > at && h.reserve(at, first - at))
			return no_memory("the table of IOVAs");
		at = end;
	}
	if (at < iova_end && h.reserve(at, iova_end - at))
		return no_memory("the table of IOVAs");
	/* One that a lost device cannot reach may lie in a gap: that is taken as well. */
	for (const auto &[iova, sp] : m.spans)
		if (h.reserve(iova, sp.size) == -ENOBUFS)
			return no_memory("the table of IOVAs");
	m.iovas = std::move(h);
	return 0;
}

/* Where it cannot be, the next who wants an address tries again. */
static int iovas_build()
{
	const int err = within_memory("the table of IOVAs", iovas_make);

	mem_state().iovas_ready = !err;
	return err;
}

/* The last address that the device reaches; ~0: it does not say. */
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
		ull(size), ull(std::min(last, iova_end - 1)), narrowest ? "the IOMMU of" : "as always for",
		narrowest ? narrowest->spec.c_str() : "these devices", ull(mem_state().iovas.free_bytes()),
		ull(mem_state().iovas.largest()));
}

static int iova_get(u64 size, u64 *iova)
{
	memory_state &m = mem_state();
	const u64 align = size >= page_huge ? page_huge : page_normal;
	const int err = m.iovas_ready ? 0 : iovas_build();

	if (err)
		return err;
	const int full = m.iovas.alloc(size, align, iova);
	if (full == -ENOBUFS)
		return no_memory("the table of IOVAs");
	return full ? fail_full(size) : 0;
}

/* ---- one span in one device -------------------------------------------------------------------------- */

static int span_map(span *sp, device *dev)
{
	vfio::dma_area area;
	int err;

	/* A device that is gone needs nothing mapped. */
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
	/* Also where it refuses. */
	if (sp->fd >= 0 && dev->eng->transport().keeps_files())
		sp->given |= bit_of(dev);
	err = dev->eng->map(area);
	/* Lost before it answered: it may have been mapped, and is taken back as if it was. */
	if (!err || dev->lost())
		sp->mapped |= bit_of(dev);
	/* The others are not to suffer for it. */
	if (err && dev->lost())
		return 0;
	if (err && sp->optional) {
		log_info("device %u cannot reach a peer's memory (%s): copies go through the host", dev->slot,
			 error_text());
		return 0;
	}
	return err ? fail_in(err, "mapping %llu bytes into device %u", ull(sp->size), dev->slot) : 0;
}

/* 0: the device reaches it no more. */
int span_unmap(span *sp, device *dev)
{
	const int err = sp->mapped & bit_of(dev) ? dev->eng->unmap(sp->iova, sp->size) : 0;

	if (err && !dev->stopped())
		return fail_in(err, "device %u (%s) may still reach %llu bytes", dev->slot, dev->spec.c_str(),
			       ull(sp->size));
	sp->mapped &= ~bit_of(dev);
	return 0;
}

int span_unmap_all(span *sp)
{
	int err = 0;

	for (device *dev : mem_state().attached) {
		const int rc = dev ? span_unmap(sp, dev) : 0;

		err = rc ? rc : err;
	}
	return err;
}

void span_erase(span *sp)
{
	if (sp->of)
		sp->of->lends_memory = false;
	mem_state().iovas.free(sp->iova);
	mem_state().spans.erase(sp->iova);
}

/* Nobody reaches it, nor names its IOVA. */
static bool is_over(const span &sp)
{
	return sp.dead && !sp.is_deferred && !sp.mapped && !sp.retired;
}

bool span_is_reached(const span *sp)
{
	bool reached = sp->reach & reach_common;

	for (const device *dev : mem_state().attached)
		reached |= dev && reaches(dev, sp);
	return reached;
}

bool span_is_suspect(const span *sp)
{
	if (sp->retired)
		return true;
	for (device *dev : mem_state().attached)
		if (dev && sp->mapped & bit_of(dev) && dev->lost() && !dev->stopped())
			return true;
	return false;
}

bool span_is_spent(span *sp)
{
	for (device *dev : mem_state().attached)
		sp->spent |= dev && sp->given & bit_of(dev) && dev->lost();
	return sp->spent;
}

void spans_quiesce()
{
	mem_state().spans_pending = false;
	for (auto it = mem_state().spans.begin(); it != mem_state().spans.end();) {
		span *sp = &(it++)->second;

		for (device *dev : mem_state().attached)
			if (dev && dev->stopped())
				sp->mapped &= ~bit_of(dev);
		if (is_over(*sp))
			span_erase(sp);
		else
			mem_state().spans_pending |= sp->dead && !sp->is_deferred;
	}
}

/* ---- all of them ------------------------------------------------------------------------------------- */

static int span_map_all(span *sp)
{
	for (device *dev : mem_state().attached) {
		const int err = dev ? span_map(sp, dev) : 0;

		if (err)
			return err;
	}
	return 0;
}

void span_restore(span *sp)
{
	for (device *dev : mem_state().attached)
		if (dev && !(sp->mapped & bit_of(dev)) && span_map(sp, dev))
			log_error("%s: copies with this memory fail there", error_text());
}

int span_remove(span *sp)
{
	const int err = span_unmap_all(sp);

	if (!err && !sp->retired) {
		span_erase(sp);
		return 0;
	}
	if (err)
		log_info("%s: they stay out of use until it is proven quiet", error_text());
	sp->dead = true;
	mem_state().spans_pending = true;
	return err ? err : -EBUSY;
}

/* With an IOVA, mapped nowhere yet. */
static int span_make(const span_spec &what, span **out)
{
	u64 iova;

	if (const int err = iova_get(what.size, &iova))
		return err;
	span *sp = try_emplace(mem_state().spans, iova);
	if (!sp) {
		mem_state().iovas.free(iova);
		return no_memory("the list of what devices reach");
	}
	sp->iova = iova;
	sp->size = what.size;
	sp->vaddr = what.vaddr;
	sp->reach = what.reach;
	sp->readonly = what.readonly;
	*out = sp;
	return 0;
}

/* Into all devices that shall reach it, or none. */
static int span_spread(span *sp, span **out)
{
	const int err = span_map_all(sp);

	if (!err) {
		*out = sp;
		return 0;
	}
	const kept_error why;
	span_remove(sp);
	return why.again(err);
}

int span_add(const span_spec &what, std::unique_ptr<backing> &store, span **out)
{
	span *sp;

	if (const int err = span_make(what, &sp))
		return err;
	sp->fd = store ? store->fd.get() : -1;
	sp->store = std::move(store);
	return span_spread(sp, out);
}

int span_add_around(const span_spec &what, span **out)
{
	const u64 at = reinterpret_cast<u64>(what.vaddr), first = align_down(at, page_normal);
	span_spec pages = what;
	span *sp;

	pages.vaddr = reinterpret_cast<u8 *>(first);
	pages.size = align_up(at + what.size, page_normal) - first;
	if (const int err = span_make(pages, &sp))
		return err;
	sp->skip = at - first;
	sp->used = what.size;
	return span_spread(sp, out);
}

int span_add_peer(device *of, u8 *vaddr, u64 size, int fd, u64 fd_offset, span **out)
{
	span *sp;

	if (const int err = span_make({vaddr, size, reach_common}, &sp))
		return err;
	sp->fd = fd;
	sp->fd_offset = fd_offset;
	sp->optional = true;
	sp->of = of;
	*out = sp;
	return span_map_all(sp);
}

static int spans_check(const device *dev)
{
	std::vector<vfio::range> usable;
	const int err = within_memory("a device's IOVAs", [&] { return usable_of(dev, &usable); });

	if (err)
		return err;
	for (const auto &[iova, sp] : mem_state().spans)
		if (!sp.dead && !sp.optional && reaches(dev, &sp) && !covers(usable, sp))
			return fail(ERANGE,
				    "cannot reach host memory that is pinned already (%llu bytes at IOVA %#llx): "
				    "open this device before pinning or registering memory",
				    ull(sp.size), ull(iova));
	return 0;
}

/* dev is in attached[] already. */
int spans_attach(device *dev)
{
	int err = spans_check(dev);

	if (!err)
		err = iovas_build();
	for (auto it = mem_state().spans.begin(); !err && it != mem_state().spans.end(); ++it)
		if (!it->second.dead)
			err = span_map(&it->second, dev);
	return err;
}

/* The last one is shared by all who come when the others are taken: what it marks is never free again. */
static u64 retired_bit_get()
{
	u64 &used = mem_state().retired_bits;
	const u64 bit = ~used ? u64(1) << __builtin_ctzll(~used) : u64(1) << 63;

	used |= bit;
	return bit;
}

bool spans_detach(device *dev)
{
	memory_state &m = mem_state();
	bool all = true;

	for (auto it = m.spans.begin(); it != m.spans.end();) {
		span *sp = &(it++)->second;

		sp->spent |= (sp->given & bit_of(dev)) != 0;
		sp->given &= ~bit_of(dev);
		if (span_unmap(sp, dev)) {
			all = false;
			if (!dev->retired_bit)
				dev->retired_bit = retired_bit_get();
			sp->retired |= dev->retired_bit;
			sp->mapped &= ~bit_of(dev);
		}
		if (is_over(*sp))
			span_erase(sp);
	}
	m.attached[dev->slot] = nullptr;
	iovas_build();
	return all;
}

} // namespace usdma::core
