/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records the accesses to a device's registers, and counts its interrupts. The device is wrapped: regions of registers
 * are not mapped, so that each access is a call. An engine that runs without this has no part of it.
 */
#pragma once

#include "driver/dma/registry.h"
#include "tools/usdmactl/irq_counter.h"

#include <mutex>
#include <vector>

namespace usdma::ctl::trial {

struct register_access {
	bool is_write;
	u8 region, width;
	u32 count; /* reads of the same value in a row */
	u64 offset, value;

	bool operator==(const register_access &) const = default;
};

/* Accesses of the current step. Thread-safe. */
class trace {
public:
	/* most: that are saved; more are counted. */
	explicit trace(size_t most) : most_(most) {}
	void add(bool is_write, unsigned region, u64 offset, const void *value, size_t len);
	irq_counter interrupts;
	/* The accesses of this step, and how many there were; the next step begins. */
	std::vector<register_access> take(u64 *total);

private:
	const size_t most_;
	std::mutex lock_;
	std::vector<register_access> list_;
	u64 total_ = 0;
};

/* dev, with its accesses to configuration space and to the regions of `registers` in t, which outlives it. */
std::unique_ptr<vfio::device> traced(std::unique_ptr<vfio::device> dev, std::span<const dma::named_register> registers,
				     trace *t);

} // namespace usdma::ctl::trial
