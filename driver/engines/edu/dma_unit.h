/* SPDX-License-Identifier: BSD-3-Clause */
/* The device's one DMA unit: registers, its interrupt, one transfer at a time. */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "driver/engines/edu/edu_hw.h"
#include "driver/vfio/device.h"

#include <atomic>

namespace usdma::edu {

struct unit_counters {
	std::atomic<u64> transfers{0}, interrupts{0}, polled{0} /* ended, but no interrupt told */;
};

/* Not thread-safe but for the counters and give_up: who uses it holds the engine's lock. */
class dma_unit {
public:
	explicit dma_unit(vfio::device &dev) : dev_(dev) {}
	dma_unit(const dma_unit &) = delete;
	dma_unit &operator=(const dma_unit &) = delete;

	/* Checks that it is the device, lets it master the bus, sets up the interrupt. */
	int start();
	/* No transfer runs and none can start on return. */
	void stop();
	/* Any thread, without the lock: a transfer that runs ends as if it hung, and none can start, ever. */
	void give_up() { given_up_.store(true, std::memory_order_seq_cst); }
	/* After stop, or when a transfer hung. */
	int restart();

	/* offset counts from the start of device memory. -EIO: hung; -ENODEV: gone; -EINVAL: leaves the memory. */
	int to_device(u64 iova, u64 offset, u64 len);
	int to_host(u64 offset, u64 iova, u64 len);

	const unit_counters &counters() const { return count_; }
	bool has_interrupt() const { return irq_.valid(); }

private:
	int read32(u32 reg, u32 *out);
	int read64(u32 reg, u64 *out);
	int write32(u32 reg, u32 value);
	int write64(u32 reg, u64 value);
	int check_identity();
	void setup_interrupt();
	int transfer(u64 src, u64 dst, u64 len, u64 cmd);
	int await_end();
	void nap();

	vfio::device &dev_;
	mapping regs_; /* empty: by region_read and region_write */
	unique_fd irq_;
	bool broken_ = true;
	std::atomic<bool> given_up_{false};
	unit_counters count_;
};

} // namespace usdma::edu
