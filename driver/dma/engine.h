/* SPDX-License-Identifier: BSD-3-Clause */
/* A DMA engine (one device function): its limits, channels, memory, and the host memory that it can access. */
#pragma once

#include "driver/base/barrier.h"
#include "driver/dma/channel.h"
#include "driver/vfio/device.h"

#include <memory>
#include <string>

#pragma GCC visibility push(default) /* for libusdma-sim, too */
namespace usdma::dma {

enum capability : u32 {
	cap_memory = 1,        /* has memory of its own; otherwise the library provides host memory */
	cap_memory_zeroed = 2, /* its memory is all zeros when a process opens it */
	cap_memory_cached =
		4, /* memory() is cached and coherent: the CPU copies as fast as the engine, with its effects */
	cap_wait_takes = 8, /* wait_take is one atomic access, and the engine of wait_reported does not poll */
};

struct engine_limits {
	u64 max_len = 0;     /* bytes in one request */
	u32 channels = 0;    /* that can be opened */
	u32 engines = 0;     /* engines that run in parallel; channel i belongs to engine i % engines */
	u32 ring_size = 0;   /* of a channel, by default */
	u64 memory_size = 0; /* bytes of device memory */
	u32 caps = 0;
	u32 ops = 0; /* op_bit() of each operation that the hardware runs; the driver runs the others by softop.h */
	int numa_node = -1;
};

struct channel_config {
	u32 ring_size = 0;      /* power of two; 0: the engine's default */
	u64 first_seq = 0;      /* completed starts here (tests start near 2^32) */
	u32 coalesce_count = 1; /* service interrupt: at most one per so many completions … */
	u32 coalesce_us = 0;    /* … or so many microseconds */
};

class engine {
public:
	virtual ~engine() = default;

	const engine_limits &limits() const { return limits_; }
	vfio::device &transport() const { return *dev_; }
	virtual const char *driver_name() const = 0;

	virtual int channel_open(unsigned index, const channel_config &cfg, channel **out) = 0;

	/* Host memory: the transport's mapping unless the engine needs more. */
	virtual int map(const vfio::dma_area &area) { return dev_->dma_map(area); }
	virtual int unmap(u64 iova, u64 size) { return dev_->dma_unmap(iova, size); }

	/* Device memory. Requests and indirect descriptors address it as base … base + memory_size. */
	virtual int set_memory_base(u64 base) = 0;
	/* The CPU mapping of device memory; nullptr if it cannot be mapped. */
	virtual u8 *memory() { return nullptr; }
	/* The file that backs device memory, for peers; borrowed; -1: none. */
	virtual int memory_fd(u64 *offset)
	{
		*offset = 0;
		return -1;
	}

	/* Stops all channels and resets the function; channels must be closed and opened again. */
	virtual int reset() { return dev_->reset(); }
	/*
	 * Disables the device permanently, whatever the channels are doing: on return of 0 it accesses no memory any
	 * more, even if the function has no reset of its own. Call once, with channels open; they can then only be
	 * closed.
	 */
	virtual int give_up();
	/* Any thread: the records of its channels are up to date, as after completed() of each. */
	virtual void collect() {}
	/* As vfio::device::quiesce(). */
	virtual int quiesce() { return load_seq_cst(&given_up_) ? 0 : dev_->quiesce(); }
	bool lost() const { return dev_->lost(); }

protected:
	explicit engine(std::unique_ptr<vfio::device> dev) : dev_(std::move(dev)) {}

	std::unique_ptr<vfio::device> dev_;
	engine_limits limits_;
	bool given_up_ = false; /* give_up() succeeded; atomic */
};

} // namespace usdma::dma
#pragma GCC visibility pop
