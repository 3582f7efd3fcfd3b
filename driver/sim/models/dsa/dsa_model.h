/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel DSA in software, for drivers that were written for the hardware. driver/hw/dsa_regs.h has the registers and
 * rules, and their sources.
 *
 *   dsa_model.cpp    the PCI function: regions, interrupts, reset
 *   registers.cpp    BAR0: capabilities, tables, errors
 *   commands.cpp     administrative commands
 *   portals.cpp      BAR2
 *   engine.cpp       what the thread runs: descriptors, batches, completions
 *   checks.cpp       what a descriptor must be
 *   operations.cpp   operations on memory
 *
 * What it chooses where the specification leaves a choice:
 *   - All engines are one thread, which takes a descriptor from each queue in turn. Of three that wait in a queue the
 *     second runs first, unless one is a drain, and those of a batch that no Fence flag separates run from the last to
 *     the first, as they may (3.8, 3.9); priorities change nothing.
 *   - Addresses are translated as with ATS enabled: reads and writes of what the client has not mapped are page faults.
 *   - A page request is answered by the client's mapping of the address within 100 ms; else it counts as refused.
 *   - An abort drops all descriptors before it that have not begun, and those of a batch that has.
 *   - A handle of dsa-2 is the index of its vector plus handle_base.
 *   - MSI-X only: there is no interrupt message storage, and writes to its portals are ignored.
 *   - Portals: a message of 64 bytes is a descriptor, as is a sequence of aligned writes of 4 to 32 bytes from its
 * first byte to its last on one page, which takes it with the last; anything else on that page starts anew. The
 * hardware ignores such pieces. In a shared queue either counts as a deferrable write: -EAGAIN is its retry.
 */
#pragma once

#include "driver/hw/dsa_regs.h"
#include "driver/sim/models.h"
#include "driver/sim/threaded_model.h"

namespace usdma::sim {

/* A work queue, protected by dsa_model::lock_; running and batch are the engine's while busy is set. */
struct dsa_queue {
	static constexpr u32 most = 128; /* as the total of all queues */

	u32 index = 0;
	dsa::wq_state state = dsa::wq_state::disabled;
	u32 cfg[16] = {};

	dsa::work slots[most];
	u32 head = 0, count = 0;
	u64 submitted = 0, finished = 0; /* descriptors; those in a batch do not count */

	dsa::work running = {};
	bool active = false; /* running is one */
	bool busy = false;   /* the engine works on it, without the lock */
	bool hung = false;   /* by an injected fault */
	bool abort = false;
	bool reordered = false; /* the next one was passed by another */
	u64 seq = 0;            /* descriptors begun, for injected faults; the batch itself does not count */

	/* Of a running batch: descriptors that have ended, and of those up to the next fence the first and the next. */
	u32 position = 0, first = 0, next = 0;
	bool in_batch = false, failed = false;

	/* A descriptor that is written in pieces, for each of its portals. */
	struct {
		u64 at;
		u32 have;
		u8 bytes[sizeof(dsa::work)];
	} pieces[4] = {};

	bool is_idle() const { return !count && !active; }
	u32 size() const { return cfg[dsa::wq_word_size] & 0xffff; }
	bool is_dedicated() const { return cfg[dsa::wq_word_mode] & dsa::wq_dedicated; }
	u64 max_xfer() const { return u64(1) << (cfg[dsa::wq_word_limits] & 0x1f); }
	u32 max_batch() const { return 1u << (cfg[dsa::wq_word_limits] >> dsa::wq_batch_shift & 0xf); }
};

class dsa_model final : public threaded_model {
public:
	explicit dsa_model(const config &cfg, faults *wrong = nullptr);
	~dsa_model() override;

	int start() override;
	int reset() override;
	bool is_resetting() const override;

	static constexpr u32 max_queues = 8, max_groups = 4, total_size = 128, read_buffers = 96;
	static constexpr u32 xfer_log2 = 31, batch_log2 = 10, handle_base = 0x40;
	static constexpr u64 opcap = 0x3027f; /* the operations of dsa_regs.h */

private:
	/* How a descriptor ended. */
	struct outcome {
		dsa::status status = dsa::status::success;
		u8 result = 0, operand = 0;
		bool write = false; /* of a page fault */
		u32 bytes = 0, detail = 0;
		u64 address = 0;

		bool is_fault() const
		{
			return status == dsa::status::page_fault || status == dsa::status::page_fault_blocked ||
			       status == dsa::status::batch_page_fault || status == dsa::status::record_fault;
		}
	};
	/* Memory of an operation; number: its operand 8.2.3. */
	struct range {
		u64 at;
		u32 right;
		u8 number;
	};

	/* registers.cpp; with lock_ held */
	bool is_v2() const { return cfg_.model->variant >= 0x200; }
	u32 wqcfg_size() const { return is_v2() ? 64 : 32; }
	u64 read_register(u32 offset, u32 len) override;
	void write_register(u32 offset, u64 value, u32 len) override;
	void bus_master_off() override { halt(); }
	u64 read_word(u32 at) const;
	u64 read_capability(u32 at) const;
	void write_word(u32 at, u64 value, u64 mask);
	void write_group(u32 at, u64 value, u64 mask);
	void write_queue(u32 at, u32 value, u32 mask);
	u32 queue_word(const dsa_queue &q, u32 word) const;
	static u32 writable_bits(const dsa_queue &q, u32 word, bool enabled);
	void power_on();
	void reset_config();
	void reset_queue_config(dsa_queue &q, bool with_size);
	void software_error(u8 code, const dsa_queue *q, const dsa::work *w, const outcome &o);
	void halt();
	void misc_interrupt(u32 cause);

	/* commands.cpp; with lock_ held */
	void write_command(u32 value);
	dsa::cmd_error begin_command(u32 value);
	dsa::cmd_error enable_device();
	dsa::cmd_error check_groups() const;
	dsa::cmd_error check_buffers() const;
	dsa::cmd_error enable_queue(u32 index);
	dsa::cmd_error stop_queues(dsa::command code, u32 operand);
	dsa::cmd_error take_handle(u32 operand, bool request);
	void abort(dsa_queue &q);
	void drop(dsa_queue &q, u64 last);
	void advance_command();
	void finish_command(dsa::cmd_error err);
	void complete_stop();

	/* portals.cpp */
	int read_bar(u32 index, u64 offset, u8 *buf, u32 len) override;
	int write_bar(u32 index, u64 offset, const u8 *buf, u32 len) override;
	int submit(dsa_queue &q, u32 page, const dsa::work &w);

	/* engine.cpp */
	bool run_queue(u32 index) override;
	bool is_hung(u32 index) const override { return queues_[index].hung; }
	bool is_cancelled(u32 index) const override { return queues_[index].abort || reset_due_; }
	void reorder(dsa_queue &q);
	bool begin(dsa_queue &q);
	void end(dsa_queue &q, bool done);
	bool hangs(dsa_queue &q);
	bool step(dsa_queue &q);
	bool step_batch(dsa_queue &q);
	bool read_batch(const dsa_queue &q, u32 at, dsa::work *w, u64 *bad);
	bool find_fence(dsa_queue &q);
	outcome run_one(dsa_queue &q, const dsa::work &w);
	void complete(dsa_queue &q, const dsa::work &w, outcome o);
	bool put_record(const dsa::work &w, const outcome &o);
	void report(dsa_queue &q, const dsa::work &w, const outcome &o, u8 code);
	void interrupt(const dsa::work &w, const outcome &o);
	outcome injected(dsa_queue &q, const dsa::work &w);

	/* checks.cpp */
	outcome check_record(const dsa::work &w);
	outcome check(const dsa_queue &q, const dsa::work &w);
	outcome check_handle(const dsa_queue &q, const dsa::work &w);
	bool vector_of(u16 handle, u32 *vector) const;

	/* operations.cpp */
	outcome execute(dsa_queue &q, dsa::work w);
	template <class F>
	outcome over(dsa_queue &q, const dsa::work &w, std::span<const range> ops, bool backward, const F &f);
	bool await_page(const dsa_queue &q, const range &o, u64 at);
	outcome move(dsa_queue &q, const dsa::work &w);
	outcome fill(dsa_queue &q, const dsa::work &w);
	outcome compare(dsa_queue &q, const dsa::work &w);
	outcome dualcast(dsa_queue &q, const dsa::work &w);
	outcome crc(dsa_queue &q, const dsa::work &w);

	const u32 groups_count_; /* engines, too; no more than queues, as drivers give each group a queue */
	std::unique_ptr<u8[]> buffer_[2];

	/* Protected by lock_. */
	std::unique_ptr<dsa_queue[]> queues_;
	dsa::group_config groups_[max_groups] = {};
	u32 gencfg_ = 0, genctrl_ = 0, intcause_ = 0, permissions_[max_queues + 1] = {};
	dsa::device_state state_ = dsa::device_state::disabled;
	u64 swerror_[4] = {};
	u32 cmdstatus_ = 0;
	u32 command_ = 0;             /* while active */
	u32 stopping_ = 0;            /* queues that the command affects … */
	u64 target_[max_queues] = {}; /* … and what each must have finished */
	u32 handles_ = 0;             /* vectors whose handles were requested */
	bool reset_due_ = false;
};

} // namespace usdma::sim
