/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/bits.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/dma/own_memory.h"
#include "driver/engines/edu/edu.h"
#include "driver/engines/edu/driver.h"

#include <cinttypes>
#include <cstring>
#include <new>

namespace usdma::edu {

static constexpr u32 channel_count = 8, default_ring = 256, max_ring = 65536;
/* Of the memory that records and the bounce buffer have. */
static constexpr u64 page = 4096;
static_assert(channel_count * sizeof(dma::completion_record) <= page);

static u64 shared_size()
{
	return align_up(2 * page, os_page_size());
}

edu_engine::edu_engine(std::unique_ptr<vfio::device> dev) : engine(std::move(dev)), state_(*dev_)
{
	limits_.max_len = max_length;
	limits_.channels = channel_count;
	limits_.engines = 1;
	limits_.ring_size = default_ring;
	limits_.memory_size = memory_given;
	limits_.caps = dma::cap_memory;
	limits_.ops = 0; /* it only transfers between its memory and host memory; the driver implements all operations
			    by these */
	limits_.numa_node = dev_->numa_node();
}

std::unique_ptr<vfio::device> edu_engine::release()
{
	stop_all();
	return std::move(dev_);
}

edu_engine::~edu_engine()
{
	if (dev_)
		stop_all();
}

/* All data went through device memory: clear it for the next user. */
void edu_engine::wipe()
{
	if (!iova_ || dev_->lost())
		return;
	memset(state_.page, 0, page);
	if (state_.dma.to_device(state_.page_iova, 0, memory_usable) < 0)
		log_warn("%s: cannot clear device memory, which still contains data of this program (%s)", dev_->name(),
			 error_text());
}

void edu_engine::stop_all()
{
	wipe();
	/* Stop the device first: no transfer may access unmapped pages. */
	state_.dma.stop();
	unmap_shared();
}

/* Maps one page for records, one as bounce buffer, at the first free address. */
int edu_engine::map_shared()
{
	vfio::dma_area area;
	int err = dma::own_memory_make("usdma-edu", shared_size(), limits_.numa_node, &file_, &memory_);

	if (err)
		return err;
	area = {.size = shared_size(), .vaddr = memory_.data(), .fd = file_.get()};
	err = dma::own_memory_map(*dev_, &area);
	if (err)
		return err;
	iova_ = area.iova;
	if (!state_.areas.add(area))
		return no_memory("the list of DMA areas");
	state_.page = memory_.data() + page;
	state_.page_iova = iova_ + page;
	return 0;
}

void edu_engine::unmap_shared()
{
	if (!iova_ || dev_->lost())
		return;
	if (dev_->dma_unmap(iova_, shared_size()) < 0)
		log_warn("%s: %s", dev_->name(), error_text());
	iova_ = 0;
}

/* A page mapped during this object's lifetime. */
class trial_page {
public:
	explicit trial_page(vfio::device &dev) : dev_(dev) {}
	~trial_page()
	{
		if (mapped_)
			dev_.dma_unmap(area_.iova, area_.size);
	}
	int map(u64 iova)
	{
		int err = dma::own_memory_make("usdma-edu", os_page_size(), -1, &file_, &memory_);

		if (err < 0)
			return err;
		area_ = {.iova = iova, .size = memory_.size(), .vaddr = memory_.data(), .fd = file_.get()};
		err = dev_.dma_map(area_);
		mapped_ = !err;
		return err;
	}
	u64 *words() const { return reinterpret_cast<u64 *>(memory_.data()); }

private:
	vfio::device &dev_;
	unique_fd file_;
	mapping memory_;
	vfio::dma_area area_;
	bool mapped_ = false;
};

/*
 * By default QEMU's edu silently truncates addresses to 28 bits and would write to the truncated address. So a
 * pattern is copied from a low address to a high one, with a page of ours mapped also at the truncated address.
 */
int edu_engine::probe_address(u64 high, u64 alias)
{
	const u64 pattern = 0x5aa5c33c0ff0a55a ^ now_ns();
	trial_page wide(*dev_), narrow(*dev_);

	if (int err = wide.map(high); err < 0)
		return err;
	if (int err = narrow.map(alias); err < 0)
		return err;
	narrow.words()[0] = pattern;
	if (int err = state_.dma.to_device(alias, 0, 8); err < 0)
		return err;
	if (int err = state_.dma.to_host(0, high + 8, 8); err < 0)
		return err;
	if (wide.words()[1] == pattern)
		return 0;
	if (narrow.words()[1] == pattern)
		return fail(ERANGE, "the device has only 28 address bits: start QEMU with "
				    "-device edu,dma_mask=0xffffffffffffffff");
	return fail(EIO,
		    "a transfer of 8 bytes through the device (from 0x%" PRIx64 " to 0x%" PRIx64 ") did not arrive",
		    alias, high + 8);
}

int edu_engine::check_reach()
{
	vfio::address_limits l;
	int err = dev_->limits(&l);

	if (err < 0 || l.usable.empty())
		return err;
	const vfio::range top = l.usable.back();
	const u64 step = os_page_size();
	u64 high = align_down(top.last, step);
	for (unsigned i = 0; i < 16; i++, high -= step) {
		const u64 alias = high & default_mask;

		if (high <= default_mask || high < top.start || !dma::is_usable(l, alias, step))
			continue;
		err = probe_address(high, alias);
		if (err != -EEXIST)
			return err;
	}
	log_info("%s: its address width was not checked: no free page at both addresses", dev_->name());
	return 0;
}

int edu_engine::start()
{
	if (int err = state_.dma.start(); err < 0)
		return err;
	if (int err = check_reach(); err < 0)
		return err;
	if (int err = map_shared(); err < 0)
		return err;
	log_info("%s: edu over %s, interrupts %s", dev_->name(), dev_->backend(),
		 state_.dma.has_interrupt() ? "by MSI" : "none: polling");
	return 0;
}

int edu_engine::channel_open(unsigned index, const dma::channel_config &cfg, dma::channel **out)
{
	const u32 size = cfg.ring_size ? cfg.ring_size : default_ring;

	if (index >= channel_count)
		return fail(EINVAL, "channel %u: there are %u", index, channel_count);
	if (!is_pow2(size) || size > max_ring)
		return fail(EINVAL, "ring size %u: a power of two up to %u is needed", size, max_ring);
	{
		std::lock_guard guard(lock_);

		if (open_ & bit(index))
			return fail(EBUSY, "channel %u is open already", index);
		open_ |= bit(index);
	}
	auto *c = new (std::nothrow) edu_channel(*this, state_);
	const u64 at = index * sizeof(dma::completion_record);
	int err = -ENOMEM;
	if (c) {
		c->ops = &channel_table;
		c->eng = this;
		c->index = index;
		err = c->begin(cfg, size, reinterpret_cast<dma::completion_record *>(memory_.data() + at), iova_ + at);
	}
	if (err) {
		delete c;
		release_index(index);
		return fail_in(err, "channel %u", index);
	}
	*out = c;
	return 0;
}

void edu_engine::release_index(unsigned index)
{
	std::lock_guard guard(lock_);

	open_ &= ~bit(index);
}

int edu_engine::map(const vfio::dma_area &area)
{
	return dma::map_listed(*dev_, state_.lock, state_.areas, area);
}

int edu_engine::unmap(u64 iova, u64 size)
{
	return dma::unmap_listed(*dev_, state_.lock, state_.areas, iova, size);
}

int edu_engine::set_memory_base(u64 base)
{
	if (base % 8 || base > ~u64(0) - memory_given)
		return fail(EINVAL, "memory base 0x%" PRIx64 " is not a multiple of 8, or too high", base);
	store_relaxed(&state_.memory_unused, false);
	store_relaxed(&state_.memory_base, base);
	return 0;
}

int edu_engine::reset()
{
	std::lock_guard guard(state_.lock);

	state_.dma.stop();
	const int err = dev_->reset();
	/* If the function has no reset of its own, it is quiesced, which suffices here. */
	if (err < 0 && err != -EOPNOTSUPP && err != -ENOTTY)
		return err;
	return state_.dma.restart();
}

/* Without the lock, which the transfer to be aborted holds: the worker would start the next one. */
int edu_engine::give_up()
{
	state_.dma.give_up();
	return engine::give_up();
}

/* The driver copies by CPU, too: it must no longer access the areas. */
int edu_engine::quiesce()
{
	state_.dma.give_up();
	if (!state_.lock.try_lock())
		return -EAGAIN;
	state_.areas.clear();
	state_.lock.unlock();
	return engine::quiesce();
}

static constexpr dma::pci_id ids[] = {{pci_vendor, pci_device}};

const dma::driver driver = {"edu", ids, dma::probe_as<edu_engine>};

} // namespace usdma::edu
