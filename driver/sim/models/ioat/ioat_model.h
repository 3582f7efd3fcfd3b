/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel I/OAT in software, for drivers that were written for the hardware. driver/hw/ioat_regs.h has the registers and
 * rules, and their sources.
 *
 *   ioat_model.cpp   the PCI function: regions, interrupts, reset
 *   registers.cpp    BAR0
 *   engine.cpp       what the thread runs: descriptors
 *   raid.cpp         XOR and PQ
 */
#pragma once

#include "driver/hw/ioat_regs.h"
#include "driver/sim/threaded_model.h"

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

	bool ahead = false; /* the next descriptor has moved its data before the one in front of it */
	bool busy = false;  /* the engine runs a descriptor of it, without the lock */
	bool hung = false;  /* by an injected fault */
	bool mute = false;  /* its vector is lost until the client sets it again */
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

class ioat_model final : public threaded_model {
public:
	explicit ioat_model(const config &cfg, faults *wrong = nullptr);
	~ioat_model() override;

	int start() override;
	int irq_set(u32 index, u32 first, std::span<unique_fd> fds) override;
	int reset() override;
	bool is_resetting() const override;

private:
	/* How a descriptor ended. */
	struct outcome {
		u32 err = 0;
		u32 control = 0;
		u64 next = 0;
		u16 counted = 1; /* descriptors: two with an extension */
		u64 delay_ns = 0, moved = 0;
	};

	/* registers.cpp; with lock_ held */
	u64 read_register(u32 offset, u32 len) override;
	u64 read_general(u32 reg) const;
	u64 read_channel(const ioat_channel &ch, u32 reg) const;
	u64 unwritten(const ioat_channel &ch, u32 reg) const;
	void write_register(u32 offset, u64 value, u32 len) override;
	void write_channel(ioat_channel &ch, u32 reg, u64 value);
	void write_chain(ioat_channel &ch, u64 value);
	void write_count(ioat_channel &ch, u16 value);
	void apply_chain(ioat_channel &ch);
	void command(ioat_channel &ch, u8 cmd);
	void write_ctrl(ioat_channel &ch, u16 value);
	void apply_pending(ioat_channel &ch);
	static void halt(ioat_channel &ch, u32 err);

	/* engine.cpp */
	bool run_queue(u32 index) override;
	bool is_hung(u32 index) const override { return channels_[index].hung; }
	bool is_cancelled(u32 index) const override
	{
		return channels_[index].reset_due != ioat_channel::pending::none;
	}
	bool begin(ioat_channel &ch, u64 *at);
	void end(ioat_channel &ch, u64 at, outcome o);
	void report(ioat_channel &ch, u64 status, const outcome &o);
	bool interrupt(ioat_channel &ch, bool failed, u32 control, u32 *vector);
	void complete_early(ioat_channel &ch, u64 at, u32 control);
	bool hangs(ioat_channel &ch);
	u32 injected(ioat_channel &ch, u64 dst);
	outcome execute(ioat_channel &ch, u64 at);
	bool may_run_ahead(u64 at, ioat::descriptor *d);
	void run_ahead(ioat_channel &ch, u64 at);
	u32 execute_op(ioat::descriptor d, outcome *o);
	u32 execute_copy(const ioat::descriptor &d);
	u32 execute_fill(const ioat::descriptor &d);

	/* raid.cpp */
	struct raid;
	u32 read_raid(const ioat::descriptor &d, raid *r, outcome *o);
	u32 put_parity(const raid &r, u64 at, const u8 *parity, u64 n, u32 wrong);
	u32 execute_raid(const ioat::descriptor &d, outcome *o);

	outcome ahead_[ioat::max_channels]; /* of channels that are ahead; the engine's */
	/* Protected by lock_. */
	ioat_channel channels_[ioat::max_channels];
	u8 intrctrl_ = 0, genctrl_ = 0;
	u16 intrdelay_ = 0;
	u32 attention_ = 0;
};

} // namespace usdma::sim
