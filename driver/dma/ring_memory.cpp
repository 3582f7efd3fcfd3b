/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring_channel's memory: mapped for the device as long as the channel exists. */
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/dma/own_memory.h"
#include "driver/dma/ring_channel.h"

#include <algorithm>

namespace usdma::dma {

int ring_channel::make_memory(const char *name, u64 bytes)
{
	bytes = align_up(bytes, os_page_size());
	int err = own_memory_make(name, bytes, eng->limits().numa_node, &file_, &memory_);

	if (!err)
		err = map_memory({.size = bytes, .vaddr = memory_.data(), .fd = file_.get()});
	record = record_ = reinterpret_cast<completion_record *>(memory_.data());
	record_iova = iova_;
	return err;
}

int ring_channel::map_memory(vfio::dma_area area)
{
	vfio::device &dev = eng->transport();
	u64 next;
	{
		std::lock_guard holding(host_.lock);

		/* For unmap_memory() of each channel, which must not fail. */
		if (!try_reserve(host_.stuck, host_.stuck.size() + eng->limits().channels))
			return no_memory("a ring");
		next = host_.next_own;
	}
	if (int err = own_memory_map(dev, &area, &next); err < 0)
		return err;
	iova_ = area.iova;
	std::unique_lock holding(host_.lock);

	host_.next_own = next;
	/* Another channel may wait for its record. */
	area.prot = vfio::dma_read;
	if (host_.areas.add(area))
		return 0;
	holding.unlock();
	dev.dma_unmap(area.iova, area.size);
	iova_ = 0;
	return no_memory("the list of DMA areas");
}

void ring_channel::unmap_memory()
{
	vfio::device &dev = eng->transport();
	{
		std::lock_guard holding(host_.lock);

		host_.areas.remove(iova_);
	}
	const int err = dev.dma_unmap(iova_, memory_.size());
	if (err && !dev.lost())
		log_warn("%s: cannot unmap a ring: %s", dev.name(), error_text());
	std::lock_guard holding(host_.lock);
	if (!err)
		host_.next_own = std::min(host_.next_own, iova_);
	else
		push_reserved(host_.stuck, std::move(memory_));
}

void ring_channel::retain_memory()
{
	std::lock_guard holding(host_.lock);

	if (!iova_)
		return;
	host_.areas.remove(iova_);
	iova_ = 0;
	push_reserved(host_.stuck, std::move(memory_));
}

ring_channel::~ring_channel()
{
	if (iova_)
		unmap_memory();
}

bool ring_channel::find_fault(const request &r, fault_reason *why, u64 *at)
{
	std::lock_guard holding(host_.lock);

	*why = r.op == opcode::copy ? host_.areas.check(r.src, r.len, vfio::dma_read, at) : fault_reason::none;
	if (*why == fault_reason::none && r.op != opcode::nop)
		*why = host_.areas.check(r.dst, r.len, vfio::dma_write, at);
	return *why != fault_reason::none;
}

} // namespace usdma::dma
