/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel I/OAT in software, for drivers that were written for the hardware. driver/hw/ioat_regs.h has the registers and
 * rules, and their sources.
 *
 *   ioat_model.cpp   the PCI function: regions, interrupts, reset
 *   registers.cpp    BAR0
 *   engine.cpp       the thread that runs descriptors
 *   raid.cpp         XOR and PQ
 */
#pragma once

#include "driver/hw/ioat_regs.h"
#include "driver/sim/client_memory.h"
#include "driver/sim/config.h"
#include "driver/sim/engine_thread.h"
#include "driver/sim/interrupts.h"
#include "driver/sim/model.h"
#include "driver/sim/pci_config.h"

#include <mutex>

namespace usdma::sim {

/* A channel, protected by ioat_model::lock_. The server's thread writes registers, the engine's runs descriptors. */
struct ioat_channel {
	enum class pending : u8 { none, reset, power_on };

	u32 index = 0;
	u8 state = ioat::sts_halted; /* sts_halted, armed, suspended; sts_active: also when idle */
	u16 ctrl = 0;
	u16 dmacount = 0, run = 0; /* descriptors counted by the client, and run, since CHAINADDR was written */
	u64 completed = 0;         /* address of the last completed descriptor */
	u64 chain = 0, next = 0, current = 0;
	u64 cmp = 0;
	u32 err = 0, errmask = 0, dcactrl = 0;

	bool busy = false; /* the engine runs a descriptor of it, without the lock */
	bool hung = false; /* by an injected fault */
	bool mute = false; /* its vector is lost until the client sets it again */
	bool suspend_due = false;
	pending reset_due = pending::none;
	bool chain_due = false; /* CHAINADDR was written while it was busy or about to be reset; */
	u16 count_due = 0;      /* and DMACOUNT after it */
	u64 seq = 0;            /* descriptors begun, for injected faults */

	bool has_work() const { return state == ioat::sts_active && run != dmacount; }
	/* Bits 2:0 of CHANSTS. */
	u64 status() const
	{
		if (busy && state == ioat::sts_halted)
			return ioat::sts_active; /* until the completion is written */
		return state == ioat::sts_active && !busy && run == dmacount ? u64(ioat::sts_idle) : u64(state);
	}
};

class ioat_model final : public device_model {
public:
	explicit ioat_model(const config &cfg, faults *wrong = nullptr);
	~ioat_model() override;

	int start() override;
	int share(u64 iova, void *vaddr, u64 size) override { return space_.share(iova, vaddr, size); }

	u32 region_count() const override { return vfio::region_count; }
	const region_desc &region(u32 index) const override { return regions_[index]; }
	int region_read(u32 index, u64 offset, u8 *buf, u32 len) override;
	int region_write(u32 index, u64 offset, const u8 *buf, u32 len) override;
	std::span<const doorbell_desc> doorbells(u32) const override { return {}; }

	u32 irq_types() const override { return vfio::irq_req + 1; }
	u32 irq_count(u32 index) const override;
	int irq_set(u32 index, u32 first, std::span<unique_fd> fds) override;
	int irq_clear(u32 index, u32 first, u32 count) override;
	int irq_trigger(u32 index, u32 vector) override;

	u32 max_areas() const override { return dma_bounds().areas; }
	int dma_map(u64 iova, u64 size, u32 prot, unique_fd fd, u64 offset) override;
	bool takes_any_file() const override { return cfg_.any_file; }
	int dma_unmap(u64 iova, u64 size) override { return space_.unmap(iova, size); }
	int dma_unmap_all() override { return space_.unmap_all(); }

	int reset() override;
	bool is_resetting() const override;
	void quiesce() override;
	reply_fault next_reply() override { return wrong_ ? wrong_->reply() : reply_fault::none; }
	void connect(remote_port *port) override;

private:
	/* How a descriptor ended. */
	struct outcome {
		u32 err = 0;
		u32 control = 0;
		u64 next = 0;
		u16 counted = 1; /* descriptors: two with an extension */
		u64 delay_ns = 0, moved = 0;
	};

	void end_accesses();

	/* registers.cpp; with lock_ held */
	u64 read_reg(u32 offset, u32 len);
	u64 read_general(u32 reg) const;
	u64 read_channel(const ioat_channel &ch, u32 reg) const;
	u64 unwritten(const ioat_channel &ch, u32 reg) const;
	void write_reg(u32 offset, u64 value, u32 len);
	void write_channel(ioat_channel &ch, u32 reg, u64 value);
	void write_chain(ioat_channel &ch, u64 value);
	void write_count(ioat_channel &ch, u16 value);
	void apply_chain(ioat_channel &ch);
	void command(ioat_channel &ch, u8 cmd);
	void write_ctrl(ioat_channel &ch, u16 value);
	void apply_pending(ioat_channel &ch);
	static void halt(ioat_channel &ch, u32 err);

	/* engine.cpp */
	static void *thread_main(void *arg);
	void kick();
	void run();
	void raise_triggered();
	void sleep();
	bool run_channel(ioat_channel &ch);
	bool begin(ioat_channel &ch, u64 *at);
	void end(ioat_channel &ch, u64 at, outcome o);
	void report(ioat_channel &ch, u64 status, const outcome &o);
	bool interrupt(ioat_channel &ch, bool failed, u32 control, u32 *vector);
	void raise(u32 vector);
	void complete_early(ioat_channel &ch, u64 at, u32 control);
	void delay(const ioat_channel &ch, u64 until_ns);
	bool hangs(ioat_channel &ch);
	u32 injected(ioat_channel &ch, u64 dst);
	outcome execute(ioat_channel &ch, u64 at);
	u32 execute_op(ioat::descriptor d, outcome *o);
	u32 execute_copy(const ioat::descriptor &d);
	u32 execute_fill(const ioat::descriptor &d);

	/* raid.cpp */
	struct raid;
	u32 read_raid(const ioat::descriptor &d, raid *r, outcome *o);
	u32 put_parity(const raid &r, u64 at, const u8 *parity, u64 n, u32 wrong);
	u32 execute_raid(const ioat::descriptor &d, outcome *o);

	config cfg_;
	const u32 channels_count_;
	dma_space space_;
	interrupts irqs_;
	client_memory memory_;
	faults *wrong_;
	pci_config pci_;
	region_desc regions_[vfio::region_count];
	std::vector<u8> msix_; /* table and pending bits: stored, without effect; the client masks vectors */
	unique_fd error_;      /* the client's eventfd for errors */
	remote_port *remote_ = nullptr;

	mutable std::mutex lock_; /* protects what follows */
	ioat_channel channels_[ioat::max_channels];
	u8 intrctrl_ = 0, genctrl_ = 0;
	u16 intrdelay_ = 0;
	u32 attention_ = 0;
	u64 triggered_ = 0; /* vectors to raise at the client's request */

	unique_fd wake_;
	engine_thread thread_{memory_.reader()};
};

} // namespace usdma::sim
