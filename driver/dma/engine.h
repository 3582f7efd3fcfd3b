/* SPDX-License-Identifier: BSD-3-Clause */
/* A DMA engine (one device function): its limits, its channels, its memory, the host memory that it may reach. */
#pragma once

#include "driver/dma/channel.h"
#include "driver/vfio/device.h"

#include <atomic>
#include <memory>
#include <string>

namespace usdma::dma {

enum capability : u32 {
	cap_memory = 1,        /* has memory of its own, else the library lends it host memory */
	cap_memory_zeroed = 2, /* its memory is all zeros when a process opens it */
};

struct engine_limits {
	u64 max_len = 0;     /* bytes in one request */
	u32 channels = 0;    /* that can be opened */
	u32 engines = 0;     /* units that run at the same time; channel i belongs to unit i % engines */
	u32 ring_size = 0;   /* of a channel, by default */
	u64 memory_size = 0; /* bytes of device memory */
	u32 caps = 0;
	u32 ops = 0; /* op_bit() of each operation that the hardware runs; the others the driver runs by softop.h */
	int numa_node = -1;
};

struct channel_config {
	u32 ring_size = 0;      /* power of two; 0: the engine's default */
	u64 first_seq = 0;      /* completed starts here (tests start near 2^32) */
	u32 coalesce_count = 1; /* service interrupt: at most one in so many ends … */
	u32 coalesce_us = 0;    /* … or so many microseconds */
};

class engine {
public:
	virtual ~engine() = default;

	const engine_limits &limits() const { return limits_; }
	vfio::device &transport() const { return *dev_; }
	virtual const char *driver_name() const = 0;

	virtual int channel_open(unsigned index, const channel_config &cfg, channel **out) = 0;

	/* Host memory: exactly the transport's mapping unless the engine needs more. */
	virtual int map(const vfio::dma_area &area) { return dev_->dma_map(area); }
	virtual int unmap(u64 iova, u64 size) { return dev_->dma_unmap(iova, size); }

	/* Device memory.  Requests and indirect descriptors name its bytes as base … base + memory_size. */
	virtual int set_memory_base(u64 base) = 0;
	/* The CPU's view of it; nullptr where it cannot be mapped. */
	virtual u8 *memory() { return nullptr; }
	/* A file that backs it, for peers; borrowed; -1: none. */
	virtual int memory_fd(u64 *offset)
	{
		*offset = 0;
		return -1;
	}

	/* Stops all channels and resets the function; channels must be closed and opened again. */
	virtual int reset() { return dev_->reset(); }
	/*
	 * For good, whatever the channels were doing: on a return of 0 the device reaches no memory any more, even
	 * where the function has no reset of its own.  To be called once, with channels open; then they can only be
	 * closed.
	 */
	virtual int give_up();
	/* As vfio::device::quiesce(). */
	virtual int quiesce() { return given_up_ ? 0 : dev_->quiesce(); }
	bool lost() const { return dev_->lost(); }

protected:
	explicit engine(std::unique_ptr<vfio::device> dev) : dev_(std::move(dev)) {}

	std::unique_ptr<vfio::device> dev_;
	engine_limits limits_;
	std::atomic<bool> given_up_{false}; /* give_up() was sure of it */
};

} // namespace usdma::dma
