/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of Intel I/OAT. driver/hw/ioat_regs.h has the device and its quirks; driver/dma/ring_channel.h the path of
 * a request, interrupts and recovery.
 *
 * A request is a descriptor. The device writes its status, with the address of the last completed descriptor, behind
 * each (CHANCMP): the driver derives the number of the last completed request from it. The channel halts at a failure,
 * which is that of the first request that is not completed.
 *
 *   engine.cpp   probe, interrupts, memory, reset
 *   channel.cpp  a channel: its memory, registers and descriptors
 */
#pragma once

#include "driver/dma/ring_engine.h"
#include "driver/hw/ioat_regs.h"

namespace usdma::ioat {

/* What differs between chips. */
struct chip {
	u8 version = 0;             /* as the quirks count it: Skylake is a 3.2 */
	bool loses_vectors = false; /* a channel's reset clears its entry of the MSI-X table */
};

/* Registers of one channel. */
class channel_regs {
public:
	channel_regs(vfio::device &dev, u8 *bar, const chip &c, u32 index)
		: dev_(dev), bar_(bar), chip_(c), base_(chan_base(index))
	{
	}

	/* After a reset: begins with this chain of descriptors. */
	int arm(u64 chain, u64 completion, bool interrupts);
	/* status: CHANSTS, suspended or halted. */
	int suspend(u64 *status);
	/* From any state. */
	int reset();
	/* Hot. */
	void count(u16 descriptors);
	/* One more interrupt may be raised. flush: it has reached the device on return. */
	void rearm(bool flush);
	int status(u64 *out) { return read(chan_sts, out); }
	int error(u32 *out) { return read(chan_err, out); }
	int clear_error(u32 error) { return write(chan_err, error); }

private:
	template <class T> int read(u32 reg, T *out);
	template <class T> int write(u32 reg, T value);
	int write_address(u32 reg, u64 value);
	int stop(u64 ms, u64 *status);
	int clear_errors();

	vfio::device &dev_;
	u8 *bar_; /* nullptr: trapped accesses */
	const chip &chip_;
	u32 base_;
};

/* The first page of a channel's memory; its ring follows. */
struct shared_page {
	dma::completion_record record;
	alignas(64) u64 status; /* CHANCMP: CHANSTS of the last completion, or of a halt */
};

class ioat_engine;

class ioat_channel final : public dma::ring_channel {
public:
	ioat_channel(ioat_engine &e, u32 index_);

	int open(const dma::channel_config &cfg, u32 size) override;

private:
	bool in_hardware(const dma::request &r) const override;
	void build(u64 i, const dma::request &r) override;
	void ring(u64 last) override { regs_.count(u16(last - base_)); }
	int start(u64 first) override;
	int suspend() override;
	int reset() override { return regs_.reset(); }
	bool has_halted() override;
	int read_halted(bool *out) override;
	void read_fault(const dma::request &r, dma::fault_reason *why, u64 *at) override;
	void rearm(bool flush) override { regs_.rearm(flush); }
	void describe_hardware(char *buf, size_t size) override;
	bool has_news(u64 next) const override { return news(next); }
	u64 read_news(u64 next) override { return next - 1 + news(next); }

	u64 address_of(u64 i) const { return ring_iova_ + (i & (slots_ - 1)) * sizeof(descriptor); }
	u64 news(u64 next) const;
	void believe(u64 status);

	ioat_engine &owner_;
	channel_regs regs_;
	u64 ring_iova_ = 0;
	shared_page *page_ = nullptr;
	descriptor *ring_ = nullptr;
	u64 slots_ = 0; /* more than ring_size: when all are completed the last address is not that of before */
	u64 base_ = 0;  /* number of the last slot before the chain's first */
};

class ioat_engine final : public dma::ring_engine {
public:
	explicit ioat_engine(std::unique_ptr<vfio::device> dev) : ring_engine(std::move(dev)) {}
	~ioat_engine() override;

	int start();
	const char *driver_name() const override { return "ioat"; }

	/* After the reset of a channel. */
	void restore_vector(u32 index);
	const chip &quirks() const { return chip_; }

private:
	int read(u32 reg, void *out, size_t len) { return dev_->region_read(vfio::region_bar0, reg, out, len); }
	int check_identity();
	int check_chip();
	int setup() override;
	dma::ring_channel *make_channel(u32 index) override;

	static_assert(max_channels <= most_channels);
	chip chip_;
};

} // namespace usdma::ioat
