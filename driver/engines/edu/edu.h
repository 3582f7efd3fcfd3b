/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine and its channels, for the files of this folder and for tests. */
#pragma once

#include "driver/base/eventfd.h"
#include "driver/base/unique_fd.h"
#include "driver/dma/engine.h"
#include "driver/engines/edu/exec.h"

#include <condition_variable>
#include <mutex>
#include <pthread.h>

namespace usdma::edu {

class edu_engine;

/* A ring in ordinary memory and a thread that executes it, as a device with rings does in hardware. */
struct edu_channel final : dma::channel, progress {
	edu_channel(edu_engine &e, shared_state &state) : owner(&e), exec(state, *this) {}
	~edu_channel() { end(); }

	/* The engine sets index, eng and ops. */
	int begin(const dma::channel_config &cfg, u32 size, dma::completion_record *rec, u64 rec_iova);
	/* Joins the worker, which accesses nothing afterwards. */
	void end();

	unsigned post(const dma::request *r, unsigned n);
	bool last_use(const dma::iova_range &where, u64 *seq) const;
	void ring_doorbell();
	void arm(unsigned slot, u64 seq);
	int completion_fd()
	{
		if (!irq_[dma::irq_completion].valid())
			irq_[dma::irq_completion].reset(eventfd_make_for_ring());
		return irq_fd[dma::irq_completion] = irq_[dma::irq_completion].get();
	}
	bool withdraw(u64 seq) { return cmpxchg_seq_cst(&arm_[dma::irq_completion], &seq, ~u64(0)); }
	unsigned cancel(u64 cookie);
	int resume();
	int stop();

	bool should_continue(bool made) override;
	void pause(deadline until) override;

	edu_engine *owner;

private:
	static void *thread_main(void *arg);
	int start_worker();
	void work();
	bool next(dma::request *r, u64 *seq);
	void finish(u64 seq, u8 flags);
	void halt(u64 seq, u64 cookie, const outcome &o);
	void raise_armed(bool all);
	void hold_service(bool wanted);
	void raise(unsigned slot);

	executor exec;
	std::vector<dma::request> slots_;
	dma::completion_record *record_ = nullptr;
	u32 never_asleep_ = 0;
	unique_fd irq_[dma::irq_slots];
	u64 arm_[dma::irq_slots] = {}; /* atomic */
	dma::channel_config cfg_;
	u32 held_ = 0; /* coalesced service interrupts, and since when */
	u64 held_since_ = 0;

	std::mutex lock_; /* protects the fields below, and slots up to tail_ */
	std::condition_variable changed_, halted_;
	u64 tail_ = 0;  /* last sequence number of a doorbell */
	u64 taken_ = 0; /* last one that the worker has started */
	bool stop_ = false, quit_ = false, is_halted_ = false;
	pthread_t worker_ = {};
	bool started_ = false;
};

class edu_engine final : public dma::engine {
public:
	explicit edu_engine(std::unique_ptr<vfio::device> dev);
	~edu_engine() override;

	int start();
	/* After a failed start: returns the device. */
	std::unique_ptr<vfio::device> release();

	const char *driver_name() const override { return "edu"; }
	int channel_open(unsigned index, const dma::channel_config &cfg, dma::channel **out) override;
	int map(const vfio::dma_area &area) override;
	int unmap(u64 iova, u64 size) override;
	int set_memory_base(u64 base) override;
	int reset() override;
	int give_up() override;
	int quiesce() override;

	const engine_counters &counters() const { return state_.dma.counters(); }
	void release_index(unsigned index);

private:
	void stop_all();
	void wipe();
	int map_shared();
	int check_reach();
	int probe_address(u64 high, u64 alias);
	void unmap_shared();

	shared_state state_;
	unique_fd file_; /* backs memory_ */
	mapping memory_; /* page 0: completion records, page 1: shared_state::page */
	u64 iova_ = 0;
	std::mutex lock_; /* protects open_ */
	u64 open_ = 0;    /* bit i: channel i */
};

extern const dma::channel_ops channel_table;

} // namespace usdma::edu
