/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AMD's PTDMA in software, for drivers that were written for the hardware. driver/hw/ptdma_regs.h has the registers and
 * rules, and their source. The device has no record in memory: the fault rules drop-record and wrong/completion have
 * no effect.
 *
 *   ptdma_model.cpp  the PCI function, registers, reset
 *   engine.cpp       what the thread runs: descriptors
 */
#pragma once

#include "driver/hw/ptdma_regs.h"
#include "driver/sim/threaded_model.h"

namespace usdma::sim {

/* The queue, protected by ptdma_model::lock_. The server's thread writes registers, the engine's runs descriptors. */
struct ptdma_queue {
	u32 control = 0, tail = 0, head = 0, int_enable = 0, int_status = 0, status = 0;
	u32 config = 0, priority = 0, request = 0, timeout = 0, clock = 0;
	bool busy = false;    /* the engine runs a descriptor of it, without the lock, or raises its interrupt */
	bool running = false; /* the first of the two */
	bool hung = false;    /* by an injected fault */
	bool reset_due = false;
	u64 seq = 0; /* descriptors begun, for injected faults */

	/* Bits of a pointer into a ring of this size. */
	u32 ring_mask() const;
	bool is_empty() const { return !((head ^ tail) & ring_mask()); }
	bool can_run() const { return control & ptdma::control_run && config & ptdma::config_vhb; }
	u64 at() const { return u64(control >> ptdma::control_high_shift) << 32 | head; }
};

class ptdma_model final : public threaded_model {
public:
	explicit ptdma_model(const config &cfg, faults *wrong = nullptr);
	~ptdma_model() override;

	int start() override;
	int reset() override;
	bool is_resetting() const override;

private:
	/* How a descriptor ended. */
	struct outcome {
		u32 error = ptdma::error_none;
		u32 control = 0;
		u64 delay_ns = 0, moved = 0;
	};

	/* ptdma_model.cpp; with lock_ held */
	u64 read_register(u32 offset, u32 len) override;
	void write_register(u32 offset, u64 value, u32 len) override;
	u32 read_word(u32 offset) const;
	void write_word(u32 offset, u32 value);
	void write_control(u32 value);
	void acknowledge(u32 bits);
	void apply_pending();

	/* engine.cpp */
	bool run_queue(u32) override;
	bool is_hung(u32) const override { return queue_.hung; }
	bool is_cancelled(u32) const override { return queue_.reset_due; }
	bool begin(u64 *at);
	bool hangs();
	u32 injected(u64 dst);
	outcome execute(u64 at);
	void complete_early(u32 control);
	bool set_status(u32 bits);
	void end(outcome o);

	/* Protected by lock_. */
	ptdma_queue queue_;
};

} // namespace usdma::sim
