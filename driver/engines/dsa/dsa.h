/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of Intel DSA. driver/hw/dsa_regs.h has the device and its rules; driver/dma/ring_channel.h the path of a
 * request, interrupts and recovery.
 *
 * A channel is a dedicated work queue. A request is a descriptor in memory, whose completion record has its status and
 * the address of a fault. Several are submitted as a batch, in which the Fence flag lets each begin when those before
 * it have ended, and stops it at the first failure; one alone is submitted by itself. Order exists within a batch only,
 * so the next one is submitted when all requests of the one before have completed: by the doorbell, or else by the
 * channel's thread, for which the batch, or a drain behind it, raises an interrupt.
 *
 *   engine.cpp   probe, commands, interrupts, memory, reset
 *   channel.cpp  a channel: its memory, descriptors, batches
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/dma/ring_engine.h"
#include "driver/hw/dsa_regs.h"

namespace usdma::dsa {

inline constexpr u32 max_channels = 16;

/* The first page of a channel's memory; its ring and the requests' records follow. */
struct shared_page {
	dma::completion_record record;
	completion batch; /* of a batch that cannot be read */
};

/* SWERROR has an error of this queue. */
constexpr bool is_error_of(u32 index, u64 swerror)
{
	return swerror & swerr_valid && swerror & swerr_has_wq && (swerror >> swerr_wq_shift & 0xff) == index;
}

class dsa_engine;

class dsa_channel final : public dma::ring_channel {
public:
	dsa_channel(dsa_engine &e, u32 index_);

	int open(const dma::channel_config &cfg, u32 size) override;

private:
	bool in_hardware(const dma::request &r) const override;
	void build(u64 i, const dma::request &r) override;
	void ring(u64 last) override
	{
		last_ = last;
		proceed();
	}
	void proceed() override;
	int start(u64 first) override;
	int suspend() override;
	int reset() override;
	int quiesce() override;
	void was_reset() override;
	bool has_halted() override;
	int read_halted(bool *out) override;
	int poll_halted(bool *halted) override;
	void read_fault(const dma::request &r, dma::fault_reason *why, u64 *at) override;
	void rearm(bool flush) override;
	void describe_hardware(char *buf, size_t size) override;

	bool has_news(u64 next) const override { return status_of(next); }
	u64 read_news(u64 next) override;

	work &slot(u64 i) const { return ring_[i & (ring_size - 1)]; }
	completion &done(u64 i) const { return done_[i & (ring_size - 1)]; }
	/* What it wrote before is visible. */
	u8 status_of(u64 i) const { return load_device(&done(i).status); }
	u8 failure() const;
	bool is_done();
	u32 next_batch() const;
	void submit(u32 requests, bool more);
	void submit_drain();

	dsa_engine &owner_;
	shared_page *page_ = nullptr;
	work *ring_ = nullptr;
	completion *done_ = nullptr;
	bool enabled_ = false;
	bool unsure_ = true;      /* whether it is: it was another channel's, or a command has failed */
	u64 sent_ = 0, last_ = 0; /* slots that were submitted, and that are to be */

	futex_lock batch_lock_;   /* orders batches and drains, and protects what follows */
	u64 newest_ = 0;          /* last slot of the newest batch */
	bool is_batch_ = false;   /* it has several requests */
	bool has_failed_ = false; /* one of a batch has, since the queue was enabled */
	bool raises_ = false;     /* it will raise an interrupt, or a drain behind it */
	bool wanted_ = false;     /* the next one shall */
};

class dsa_engine final : public dma::ring_engine {
public:
	explicit dsa_engine(std::unique_ptr<vfio::device> dev) : ring_engine(std::move(dev)) {}
	~dsa_engine() override;

	int start();
	const char *driver_name() const override { return "dsa"; }

	template <class T> int read(u32 reg, T *out)
	{
		return dev_->region_read(vfio::region_bar0, reg, out, sizeof(T));
	}
	/* -EIO: the function is off. */
	int read_state(u32 reg, u32 *out);
	template <class T> int write(u32 reg, T value)
	{
		return dev_->region_write(vfio::region_bar0, reg, &value, sizeof(T));
	}
	/* Runs an administrative command, one at a time. result: may be null. */
	int run(command code, u32 operand, u32 *result = nullptr);
	/* Disabled and without its descriptors on return. is_idle: it has none. */
	int reset_queue(u32 index, bool is_idle);
	/* In SWERROR, unless it is another queue's. */
	void clear_error(u32 index);
	/* Configures and enables the queue of a channel. */
	int enable_queue(u32 index);
	/* A register of a queue's configuration. */
	u32 queue_reg(u32 index, u32 word) const { return chip_.queues_at + index * chip_.queue_bytes + word * 4; }
	/* Hot: hands a descriptor to a queue. */
	void submit(u32 index, const work &w);
	bool copies_overlap() const { return chip_.gencap & gencap_overlap; }
	u32 cache_flag() const { return chip_.gencap & gencap_cache ? u32(flag_cache1) : 0; }
	u16 handle(u32 index) const { return chip_.handles[index]; }
	/* They are mapped. */
	bool has_portals() const { return portals_.data() != nullptr; }
	u32 batch_size() const { return 1u << chip_.batch_log2; }

private:
	int check_identity();
	int check_capabilities(u64 wqcap, u64 grpcap, u64 engcap, u64 opcap);
	int map_portals();
	int setup() override;
	int setup_groups();
	int set_class(u32 at);
	int setup_permissions();
	dma::ring_channel *make_channel(u32 index) override;
	int wait_command(u32 *status);
	int execute(command code, u32 operand, u32 *status);
	void disable();

	static_assert(max_channels <= most_channels);
	mapping portals_; /* empty: by messages */
	bool is_set_up_ = false;
	std::mutex command_lock_;
	struct {
		u64 gencap = 0, offsets = 0;
		u32 version = 0, groups = 0, queue_slots = 0, queue_bytes = 0, queues_at = 0, batch_log2 = 0;
		bool has_handles = false, has_opcfg = false;
		u16 handles[max_channels] = {};
	} chip_;
};

} // namespace usdma::dsa
