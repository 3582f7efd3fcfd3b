/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of HiSilicon's DMA engine. driver/hw/hisi_regs.h has the device and its quirks; driver/dma/ring_channel.h
 * the path of a request, interrupts and recovery.
 *
 * A channel is a queue, a request a submission. All are fenced, so they end in order. The device reports the end of
 * each in the completion ring with a status, and goes on after one that failed, as in both public drivers: so requests
 * behind a failed one may have run. These are not run again, but those that failed.
 *
 *   engine.cpp   probe, interrupts, memory, reset
 *   channel.cpp  a channel: its memory, registers, submissions and completions
 */
#pragma once

#include "driver/dma/ring_engine.h"
#include "driver/dma/status_channel.h"
#include "driver/hw/hisi_regs.h"

namespace usdma::hisi {

/* Registers of one queue. */
class queue_regs {
public:
	queue_regs(vfio::device &dev, u8 *bar, const layout &l, u32 index)
		: dev_(dev), bar_(bar), layout_(l), base_(queue_at(l, index))
	{
	}

	/* From any state: idle, its interrupts masked. */
	int reset();
	/* After a reset. Without a vector of its own its messages might be those of another queue: they stay masked. */
	int start(u64 sq, u64 cq, u32 depth, bool has_vector);
	/* Completes what it has begun. */
	int pause();
	int unpause() { return change(q_ctrl0, ctrl0_pause, 0); }
	int state(u32 *out);
	/* Hot. */
	void put(u32 reg, u32 value);
	/* flush: it has reached the device on return, and what the device wrote before has reached memory. */
	void mask(bool on, bool flush);

private:
	int read(u32 reg, u32 *out);
	int write(u32 reg, u32 value)
	{
		return dev_.region_write(vfio::region_bar2, base_ + reg, &value, sizeof(value));
	}
	int change(u32 reg, u32 clear, u32 set);
	int mask_all();
	int set_rings(u64 sq, u64 cq, u32 depth);
	template <class F> int wait(u64 ms, const char *what, const F &is_so);

	vfio::device &dev_;
	u8 *bar_; /* nullptr: trapped accesses */
	const layout &layout_;
	u32 base_;
};

/* The first page of a channel's memory; the rings follow. */
struct shared_page {
	dma::completion_record record;
	u64 unused[2]; /* a request without an operation copies from one to the other */
};

class hisi_engine;

class hisi_channel final : public dma::status_channel {
public:
	hisi_channel(hisi_engine &e, u32 index_);

	int open(const dma::channel_config &cfg, u32 size) override;

private:
	bool in_hardware(const dma::request &r) const override;
	void build(u64 i, const dma::request &r) override;
	void ring(u64 last) override;
	int start(u64 first) override;
	int suspend() override;
	int reset() override { return regs_.reset(); }
	int read_halted(bool *out) override;
	void read_fault(const dma::request &r, dma::fault_reason *why, u64 *at) override;
	void rearm(bool flush) override { regs_.mask(false, flush); }
	void disarm() override { regs_.mask(true, false); }
	void describe_hardware(char *buf, size_t size) override;

	bool has_reports() const override;
	void read_reports() override;
	void took_news() override { store_release(&read_, reading_); }

	u64 entry_of(u64 i) const { return (i - base_) & (entries_ - 1); }
	bool is_valid(u64 read, u64 *word) const;

	hisi_engine &owner_;
	queue_regs regs_;
	u64 entries_ = 0; /* of both rings; more than ring_size, as head and tail of a full ring are equal */
	shared_page *page_ = nullptr;
	submission *ring_ = nullptr;
	completion *done_ = nullptr;
	u64 base_ = 0;  /* number of the slot at the beginning of the ring */
	u64 given_ = 0; /* completions of which the device knows that they were read */

	/* Changed with collect_lock_ held; read by any thread. */
	u64 read_ = 0, reading_ = 0; /* completions that were read since the start; the first does not run ahead */
};

class hisi_engine final : public dma::ring_engine {
public:
	explicit hisi_engine(std::unique_ptr<vfio::device> dev) : ring_engine(std::move(dev)) {}
	~hisi_engine() override;

	int start();
	const char *driver_name() const override { return "hisi"; }

	const layout &registers() const { return *layout_; }

private:
	int check_identity();
	int set_mode();
	int setup() override;
	dma::ring_channel *make_channel(u32 index) override;

	static_assert(hip08.queues <= most_channels && hip09.queues <= most_channels);
	const layout *layout_ = nullptr;
};

} // namespace usdma::hisi
