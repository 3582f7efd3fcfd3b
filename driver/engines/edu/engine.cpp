/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/dma/own_memory.h"
#include "driver/dma/registry.h"
#include "driver/engines/edu/edu.h"

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>

namespace usdma::edu {

static constexpr u32 channel_count = 8, default_ring = 256, max_ring = 65536;

edu_engine::edu_engine(std::unique_ptr<vfio::device> dev) : ring_engine(std::move(dev)), state_(*dev_)
{
	most_ring_ = max_ring;
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
	return ring_engine::release();
}

edu_engine::~edu_engine()
{
	close_all();
	if (dev_)
		stop_all();
}

/* All data went through device memory: clear it for the next user. */
void edu_engine::wipe()
{
	if (!state_.page_iova || dev_->lost())
		return;
	memset(state_.page, 0, memory_bytes);
	if (state_.dma.to_device(state_.page_iova, 0, memory_usable) < 0)
		log_warn("%s: cannot clear device memory, which still contains data of this program (%s)", dev_->name(),
			 error_text());
}

void edu_engine::stop_all()
{
	wipe();
	/* Stop the device first: no transfer may access unmapped pages. */
	state_.dma.stop();
	unmap_page();
}

/* The bounce buffer. */
int edu_engine::map_page()
{
	int err = dma::own_memory_make("usdma-edu", os_page_size(), limits_.numa_node, &file_, &memory_);
	vfio::dma_area area = {.size = memory_.size(), .vaddr = memory_.data(), .fd = file_.get()};

	if (!err)
		err = dma::own_memory_map(*dev_, &area, &host().next_own);
	if (err)
		return err;
	state_.page = memory_.data();
	state_.page_iova = area.iova;
	return 0;
}

void edu_engine::unmap_page()
{
	if (!state_.page_iova || dev_->lost())
		return;
	if (dev_->dma_unmap(state_.page_iova, memory_.size()) < 0)
		log_warn("%s: %s", dev_->name(), error_text());
	state_.page_iova = 0;
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
	if (int err = map_page(); err < 0)
		return err;
	log_info("%s: edu over %s, interrupts %s", dev_->name(), dev_->backend(),
		 state_.dma.has_interrupt() ? "by MSI" : "none: polling");
	return 0;
}

edu_channel::edu_channel(edu_engine &e, u32 index_) : ring_channel(e, e.host(), index_), owner_(e) {}

int edu_channel::open(const dma::channel_config &cfg, u32 size)
{
	if (int err = make_memory("usdma-edu", sizeof(dma::completion_record)); err < 0)
		return err;
	ring_size = size;
	return begin(cfg, -1);
}

void edu_channel::describe_hardware(char *buf, size_t size)
{
	const engine_counters &n = owner_.counters();

	snprintf(buf, size, "%llu transfers, %llu interrupts",
		 static_cast<unsigned long long>(load_relaxed(&n.transfers)),
		 static_cast<unsigned long long>(load_relaxed(&n.interrupts)));
}

dma::ring_channel *edu_engine::make_channel(u32 index)
{
	return new (std::nothrow) edu_channel(*this, index);
}

int edu_engine::set_memory_base(u64 base)
{
	if (base % 8 || base > ~u64(0) - memory_given)
		return fail(EINVAL, "memory base 0x%" PRIx64 " is not a multiple of 8, or too high", base);
	store_relaxed(&state_.memory_unused, false);
	store_relaxed(&state_.memory_base, base);
	return 0;
}

/* A function without a reset of its own is stopped, which suffices here. */
int edu_engine::setup()
{
	std::lock_guard guard(host().lock);

	state_.dma.stop();
	return state_.dma.restart();
}

/* Without the lock, which the transfer to be aborted holds: the thread would start the next one. */
int edu_engine::give_up()
{
	state_.dma.give_up();
	return ring_engine::give_up();
}

int edu_engine::quiesce()
{
	state_.dma.give_up();
	return ring_engine::quiesce();
}

int probe(std::unique_ptr<vfio::device> &dev, std::unique_ptr<dma::engine> *out)
{
	return dma::probe_as<edu_engine>(dev, out);
}

} // namespace usdma::edu
