/* SPDX-License-Identifier: BSD-3-Clause */
/* Host memory in the devices' address spaces: one IOVA for all devices, mapped into each. */
#include "driver/base/grow.h"
#include "lib/core/memory/internal.h"

#include <algorithm>
#include <utility>

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

/* ---- one device and one range ------------------------------------------------------------------------ */

static bool is_mapped(const dma_range *sp, const device *dev)
{
	return load_relaxed(&sp->mapped) & bit_of(dev);
}

/*
 * Messages to a device, which its server may answer late: one at a time, and without the memory lock. The device stays
 * attached meanwhile.
 */
class message_to {
public:
	message_to(unsigned slot, const dma_range *about) : guard_(mem_state().messages[slot])
	{
		std::lock_guard guard(mem_state().lock);

		dev_ = mem_state().attached[slot];
		may_map_ = dev_ && !dev_->grace.ended && !about->dead;
	}
	device *operator->() const { return dev_; }
	operator device *() const { return dev_; }
	/* Else the range would be mapped after it was unmapped. */
	bool may_map() const { return may_map_; }

private:
	std::lock_guard<std::mutex> guard_;
	device *dev_;
	bool may_map_;
};

static void clear_bit(u32 *of, const device *dev)
{
	u32 was = load_relaxed(of);

	while (!cmpxchg_acq_rel(of, &was, was & ~bit_of(dev)))
		;
}

static int send_map(dma_range *sp, device *dev)
{
	vfio::dma_area area;

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
		fetch_or_acq_rel(&sp->given, bit_of(dev));
	return dev->eng->map(area);
}

static int range_map_into(dma_range *sp, unsigned slot)
{
	const message_to dev(slot, sp);

	/* A lost device needs no mapping. */
	if (!dev.may_map() || dev->lost() || !reaches(dev, sp) ||
	    (load_relaxed(&sp->mapped) | load_relaxed(&sp->refused)) & bit_of(dev))
		return 0;
	const int err = send_map(sp, dev);
	/* Lost before it replied: treat it as mapped, as it may be. */
	if (!err || dev->lost())
		fetch_or_acq_rel(&sp->mapped, bit_of(dev));
	/* A lost device must not fail the mapping for the others. */
	if (err && dev->lost())
		return 0;
	if (err && sp->optional) {
		fetch_or_acq_rel(&sp->refused, bit_of(dev));
		log_info("device %u cannot reach a peer's memory (%s): copies go through the host", dev->slot,
			 error_text());
		return 0;
	}
	return err ? fail_in(err, "mapping %llu bytes into device %u", ull(sp->size), dev->slot) : 0;
}

/* 0: the device cannot access it any more. */
static int range_unmap(dma_range *sp, unsigned slot)
{
	const message_to dev(slot, sp);

	if (!dev || !is_mapped(sp, dev))
		return 0;
	if (dev->eng->unmap(sp->iova, sp->size) && !dev->stopped())
		return fail_in(-EBUSY, "device %u (%s) may still reach %llu bytes", dev->slot, dev->spec.c_str(),
			       ull(sp->size));
	clear_bit(&sp->mapped, dev);
	return 0;
}

int range_unmap_all(dma_range *sp)
{
	int err = 0;

	for (unsigned slot = 0; slot < max_devices; slot++) {
		const int one = range_unmap(sp, slot);

		err = one ? one : err;
	}
	return err;
}

void range_unmap_lost(dma_range *sp)
{
	for (unsigned slot = 0; slot < max_devices; slot++) {
		bool is_lost;
		{
			std::lock_guard guard(mem_state().lock);
			const device *dev = mem_state().attached[slot];

			is_lost = dev && dev->lost();
		}
		if (is_lost)
			range_unmap(sp, slot);
	}
}

/* ---- the end of a range -------------------------------------------------------------------------------- */

/* No device accesses it. */
static bool is_unreached(const dma_range &sp)
{
	return sp.dead && !sp.users && !sp.removing && !load_relaxed(&sp.mapped) && !sp.mapped_by_lost;
}

void range_erase_if_over(dma_range *sp)
{
	if (!is_unreached(*sp)) {
		mem_state().ranges_pending |= sp->dead && !sp->is_deferred && !sp->removing && !sp->users;
		return;
	}
	if (device *const of = std::exchange(sp->of, nullptr))
		of->is_mapped_by_lost = false;
	/* Requests may use its IOVA. */
	if (sp->is_deferred)
		return;
	mem_state().iovas.free(sp->iova);
	mem_state().ranges.erase(sp->iova);
}

void range_leave(dma_range *sp)
{
	sp->users--;
	range_erase_if_over(sp);
}

void range_remove(dma_range *sp)
{
	sp->dead = true;
	sp->removing = load_relaxed(&sp->mapped) || sp->users;
	if (sp->removing) {
		sp->next_removed = mem_state().removed;
		store_relaxed(&mem_state().removed, sp);
	}
	range_erase_if_over(sp);
}

/* The next range behind this IOVA for which wanted() holds, in use until range_leave(). */
template <class F> static dma_range *range_enter(u64 *at, const F &wanted)
{
	std::lock_guard guard(mem_state().lock);

	for (auto it = mem_state().ranges.upper_bound(*at); it != mem_state().ranges.end(); ++it)
		if (wanted(it->second)) {
			*at = it->first;
			it->second.users++;
			return &it->second;
		}
	return nullptr;
}

template <class W, class F> static void each_range(const W &wanted, const F &fn)
{
	u64 at = 0;

	while (dma_range *sp = range_enter(&at, wanted)) {
		fn(sp);
		std::lock_guard guard(mem_state().lock);
		range_leave(sp);
	}
}

/* Its answer does not depend on another process. */
static bool is_local(const dma_range *sp)
{
	for (const device *dev : mem_state().attached)
		if (dev && is_mapped(sp, dev) && dev->spec.starts_with("vfio-user"))
			return false;
	return true;
}

/* The next one, in use. */
static dma_range *take_removed(bool local)
{
	memory_state &m = mem_state();
	std::lock_guard guard(m.lock);

	for (dma_range **at = &m.removed; *at; at = &(*at)->next_removed)
		if (dma_range *sp = *at; !local || is_local(sp)) {
			store_relaxed(at, sp->next_removed);
			sp->removing = false;
			sp->users++;
			return sp;
		}
	return nullptr;
}

void ranges_unmap_removed(bool local)
{
	if (likely(!load_relaxed(&mem_state().removed)))
		return;
	while (dma_range *sp = take_removed(local)) {
		if (range_unmap_all(sp))
			log_info("%s: retained until the device has quiesced", error_text());
		std::lock_guard guard(mem_state().lock);
		range_leave(sp);
	}
}

static bool is_being_unmapped(const device *of)
{
	std::lock_guard guard(mem_state().lock);

	return std::any_of(mem_state().ranges.begin(), mem_state().ranges.end(), [of](const auto &at) {
		return at.second.of == of && (at.second.users || at.second.removing);
	});
}

void ranges_await(const device *of, deadline until)
{
	static constexpr timespec nap = {0, 50 * 1000};

	while (is_being_unmapped(of) && !until.passed())
		nanosleep(&nap, nullptr);
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
		if (dev && is_mapped(sp, dev) && dev->lost() && !dev->stopped())
			return true;
	return false;
}

bool range_is_tainted(dma_range *sp)
{
	for (device *dev : mem_state().attached)
		sp->tainted |= dev && load_relaxed(&sp->given) & bit_of(dev) && dev->lost();
	return sp->tainted;
}

void ranges_quiesce()
{
	mem_state().ranges_pending = false;
	for (auto it = mem_state().ranges.begin(); it != mem_state().ranges.end();) {
		dma_range *sp = &(it++)->second;

		for (device *dev : mem_state().attached)
			if (dev && dev->stopped())
				clear_bit(&sp->mapped, dev);
		range_erase_if_over(sp);
	}
}

/* ---- mapping into all devices ------------------------------------------------------------------------ */

static int range_map_all(dma_range *sp)
{
	int err = 0;

	for (unsigned slot = 0; slot < max_devices && !err; slot++)
		err = range_map_into(sp, slot);
	return err;
}

void range_restore(dma_range *sp)
{
	for (unsigned slot = 0; slot < max_devices; slot++)
		if (range_map_into(sp, slot))
			log_error("%s: copies with this memory fail there", error_text());
}

/* Makes a range with an IOVA, not yet mapped; with the memory lock. */
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
	static_cast<range_spec &>(*sp) = what;
	sp->iova = iova;
	sp->optional = what.of;
	*out = sp;
	return 0;
}

int range_add(const range_spec &what, std::unique_ptr<backing> *store, dma_range **out)
{
	dma_range *sp;
	{
		std::lock_guard guard(mem_state().lock);

		if (const int err = range_make(what, &sp))
			return err;
		if (store) {
			sp->fd = (*store)->fd.get();
			sp->store = std::move(*store);
		}
	}
	const int err = range_map_all(sp);
	if (!err) {
		*out = sp;
		return 0;
	}
	const saved_error why;
	range_drop(sp);
	return why.again(err);
}

void range_drop(dma_range *sp)
{
	{
		std::lock_guard guard(mem_state().lock);

		range_remove(sp);
	}
	ranges_unmap_removed();
}

int range_add_around(const range_spec &what, dma_range **out)
{
	const u64 at = reinterpret_cast<u64>(what.vaddr);
	const page_range around = pages_around(at, what.size);
	range_spec pages = what;

	pages.vaddr = reinterpret_cast<u8 *>(around.first);
	pages.size = around.size;
	pages.skip = at - around.first;
	pages.used = what.size;
	return range_add(pages, nullptr, out);
}

int range_make_peer(device *of, u8 *vaddr, u64 size, int fd, u64 fd_offset, dma_range **out)
{
	return range_make(
		{.vaddr = vaddr, .size = size, .reach = reach_common, .fd = fd, .fd_offset = fd_offset, .of = of}, out);
}

void range_map_peer(dma_range *sp, const device *dev)
{
	range_map_into(sp, dev->slot);
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

/* dev is already in attached[]: ranges that are made from now on are mapped by their makers. */
int ranges_attach(device *dev)
{
	int err;
	{
		std::lock_guard guard(mem_state().lock);

		err = ranges_check(dev);
		if (!err)
			err = iovas_build();
	}
	each_range([&err](const dma_range &sp) { return !sp.dead && !err; },
		   [&](dma_range *sp) { err = range_map_into(sp, dev->slot); });
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

/* It did not unmap the range. */
static void note_mapped_by_lost(dma_range *sp, device *dev)
{
	std::lock_guard guard(mem_state().lock);

	if (!dev->lost_bit)
		dev->lost_bit = lost_bit_get();
	sp->mapped_by_lost |= dev->lost_bit;
	clear_bit(&sp->mapped, dev);
}

bool ranges_detach(device *dev)
{
	memory_state &m = mem_state();
	bool all = true;

	m.lock.lock();
	dev->grace.ended = true;
	m.lock.unlock();
	/* Wait for what is being mapped. */
	m.messages[dev->slot].lock();
	m.messages[dev->slot].unlock();
	each_range([](const dma_range &) { return true; },
		   [&](dma_range *sp) {
			   if (range_unmap(sp, dev->slot)) {
				   all = false;
				   note_mapped_by_lost(sp, dev);
			   }
			   std::lock_guard guard(m.lock);
			   sp->tainted |= (load_relaxed(&sp->given) & bit_of(dev)) != 0;
			   clear_bit(&sp->given, dev);
			   clear_bit(&sp->refused, dev);
		   });
	/* And for those who are about to send it a message, and find that there is none to send. */
	std::lock_guard last(m.messages[dev->slot]);
	std::lock_guard guard(m.lock);
	m.attached[dev->slot] = nullptr;
	iovas_build();
	return all;
}

} // namespace usdma::core
