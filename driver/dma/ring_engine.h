/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine without memory of its own whose channels are ring_channels: opening and closing them, the memory that is
 * mapped for the device, interrupts, reset. An engine's driver adds probing, and the registers.
 */
#pragma once

#include "driver/dma/ring_channel.h"

#pragma GCC visibility push(default) /* for libusdma-sim, too */
namespace usdma::dma {

class ring_engine : public engine {
public:
	~ring_engine() override;
	/* After a failed start: returns the device. */
	std::unique_ptr<vfio::device> release();

	int channel_open(unsigned index, const channel_config &cfg, channel **out) override;
	int map(const vfio::dma_area &area) override;
	int unmap(u64 iova, u64 size) override;
	int set_memory_base(u64) override { return 0; }
	int reset() override;
	int give_up() override;
	int quiesce() override;
	void collect() override;

	void close(ring_channel *c);
	/* Its registers, as far as map_registers() has mapped them; nullptr: accesses are trapped. */
	u8 *bar() const { return registers_.data(); }
	/* The interrupt of a channel; -1: none. */
	int vector(u32 index) const { return index < vectors_.size() ? vectors_[index].get() : -1; }
	host_memory &host() { return host_; }
	/* It executes nothing any more, and takes no commands. */
	bool is_off() const { return lost() || load_seq_cst(&given_up_); }

protected:
	explicit ring_engine(std::unique_ptr<vfio::device> dev) : engine(std::move(dev)) {}

	/* nullptr: no memory. */
	virtual ring_channel *make_channel(u32 index) = 0;
	/* From any state: then nothing of an earlier user runs, and the device can access memory. */
	virtual int setup() = 0;
	/* For the destructor of a driver, as channels use the driver's registers. */
	void close_all();
	/*
	 * One vector a channel, from this one on, as far as there are any, after limits_ is set. The thread of a
	 * channel without one polls.
	 */
	int setup_interrupts(u32 first, unsigned type = vfio::irq_msix);
	/* The number of a request must not pass its data. */
	int keep_order();
	/* The first bytes of a BAR, if it can be mapped. */
	void map_registers(unsigned region, u64 bytes);
	/* Of a device without memory whose channels share one engine. */
	void set_limits(u64 max_len, u32 channels, u32 ops);

	static constexpr u32 most_channels = 32;
	u32 most_ring_ = 16384; /* requests */

private:
	int make_vectors(u32 first, u32 count, std::vector<int> *raw);
	int try_vectors(unsigned type, u32 first, u32 count);
	void close_host();

	mapping registers_;
	host_memory host_;
	std::vector<unique_fd> vectors_;
	std::mutex lock_; /* open_ */
	ring_channel *open_[most_channels] = {};
};

} // namespace usdma::dma
#pragma GCC visibility pop
