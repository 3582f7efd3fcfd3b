/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of QEMU's edu, for the files of this folder and for tests. The device only transfers between its memory
 * and mapped host memory, one transfer at a time, so each operation is one of softop: by transfers where device memory
 * is involved or data is copied, else by the CPU. A channel is a ring_channel without hardware: its thread runs them
 * all.
 *
 *   edu_dma.cpp  the device's registers, its interrupt, a transfer
 *   move.cpp     softop's access to memory
 *   engine.cpp   probe, memory, reset, channels
 */
#pragma once

#include "driver/dma/ring_engine.h"
#include "driver/engines/edu/edu_dma.h"

namespace usdma::edu {

/* State shared by all channels of a device, protected by the lock of its host memory, which is held for one transfer.
 */
struct shared_state {
	explicit shared_state(vfio::device &dev) : dma(dev) {}

	edu_dma dma;
	u8 *page = nullptr; /* bounce page of memory_bytes */
	u64 page_iova = 0;
	u64 memory_base = 0; /* atomic, as the next */
	/* Device memory is not in use (set_memory_base): all of it may serve as bounce buffer. */
	bool memory_unused = true;
};

class edu_engine;

class edu_channel final : public dma::ring_channel {
public:
	edu_channel(edu_engine &e, u32 index_);

	int open(const dma::channel_config &cfg, u32 size) override;

private:
	bool in_hardware(const dma::request &) const override { return false; }
	void build(u64, const dma::request &) override {}
	void ring(u64) override {}
	int start(u64) override { return 0; }
	int suspend() override { return 0; }
	int reset() override { return 0; }
	bool has_halted() override { return false; }
	int read_halted(bool *out) override
	{
		*out = false;
		return 0;
	}
	void read_fault(const dma::request &, dma::fault_reason *, u64 *) override {}
	void rearm(bool) override {}
	dma::softop::result execute(const dma::request &r, dma::fault_reason *why, u64 *at) override;
	void describe_hardware(char *buf, size_t size) override;
	bool has_news(u64) const override { return false; }
	u64 read_news(u64 next) override { return next - 1; }

	edu_engine &owner_;
};

class edu_engine final : public dma::ring_engine {
public:
	explicit edu_engine(std::unique_ptr<vfio::device> dev);
	~edu_engine() override;

	int start();
	/* After a failed start: returns the device. */
	std::unique_ptr<vfio::device> release();

	const char *driver_name() const override { return "edu"; }
	int set_memory_base(u64 base) override;
	int give_up() override;
	int quiesce() override;

	shared_state &state() { return state_; }
	const engine_counters &counters() const { return state_.dma.counters(); }

private:
	int setup() override;
	dma::ring_channel *make_channel(u32 index) override;
	void stop_all();
	void wipe();
	int map_page();
	int check_reach();
	int probe_address(u64 high, u64 alias);
	void unmap_page();

	shared_state state_;
	unique_fd file_; /* backs memory_ */
	mapping memory_; /* shared_state::page */
};

} // namespace usdma::edu
