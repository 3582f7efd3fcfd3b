/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/ring_engine.h"

#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/vfio/capability.h"

#include <algorithm>
#include <endian.h>
#include <sys/eventfd.h>

namespace usdma::dma {

static constexpr u32 least_ring = 2, usual_ring = 256;
/* PCI Express 3.0 §7.8. */
static constexpr u8 express_capability = 0x10;
static constexpr u32 device_control = 8;
static constexpr u16 relaxed_ordering = 0x10;

std::unique_ptr<vfio::device> ring_engine::release()
{
	if (!dev_->lost())
		vfio::config_bus_master(*dev_, false);
	return std::move(dev_);
}

/* The device first: it may still access the memory that is stuck. */
ring_engine::~ring_engine()
{
	if (dev_)
		release();
}

/* ---- channels ---------------------------------------------------------------------------------------- */

int ring_engine::channel_open(unsigned index, const channel_config &cfg, channel **out)
{
	const u32 size = cfg.ring_size ? cfg.ring_size : limits_.ring_size;

	if (index >= limits_.channels)
		return fail(EINVAL, "channel %u: the device has %u", index, limits_.channels);
	if (!is_pow2(size) || size < least_ring || size > most_ring_)
		return fail(EINVAL, "ring size %u: a power of two from %u to %u is needed", size, least_ring,
			    most_ring_);
	std::unique_ptr<ring_channel> made(make_channel(index));
	ring_channel *const c = made.get();
	if (!c)
		return fail(ENOMEM, "no memory for channel %u", index);
	{
		std::lock_guard guard(lock_);

		if (open_[index])
			return fail(EBUSY, "channel %u is open already", index);
		open_[index] = made.release();
	}
	if (int err = c->open(cfg, size); err < 0) {
		close(c);
		return fail_in(err, "channel %u", index);
	}
	*out = c;
	return 0;
}

void ring_channel::close()
{
	static_cast<ring_engine *>(eng)->close(this);
}

void ring_engine::close(ring_channel *c)
{
	/* Another channel must not get the addresses that the device may still write to. */
	if (c->end(is_off()) < 0) {
		log_warn("%s: channel %u: %s", dev_->name(), c->index, error_text());
		c->retain_memory();
	}
	{
		std::lock_guard guard(lock_);

		open_[c->index] = nullptr;
	}
	delete c;
}

void ring_engine::close_all()
{
	for (ring_channel *c : open_)
		if (c)
			close(c);
}

/* ---- the device --------------------------------------------------------------------------------------- */

void ring_engine::map_registers(unsigned region, u64 bytes)
{
	vfio::region_info bar;

	if (!dev_->region(region, &bar) && bar.flags & vfio::region_mappable &&
	    dev_->region_map(region, 0, bytes, &registers_) < 0)
		log_info("%s: BAR%u is not mapped: %s", dev_->name(), region, error_text());
}

void ring_engine::set_limits(u64 max_len, u32 channels, u32 ops)
{
	limits_.max_len = max_len;
	limits_.channels = channels;
	limits_.engines = 1;
	limits_.ring_size = usual_ring;
	limits_.ops = ops;
	limits_.numa_node = dev_->numa_node();
}

/* ---- interrupts -------------------------------------------------------------------------------------- */

/* raw: for the device; -1 below the first. */
int ring_engine::make_vectors(u32 first, u32 count, std::vector<int> *raw)
{
	raw->clear();
	vectors_.clear();
	if (!try_resize(*raw, first + count, -1) || !try_reserve(vectors_, count))
		return no_memory("the list of interrupts");
	for (u32 i = 0; i < count; i++) {
		unique_fd fd(fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));

		if (!fd.valid())
			return fail_errno("no eventfd for an interrupt");
		(*raw)[first + i] = fd.get();
		push_reserved(vectors_, std::move(fd));
	}
	return 0;
}

int ring_engine::try_vectors(unsigned type, u32 first, u32 count)
{
	std::vector<int> raw;
	const int err = make_vectors(first, count, &raw);

	return err ? err : dev_->irq_set(type, 0, raw);
}

int ring_engine::setup_interrupts(u32 first, unsigned type)
{
	vfio::irq_info irq;
	u32 have = dev_->irq(type, &irq) < 0 ? 0 : std::min({irq.count, irq.share, first + limits_.channels});
	int err = -ENOSPC;

	/* Fewer than the device has may be available: a CPU has some 200 for all devices. */
	for (; have > first && (err == -ENOSPC || err == -EMFILE || err == -ENFILE); have -= err != 0)
		err = try_vectors(type, first, have - first);
	if (err == -ENOMEM)
		return err;
	if (err) {
		log_warn("%s: no interrupts, polling: %s", dev_->name(),
			 have > first || err != -ENOSPC ? error_text() : "it has too few");
		vectors_.clear();
	} else if (have < first + limits_.channels) {
		log_info("%s: interrupts for the first %u of %u channels; the others poll", dev_->name(), have - first,
			 limits_.channels);
	}
	return 0;
}

int ring_engine::keep_order()
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

/* ---- memory, reset ------------------------------------------------------------------------------------- */

/* Pinning takes seconds for many GiB: the lock, which operations of the driver need, is not held meanwhile. */
int ring_engine::map(const vfio::dma_area &area)
{
	if (int err = dev_->dma_map(area); err < 0)
		return err;
	{
		std::lock_guard guard(host_.lock);

		if (host_.areas.add(area))
			return 0;
	}
	dev_->dma_unmap(area.iova, area.size);
	return no_memory("the list of DMA areas");
}

/* The lock waits for an access that may use the area; later ones find it unmapped. */
int ring_engine::unmap(u64 iova, u64 size)
{
	area_list::node taken;
	{
		std::lock_guard guard(host_.lock);

		taken = host_.areas.take(iova);
	}
	const int err = dev_->dma_unmap(iova, size);
	if (!err || taken.empty())
		return err;
	std::lock_guard guard(host_.lock);
	host_.areas.put_back(std::move(taken));
	return err;
}

/* A function without a reset of its own is stopped by setup(), which suffices. */
int ring_engine::reset()
{
	std::lock_guard guard(lock_);
	int err = 0;

	for (ring_channel *c : open_)
		if (c && !err)
			err = c->freeze();
	const bool frozen = !err;

	if (frozen)
		err = dev_->reset();
	if (frozen && (err == -EOPNOTSUPP || err == -ENOTTY))
		err = 0;
	/* Nothing has changed: they go on. */
	for (ring_channel *c : open_)
		if (c && err < 0)
			c->thaw();
	if (err < 0)
		return err;
	for (ring_channel *c : open_)
		if (c)
			c->forget();
	return setup();
}

/* Contended: a channel is opened or closed, or all are reset. The caller, which polls, comes again. */
void ring_engine::collect()
{
	std::unique_lock guard(lock_, std::try_to_lock);

	if (!guard.owns_lock())
		return;
	for (const ring_channel *c : open_)
		if (c && c->is_begun())
			completed(c);
}

/* With host_.lock held. */
void ring_engine::close_host()
{
	host_.closed = true;
	host_.areas.clear();
}

int ring_engine::give_up()
{
	const int err = engine::give_up();

	if (err)
		return err;
	std::lock_guard guard(host_.lock);

	close_host();
	return 0;
}

/* The driver accesses memory by the CPU, too. */
int ring_engine::quiesce()
{
	std::unique_lock guard(host_.lock, std::try_to_lock);

	if (!guard.owns_lock())
		return -EAGAIN;
	close_host();
	guard.unlock();
	return engine::quiesce();
}

} // namespace usdma::dma
