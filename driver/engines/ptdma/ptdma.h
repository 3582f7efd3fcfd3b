/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of AMD's PTDMA. driver/hw/ptdma_regs.h has the device and its rules; driver/dma/ring_channel.h the path of
 * a request, interrupts and recovery, and what each function has to do.
 *
 * The device says that a descriptor has ended, or failed, and not which. So one is in flight at a time: the thread that
 * finds that it has ended, a waiter that polls or the channel's thread after an interrupt, submits the next.
 *
 *   engine.cpp   probe, interrupts, memory, reset
 *   channel.cpp  the channel: its memory, registers and descriptors
 */
#pragma once

#include "driver/dma/ring_engine.h"
#include "driver/hw/ptdma_regs.h"

namespace usdma::ptdma {

/* Registers of the queue. */
class queue_regs {
public:
	queue_regs(vfio::device &dev, u8 *bar) : dev_(dev), bar_(bar) {}

	/* Runs no further descriptor, raises no interrupt, and reports nothing of before. */
	int stop();
	/* Of a stopped queue: at the beginning of the ring, which runs nothing yet. */
	int start(u64 ring);
	/* Hot: runs what is in front of this address in the ring. */
	void run(u64 ring, u64 tail);
	/* The queue has failed: it goes on at the tail. */
	int skip(u64 tail);
	int read(u32 reg, u32 *out);
	/* Hot. 0 if the device does not answer. */
	u32 int_status() const;
	/* Hot. */
	void put(u32 reg, u32 value);

private:
	int write(u32 reg, u32 value) { return dev_.region_write(vfio::region_bar2, reg, &value, sizeof(value)); }

	vfio::device &dev_;
	u8 *bar_; /* nullptr: trapped accesses */
};

/* The first page of the channel's memory; the queue's ring and the descriptors of pending requests follow. */
struct shared_page {
	dma::completion_record record;
	alignas(64) u64 unused[2]; /* a request without an operation copies from one to the other */
};

class ptdma_engine;

class ptdma_channel final : public dma::ring_channel {
public:
	ptdma_channel(ptdma_engine &e, u32 index_);

	int open(const dma::channel_config &cfg, u32 size) override;

private:
	bool in_hardware(const dma::request &r) const override;
	void build(u64 i, const dma::request &r) override;
	void ring(u64 last) override;
	int start(u64 first) override;
	int suspend() override;
	int reset() override;
	int quiesce() override;
	void was_reset() override;
	bool has_halted() override;
	int read_halted(bool *out) override;
	void read_fault(const dma::request &r, dma::fault_reason *why, u64 *at) override;
	void rearm(bool flush) override;
	void disarm() override;
	void describe_hardware(char *buf, size_t size) override;
	bool has_news(u64 next) const override;
	u64 read_news(u64 next) override;
	void took_news() override;

	bool is_idle();
	bool await_idle(u64 ms);
	void submit_next();
	void enable_interrupt(bool on);
	descriptor &slot(u64 i) { return slots_[i & (ring_size - 1)]; }
	u64 tail() const { return iova_of(ring_) + next_ * sizeof(descriptor); }

	ptdma_engine &owner_;
	queue_regs regs_;
	shared_page *page_ = nullptr;
	descriptor *ring_ = nullptr, *slots_ = nullptr;

	/* Changed with collect_lock_ held. */
	u64 sent_ = 0;   /* number of the last slot that was submitted; atomic */
	u64 failed_ = 0; /* it has failed; atomic */
	u32 next_ = 0;   /* entry of the queue's ring */
	bool in_flight_ = false;
	bool ended_ = false;  /* … and is to be acknowledged */
	bool holds_ = true;   /* nothing is submitted */
	bool begun_ = false;  /* the queue knows the ring */
	bool raises_ = false; /* its interrupt is enabled */
};

class ptdma_engine final : public dma::ring_engine {
public:
	explicit ptdma_engine(std::unique_ptr<vfio::device> dev) : ring_engine(std::move(dev)) {}
	~ptdma_engine() override;

	int start();
	const char *driver_name() const override { return "ptdma"; }

	/* From any state, as setup(). -EOPNOTSUPP or -ENOTTY: the function has no reset. */
	int reset_function();
	bool has_reset() const { return has_reset_; }

private:
	int check_identity();
	int setup() override;
	unsigned interrupt_type();
	dma::ring_channel *make_channel(u32 index) override;

	static_assert(queue_count <= most_channels);
	bool has_reset_ = true;
};

} // namespace usdma::ptdma
