/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HiSilicon's DMA engine in software, for drivers that were written for the hardware. driver/hw/hisi_regs.h has the
 * registers and rules, and their sources.
 *
 *   hisi_model.cpp  the PCI function: regions, interrupts, reset
 *   registers.cpp   BAR2
 *   engine.cpp      what the thread runs: submissions
 */
#pragma once

#include "driver/hw/hisi_regs.h"
#include "driver/sim/threaded_model.h"

namespace usdma::sim {

/* A queue, protected by hisi_model::lock_. The server's thread writes registers, the engine's runs submissions. */
struct hisi_queue {
	enum class pending : u8 { none, reset, power_on };

	u32 index = 0;
	u32 reg[hisi::queue_size / 4] = {}; /* what the client wrote; of status, what it reads */
	u32 state = hisi::fsm_idle;         /* idle, done, halt, abort */
	u32 head = 0, cq_tail = 0;
	u32 unreported = 0; /* submissions that ended without a completion entry */
	u64 valid = hisi::cqe_valid;

	bool ahead = false; /* the next submission has moved its data before the one in front of it */
	bool busy = false;  /* the engine runs a submission of it, without the lock */
	bool hung = false;  /* by an injected fault */
	bool early = false; /* the same: it claims to be done */
	pending reset_due = pending::none;
	u64 seq = 0; /* submissions begun, for injected faults */

	u32 get(u32 at) const { return reg[at / 4]; }
	u32 &at(u32 at) { return reg[at / 4]; }
	u64 base(u32 at) const { return get(at) | u64(get(at + 4)) << 32; }
	bool is_stopped() const { return state == hisi::fsm_halt || state == hisi::fsm_abort; }
	u32 next_cq() const { return cq_tail >= get(hisi::q_cq_depth) ? 0 : cq_tail + 1; }
	bool has_space() const { return next_cq() != get(hisi::q_cq_head); }
	bool has_work() const { return head != get(hisi::q_sq_tail) && get(hisi::q_sq_tail) <= get(hisi::q_sq_depth); }
	/* It runs what it has. */
	bool is_on() const
	{
		return !is_stopped() &&
		       (get(hisi::q_ctrl0) & (hisi::ctrl0_enable | hisi::ctrl0_pause)) == hisi::ctrl0_enable;
	}
	bool has_unreported() const { return unreported && !busy && !is_stopped() && has_space(); }
	bool can_run() const { return is_on() && has_work() && has_space(); }
	u32 fsm() const;
};

class hisi_model final : public threaded_model {
public:
	explicit hisi_model(const config &cfg, faults *wrong = nullptr);
	~hisi_model() override;

	int start() override;
	int reset() override;
	bool is_resetting() const override;

private:
	/* How a submission ended. */
	struct outcome {
		u32 status = hisi::st_success;
		u32 control = 0;
		u64 delay_ns = 0, moved = 0;
	};

	/* registers.cpp; with lock_ held */
	u64 read_register(u32 offset, u32 len) override;
	void write_register(u32 offset, u64 value, u32 len) override;
	hisi_queue *queue_of(u32 offset);
	u32 *common_of(u32 offset);
	u32 read_word(u32 offset);
	void write_word(u32 offset, u32 value);
	u32 read_queue(const hisi_queue &q, u32 reg) const;
	void write_queue(hisi_queue &q, u32 reg, u32 value);
	void apply_pending(hisi_queue &q);

	/* engine.cpp */
	bool run_queue(u32 index) override;
	bool is_hung(u32 index) const override { return queues_[index].hung; }
	bool is_cancelled(u32 index) const override { return queues_[index].reset_due != hisi_queue::pending::none; }
	bool begin(hisi_queue &q, u64 *at);
	bool hangs(hisi_queue &q);
	u32 injected(hisi_queue &q, u64 dst);
	outcome execute(hisi_queue &q, u64 at);
	void run_ahead(hisi_queue &q);
	u32 execute_copy(const hisi::submission &s);
	void end(hisi_queue &q, outcome o);
	bool flush(hisi_queue &q);
	void complete_early(hisi_queue &q, u32 control);
	bool is_due(hisi_queue &q, const outcome &o);
	u64 take_entry(hisi_queue &q, u32 index, u32 status, u64 *at);
	bool note(hisi_queue &q, const outcome &o);
	void report(hisi_queue &q, u64 at, u64 word, const outcome &o);

	const hisi::layout &layout_;
	outcome ahead_[hisi::hip08.queues]; /* of queues that are ahead; the engine's */
	/* Protected by lock_. */
	hisi_queue queues_[hisi::hip08.queues];
	u32 mode_ = 0, ports_[hisi::hip09_ports] = {};
};

} // namespace usdma::sim
