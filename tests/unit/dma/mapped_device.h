/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model whose registers act on access, behind memory that a driver maps instead of its BAR: a store to a doorbell
 * does nothing until forward() writes it to the model. It raises no interrupts. What is written by messages gets there
 * at once, but for the DSA's portals.
 */
#pragma once

#include "tests/unit/dma/forwarding_device.h"

#include "driver/base/barrier.h"
#include "driver/base/mapping.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

namespace usdma::test {

/* A doorbell in the BAR of this index. */
struct doorbell_register {
	u32 region;
	u64 at;
	u32 bytes;
};

class mapped_device final : public forwarding_device {
public:
	mapped_device(std::unique_ptr<vfio::device> below, std::span<const doorbell_register> doorbells)
		: forwarding_device(std::move(below)), doorbells_(doorbells), written_(doorbells.size())
	{
	}
	int region(unsigned i, vfio::region_info *out) override
	{
		const int err = dev_->region(i, out);

		if (!doorbells_.empty() && i == doorbells_[0].region)
			out->flags |= vfio::region_mappable;
		return err;
	}
	int region_map(unsigned i, u64, u64 size, mapping *out) override
	{
		if (doorbells_.empty() || i != doorbells_[0].region)
			return -EOPNOTSUPP;
		bar = static_cast<u8 *>(
			mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		*out = mapping(bar, size);
		return 0;
	}
	int region_write(unsigned i, u64 at, const void *buf, size_t len) override
	{
		if (!doorbells_.empty() || i != vfio::region_bar2)
			return dev_->region_write(i, at, buf, len);
		memcpy(portal_, buf, std::min(len, sizeof(portal_)));
		portal_at_ = at;
		return 0;
	}
	int irq(unsigned i, vfio::irq_info *out) override
	{
		const int err = dev_->irq(i, out);

		out->count = 0;
		return err;
	}

	void forward()
	{
		for (size_t i = 0; i < doorbells_.size(); i++) {
			const doorbell_register &d = doorbells_[i];
			const u64 now = d.bytes == 2 ? load_acquire(reinterpret_cast<u16 *>(bar + d.at)) :
						       load_acquire(reinterpret_cast<u32 *>(bar + d.at));

			if (now != written_[i])
				dev_->region_write(d.region, d.at, &now, d.bytes);
			written_[i] = now;
		}
		if (portal_at_ != ~u64(0))
			dev_->region_write(vfio::region_bar2, portal_at_, portal_, sizeof(portal_));
		portal_at_ = ~u64(0);
	}

	u8 *bar = nullptr;

private:
	std::span<const doorbell_register> doorbells_; /* none: portals, one descriptor at a time */
	std::vector<u64> written_;
	alignas(64) u8 portal_[64] = {};
	u64 portal_at_ = ~u64(0);
};

} // namespace usdma::test
