/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver of the reference engine.
 *   probe.cpp    identity and sanity checks
 *   engine.cpp   memory, interrupts, reset
 *   channel.cpp  opening and closing a channel
 *   ring.cpp     the hot path
 *   recover.cpp  faults: cancel, stop, resume
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "driver/dma/engine.h"
#include "driver/dma/registry.h"
#include "driver/hw/sdma_regs.h"

#include <mutex>
#include <vector>

namespace usdma::sdma {

/* Timeout of a device command. */
inline constexpr u64 command_ms = 5000;

/* Trapped register accesses; 0 or -errno with a text that names the register. */
int reg_read(vfio::device &dev, u64 offset, u32 *out);
int reg_read(vfio::device &dev, u64 offset, u64 *out);
int reg_write(vfio::device &dev, u64 offset, u32 value);
int reg_write(vfio::device &dev, u64 offset, u64 value);

class sdma_engine;

/* Of a channel without that interrupt. */
inline constexpr u32 no_vector = 0xffff;

struct sdma_channel : dma::channel {
	descriptor *ring = nullptr;
	u64 mask = 0;
	u8 *doorbell = nullptr; /* the mapped doorbell page; nullptr: trapped writes */
	u64 fence_word = 0;
	int wake_fd = -1; /* the device's eventfd for chan_wake; -1: trapped writes */

	sdma_engine *owner = nullptr;
	dma::channel_config cfg;
	u32 completion_vector = no_vector;
	bool off = false; /* aborted: resume re-enables it */
	mapping memory;   /* status block, then the ring from ring_at on */
	mapping doorbell_page;
	unique_fd file;
	u64 iova = 0; /* of memory; 0: not mapped */
	status_block *status = nullptr;
};

class sdma_engine final : public dma::engine {
public:
	explicit sdma_engine(std::unique_ptr<vfio::device> dev) : engine(std::move(dev)) {}
	~sdma_engine() override;

	/* Reads and checks the device's properties; changes nothing. */
	int identify();
	/* Resets the registers, enables the function, sets up interrupts and maps device memory. */
	int start();
	/* Returns the device to the caller after a failed probe. */
	std::unique_ptr<vfio::device> release() { return std::move(dev_); }

	const char *driver_name() const override { return "sdma"; }
	int channel_open(unsigned index, const dma::channel_config &cfg, dma::channel **out) override;
	int set_memory_base(u64 base) override;
	u8 *memory() override { return memory_.data(); }
	int memory_fd(u64 *offset) override;
	int reset() override;

	/* During a reset a channel's command does not complete; the reset ends all. */
	bool is_resetting() const { return load_relaxed(&resetting_); }
	bool has_heartbeat() const { return hw_caps_ & hw_cap_heartbeat; }
	bool has_completion_irq() const { return hw_caps_ & hw_cap_completion; }
	/* It never sleeps, or makes our CPUs execute a barrier before it does. */
	bool sleep_is_ordered() const { return !(hw_caps_ & hw_cap_sleep) || hw_caps_ & hw_cap_sleep_ordered; }
	int map_ring(sdma_channel *c);
	/*
	 * Afterwards the device cannot access the ring's memory, or the memory is retained until the device is
	 * closed.
	 */
	void unmap_ring(sdma_channel *c);
	void remove_channel(sdma_channel *c);
	/* As channel_ops. */
	int completion_fd(sdma_channel *c);
	/* Configures and enables the channel; completed starts at first_seq. */
	int program(sdma_channel *c, u64 first_seq);

private:
	int check_bars();
	int check_identity();
	int enable();
	u32 waiter_vector(u32 channel) const { return 1 + channel % waiters_; }
	u32 take_completion_vector(u32 channel);
	int connect_completion(u32 vector);
	int count_vectors(u32 *out);
	int try_vectors(u32 n);
	int setup_vectors();
	int map_memory();
	int check_config(const dma::channel_config &cfg, u32 ring_size) const;
	int setup(sdma_channel *c, const dma::channel_config &cfg);

	std::mutex lock_;                      /* channels_, next_ring_ */
	std::vector<sdma_channel *> channels_; /* by index; nullptr: closed */
	u64 next_ring_ = 0;                    /* see own_memory_map() */
	u64 page_size_ = 4096;                 /* of the IOMMU, or of the OS, if that is larger */
	/* 0: service, for all channels; waiters_: waiters of some channels each; the rest: completions of one each */
	std::vector<unique_fd> vectors_;
	std::mutex connect_lock_;  /* of the rest: one thread connects them, see completion_fd() */
	u64 connect_again_ns_ = 0; /* under it */
	u32 waiters_ = 1;
	std::vector<u32> completion_of_; /* of the rest: the channel + 1; 0: free; under lock_ */
	std::vector<mapping> stuck_;     /* memory of closed channels that the device may still access */
	mapping memory_;
	u64 memory_base_ = 0;
	u64 hw_caps_ = 0;
	u32 min_ring_ = 0, max_ring_ = 0;
	u32 hw_vectors_ = 0;
	bool resetting_ = false; /* atomic */
};

/* trapped: each doorbell is a message to the server, or a system call, which submit_copy() must not make. */
extern const dma::channel_ops ring_ops, trapped_ops;
/* Disables the channel; on return of 0 the device accesses nothing of it any more. */
int switch_off(sdma_channel *c);
void channel_close(dma::channel *ch);

unsigned ring_cancel(dma::channel *ch, u64 cookie);
int ring_resume(dma::channel *ch);
int ring_stop(dma::channel *ch);
int ring_abort(dma::channel *ch);
bool ring_in_wait(const dma::channel *ch);
int ring_restart(dma::channel *ch);
int ring_begun(const dma::channel *ch);
void ring_describe(const dma::channel *ch, char *buf, size_t size);

inline sdma_channel *to_sdma(dma::channel *ch)
{
	return static_cast<sdma_channel *>(ch);
}

} // namespace usdma::sdma
