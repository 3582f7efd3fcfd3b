/* SPDX-License-Identifier: BSD-3-Clause */
/* The device's only DMA engine: registers, its interrupt, one transfer at a time. */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "driver/engines/edu/edu_hw.h"
#include "driver/vfio/device.h"

namespace usdma::edu {

/* Atomic. */
struct engine_counters {
	u64 transfers = 0, interrupts = 0, polled = 0 /* completed without an interrupt */;
};

/* Not thread-safe, except for the counters and give_up: callers hold the engine's lock. */
class edu_dma {
public:
	explicit edu_dma(vfio::device &dev) : dev_(dev) {}
	edu_dma(const edu_dma &) = delete;
	edu_dma &operator=(const edu_dma &) = delete;

	/* Checks the identity, enables bus mastering, sets up the interrupt. */
	int start();
	/* On return no transfer runs and none can start. */
	void stop();
	/*
	 * Any thread, without the lock: a running transfer fails as if the device were lost, and no other can start,
	 * ever.
	 */
	void give_up() { store_seq_cst(&given_up_, true); }
	/* Call after stop() or a hung transfer. */
	int restart();

	/* offset: within device memory. -EIO: hung; -ENODEV: lost; -EINVAL: out of range. */
	int to_device(u64 iova, u64 offset, u64 len);
	int to_host(u64 offset, u64 iova, u64 len);

	const engine_counters &counters() const { return count_; }
	bool has_interrupt() const { return irq_.valid(); }

private:
	/* Of 4 or 8 bytes. */
	template <class T> int read(u32 reg, T *out);
	template <class T> int write(u32 reg, T value);
	int check_identity();
	void setup_interrupt();
	int transfer(u64 src, u64 dst, u64 len, u64 cmd);
	int await_end();
	void nap();

	vfio::device &dev_;
	mapping regs_; /* empty: use region_read and region_write */
	unique_fd irq_;
	bool broken_ = true;
	bool given_up_ = false; /* atomic */
	engine_counters count_;
};

} // namespace usdma::edu
