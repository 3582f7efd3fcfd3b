/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/dma/own_memory.h"
#include "driver/engines/ioat/driver.h"
#include "driver/engines/ioat/ioat.h"
#include "driver/vfio/capability.h"

#include <algorithm>
#include <array>
#include <endian.h>
#include <new>
#include <sys/eventfd.h>

namespace usdma::ioat {

static constexpr u32 default_ring = 256, min_ring = 2;
/* DMACOUNT has 16 bits, and a request is two descriptors. */
static constexpr u32 max_ring = 16384;
static constexpr u64 bar_page = 4096;
/* A chip whose XFERCAP says 4 GiB, which does not fit the field. */
static constexpr u32 most_xfercap = 30;
static constexpr u16 skylake = 0x2021, atom_s1200 = 0x0c50, broadwell_de = 0x6f50;
/* PCI Express 3.0 §7.8. */
static constexpr u8 express_capability = 0x10;
static constexpr u32 device_control = 8;
static constexpr u16 relaxed_ordering = 0x10;

/* ---- probe ------------------------------------------------------------------------------------------- */

/* [L] ioat_pci_probe, is_bwd_ioat. */
int ioat_engine::check_chip()
{
	u16 id = 0;
	const int err = vfio::config_read16(*dev_, 2, &id);

	if (id == skylake)
		chip_.version = version_3_2;
	chip_.loses_vectors = (id & 0xfffc) == atom_s1200 || (id & 0xfffc) == broadwell_de;
	return err;
}

int ioat_engine::check_identity()
{
	vfio::region_info bar;
	u8 channels = 0, xfercap = 0, version = 0;
	u32 dmacap = 0;
	int err = dev_->region(vfio::region_bar0, &bar);

	if (!err && bar.size < chan_base(max_channels))
		return fail(ENODEV, "BAR0 has %llu bytes, an I/OAT has %llu", static_cast<unsigned long long>(bar.size),
			    static_cast<unsigned long long>(bar0_size));
	if (!err)
		err = read(reg_version, &version, 1);
	if (!err)
		err = read(reg_chancnt, &channels, 1);
	if (!err)
		err = read(reg_xfercap, &xfercap, 1);
	if (!err)
		err = read(reg_dmacap, &dmacap, 4);
	if (err)
		return err;
	channels &= 0x1f;
	xfercap &= 0x1f;
	if (version == 0xff)
		return fail(ENODEV, "its registers read as ones: it is off, or its memory space is disabled");
	if (version < version_3_2)
		return fail(EPROTONOSUPPORT, "I/OAT version %u.%u: this driver supports 3.2 and newer", version >> 4,
			    version & 0xf);
	if (!channels || channels > max_channels || (xfercap && xfercap < min_xfercap))
		return fail(EPROTO,
			    "the device reports %u channels of 2^%u bytes: 1 to %u, and at least 2^%u, are valid",
			    channels, xfercap, max_channels, min_xfercap);
	limits_.max_len = u64(1) << (xfercap ? std::min<u32>(xfercap, most_xfercap) : most_xfercap);
	limits_.channels = channels;
	/* Channels of a function share its one engine. */
	limits_.engines = 1;
	limits_.ring_size = default_ring;
	limits_.ops = dma::op_bit(dma::opcode::nop) | dma::op_bit(dma::opcode::copy) |
		      (dmacap & cap_fill ? dma::op_bit(dma::opcode::fill) : 0);
	limits_.numa_node = dev_->numa_node();
	chip_.version = version;
	return check_chip();
}

/* One vector a channel; without them the channels' threads poll. */
int ioat_engine::setup_interrupts()
{
	vfio::irq_info irq;
	std::vector<int> raw;

	if (dev_->irq(vfio::irq_msix, &irq) < 0 || std::min(irq.count, irq.share) < limits_.channels) {
		log_warn("%s: MSI-X has too few vectors: polling", dev_->name());
		return 0;
	}
	if (!try_reserve(raw, limits_.channels) || !try_reserve(vectors_, limits_.channels))
		return no_memory("the list of interrupts");
	for (u32 i = 0; i < limits_.channels; i++) {
		unique_fd fd(fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));

		if (!fd.valid())
			return fail_errno("no eventfd for an interrupt");
		push_reserved(raw, fd.get());
		push_reserved(vectors_, std::move(fd));
	}
	if (dev_->irq_set(vfio::irq_msix, 0, raw) < 0) {
		log_warn("%s: no MSI-X, polling: %s", dev_->name(), error_text());
		vectors_.clear();
	}
	return 0;
}

/* VFIO writes the entry of the table anew, even for the same eventfd. */
void ioat_engine::restore_vector(u32 index)
{
	const int fd = vector(index);

	if (chip_.loses_vectors && fd >= 0 && dev_->irq_set(vfio::irq_msix, index, std::span(&fd, 1)) < 0)
		log_warn("%s: channel %u: its interrupt is lost: %s", dev_->name(), index, error_text());
}

/* The number of a request must not pass its data. */
int ioat_engine::keep_order()
{
	unsigned at = 0;
	u16 control = 0;
	int err = vfio::config_capability(*dev_, express_capability, &at);

	if (err || !at)
		return err;
	err = vfio::config_read16(*dev_, at + device_control, &control);
	if (err || !(control & relaxed_ordering))
		return err;
	control = htole16(u16(control & ~relaxed_ordering));
	return dev_->region_write(vfio::region_config, at + device_control, &control, sizeof(control));
}

/* No channel of an earlier user may run once the function may access memory. */
int ioat_engine::enable()
{
	const u8 control = intr_vectors | intr_master;

	for (u32 i = 0; i < limits_.channels; i++)
		if (int err = channel_regs(*dev_, nullptr, chip_, i).reset(); err < 0)
			return fail_in(err, "channel %u", i);
	if (int err = keep_order(); err < 0)
		return err;
	if (int err = dev_->region_write(vfio::region_bar0, reg_intrctrl, &control, 1); err < 0)
		return err;
	return vfio::config_bus_master(*dev_, true);
}

int ioat_engine::start()
{
	vfio::region_info bar;

	if (int err = check_identity(); err < 0)
		return err;
	if (!dev_->region(vfio::region_bar0, &bar) && bar.flags & vfio::region_mappable &&
	    dev_->region_map(vfio::region_bar0, 0, bar_page, &bar_) < 0)
		log_info("%s: BAR0 is not mapped: %s", dev_->name(), error_text());
	if (int err = enable(); err < 0)
		return err;
	if (int err = setup_interrupts(); err < 0)
		return err;
	log_info("%s: I/OAT %u.%u over %s, %u channels", dev_->name(), chip_.version >> 4, chip_.version & 0xf,
		 dev_->backend(), limits_.channels);
	return 0;
}

std::unique_ptr<vfio::device> ioat_engine::release()
{
	if (!dev_->lost())
		vfio::config_bus_master(*dev_, false);
	return std::move(dev_);
}

ioat_engine::~ioat_engine()
{
	if (!dev_)
		return;
	for (ioat_channel *c : open_)
		if (c)
			close(c);
	if (!dev_->lost())
		vfio::config_bus_master(*dev_, false);
	/* The device first: it may still access the memory in stuck_. */
	dev_.reset();
}

/* ---- channels ---------------------------------------------------------------------------------------- */

int ioat_engine::channel_open(unsigned index, const dma::channel_config &cfg, dma::channel **out)
{
	const u32 size = cfg.ring_size ? cfg.ring_size : default_ring;

	if (index >= limits_.channels)
		return fail(EINVAL, "channel %u: the device has %u", index, limits_.channels);
	if (!is_pow2(size) || size < min_ring || size > max_ring)
		return fail(EINVAL, "ring size %u: a power of two from %u to %u is needed", size, min_ring, max_ring);
	auto *c = new (std::nothrow) ioat_channel(*this, index);
	if (!c)
		return fail(ENOMEM, "no memory for channel %u", index);
	{
		std::lock_guard guard(lock_);

		if (open_[index]) {
			delete c;
			return fail(EBUSY, "channel %u is open already", index);
		}
		open_[index] = c;
	}
	if (int err = c->open(cfg, size); err < 0) {
		close(c);
		return fail_in(err, "channel %u", index);
	}
	*out = c;
	return 0;
}

void ioat_engine::close(ioat_channel *c)
{
	/* The unmap stops even a device that does not obey. */
	if (c->end() < 0)
		log_warn("%s: channel %u: %s", dev_->name(), c->index, error_text());
	{
		std::lock_guard guard(lock_);

		open_[c->index] = nullptr;
	}
	delete c;
}

int ioat_engine::map_own(const vfio::dma_area &area, u64 *iova)
{
	vfio::dma_area at = area;
	std::lock_guard guard(lock_);

	/* For unmap_own(), which must not fail. */
	if (!try_reserve(stuck_, stuck_.size() + max_channels))
		return no_memory("a ring");
	if (int err = dma::own_memory_map(*dev_, &at); err < 0)
		return err;
	*iova = at.iova;
	/* Another channel may wait for its record. */
	at.prot = vfio::dma_read;
	std::lock_guard of_areas(host_.lock);

	if (host_.areas.add(at))
		return 0;
	dev_->dma_unmap(at.iova, at.size);
	*iova = 0;
	return no_memory("the list of DMA areas");
}

void ioat_engine::unmap_own(u64 iova, mapping &memory)
{
	std::lock_guard guard(lock_);
	{
		std::lock_guard of_areas(host_.lock);

		host_.areas.remove(iova);
	}
	if (!dev_->dma_unmap(iova, memory.size()))
		return;
	if (!dev_->lost())
		log_warn("%s: cannot unmap a ring: %s", dev_->name(), error_text());
	push_reserved(stuck_, std::move(memory));
}

/* ---- memory, reset ------------------------------------------------------------------------------------- */

int ioat_engine::map(const vfio::dma_area &area)
{
	return dma::map_listed(*dev_, host_.lock, host_.areas, area);
}

int ioat_engine::unmap(u64 iova, u64 size)
{
	return dma::unmap_listed(*dev_, host_.lock, host_.areas, iova, size);
}

/* A function without a reset of its own has its channels reset, which suffices. */
int ioat_engine::reset()
{
	for (ioat_channel *c : open_)
		if (c)
			if (int err = c->freeze(); err < 0)
				return err;
	if (int err = dev_->reset(); err < 0 && err != -EOPNOTSUPP && err != -ENOTTY)
		return err;
	return enable();
}

static void close_memory(dma::host_memory &host)
{
	host.closed = true;
	host.areas.clear();
}

int ioat_engine::give_up()
{
	const int err = engine::give_up();

	if (err)
		return err;
	std::lock_guard guard(host_.lock);

	close_memory(host_);
	return 0;
}

/* The driver accesses memory by the CPU, too. */
int ioat_engine::quiesce()
{
	std::unique_lock guard(host_.lock, std::try_to_lock);

	if (!guard.owns_lock())
		return -EAGAIN;
	close_memory(host_);
	guard.unlock();
	return engine::quiesce();
}

/* ---- the driver ---------------------------------------------------------------------------------------- */

static int probe(std::unique_ptr<vfio::device> &dev, std::unique_ptr<dma::engine> *out)
{
	auto *e = new (std::nothrow) ioat_engine(std::move(dev));

	if (!e)
		return fail(ENOMEM, "no memory for an engine");
	if (int err = e->start(); err < 0) {
		dev = e->release();
		delete e;
		return err;
	}
	out->reset(e);
	return 0;
}

/*
 * [L] init.c, hw.h. Sandy Bridge, Ivy Bridge, Haswell, Broadwell: 0 to 7, e and f of sixteen; those between are parts
 * of the IIO that are no DMA engines. Then Broadwell-DE, Atom S1200, Skylake, Ice Lake.
 */
static constexpr u16 series[] = {0x3c20, 0x0e20, 0x2f20, 0x6f20}, of_series[] = {0, 1, 2, 3, 4, 5, 6, 7, 0xe, 0xf};
static constexpr u16 singles[] = {0x6f50, 0x6f51, 0x6f52, 0x6f53, 0x0c50, 0x0c51, 0x0c52, 0x0c53, 0x2021, 0x0b00};

static constexpr auto make_ids()
{
	std::array<dma::pci_id, std::size(series) * std::size(of_series) + std::size(singles)> ids = {};
	size_t n = 0;

	for (u16 first : series)
		for (u16 i : of_series)
			ids[n++] = {pci_vendor, u16(first + i)};
	for (u16 id : singles)
		ids[n++] = {pci_vendor, id};
	return ids;
}

static constexpr auto ids = make_ids();

const dma::driver driver = {"ioat", ids, probe};

} // namespace usdma::ioat
