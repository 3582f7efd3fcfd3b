/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring and a status block that are accessible only by messages (remote.h). The engine works on copies: posted
 * descriptors are fetched, and its changes of the status block are sent, one part at a time and in order.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/hw/sdma_regs.h"
#include "driver/sim/dma_space.h"
#include "driver/sim/remote.h"

#include <memory>

namespace usdma::sim {

/* Used by its engine only. */
class remote_ring {
public:
	/* In a pass: whether all of it is mapped with these rights, by file or not. */
	static bool reaches(const dma_space &space, u64 iova, u64 size, u32 rights);
	/* nullptr: no memory, no client, or too small a limit on its messages. */
	static std::unique_ptr<remote_ring> make(remote_port *port, int wake_fd, u64 ring_iova, u64 record_iova,
						 u32 ring_slots);
	~remote_ring() { end_both(); }
	remote_ring(const remote_ring &) = delete;
	remote_ring &operator=(const remote_ring &) = delete;

	/* Slot n modulo slots() holds the n-th descriptor, once it has been fetched. */
	u8 *ring() { return reinterpret_cast<u8 *>(ring_); }
	u32 slots() const { return slots_; }
	sdma::status_block *status() { return &status_; }

	/* Drops fetched descriptors; fetches those after this one again. */
	void restart_after(u64 seq);
	/* Sends the whole status block, and from then on each noted part. */
	void send_all() { due_ = part_all; }
	void note_completed() { due_ |= part_completed; }
	/* The state and its fault. */
	void note_state() { due_ |= part_fault | part_completed | part_state; }
	void note_beat(u64 now);

	/* Advances both: next is the descriptor to run next, tail the last one posted. True: something has changed. */
	bool step(u64 next, u64 tail);
	/*
	 * Starts nothing new except to send completed. True: no access of ours can reach the client's memory any more.
	 */
	bool wind_up();
	/* The client refused, or has not answered in time. */
	bool lost() const { return lost_; }

	/* The next descriptor is posted (up to tail), but not fetched. */
	bool lacks(u64 next, u64 tail) const { return s64(tail - next) >= 0 && s64(fetched_ - next) < 0; }
	/* True: step() has work. */
	bool has_work(u64 next, u64 tail) const;
	/* The client has received our state; until then no later number may be reported. */
	bool state_is_sent() const { return !((due_ | sent_) & (part_all | part_fault | part_state)); }
	/* The client's status block is up to date. */
	bool is_synced() const { return !due_ && !sent_; }
	/* Last completed number that the client has received. */
	u64 sent_completed() const { return sent_completed_; }
	/* When step() must be called at the latest, even without a wake-up; ~0: never. */
	u64 limit() const;

	bool interrupt_due = false; /* a service interrupt waits until the client has received … */
	u64 interrupt_after = 0;    /* … this completed number; … */
	u64 interrupt_last = 0;     /* … number of the latest such interrupt */

private:
	enum : u32 { part_all = 1, part_fault = 2, part_completed = 4, part_state = 8, part_beat = 16 };
	static constexpr u32 most_slots = 64;

	remote_ring(remote_port *port, int wake_fd, u64 ring_iova, u64 record_iova, u32 ring_slots);
	bool ended(remote_access *a, u64 until);
	bool begin(remote_access *a, u64 *until);
	bool end_fetch();
	bool begin_fetch(u64 next, u64 tail);
	bool begin_read(u64 address, u32 len, u64 first);
	bool end_push();
	bool begin_push();
	void end_both();

	remote_port *const port_;
	const int wake_fd_;
	const u64 ring_iova_, record_iova_;
	const u64 mask_; /* of the client's ring */
	const u32 slots_;
	bool lost_ = false;

	bool fetching_ = false, unverified_; /* no reply of the client has been verified yet */
	u64 fetched_ = 0, fetch_first_ = 0, fetch_until_ = 0;
	remote_access fetch_;
	u32 due_ = 0, sent_ = 0; /* part_*: to be sent; the one in flight */
	u64 sent_completed_ = 0, sending_completed_ = 0, push_until_ = 0, beat_at_ = 0, beat_ = 0;
	remote_access push_;
	sdma::status_block status_ = {}, push_from_ = {};
	sdma::descriptor ring_[most_slots] = {}, fetch_to_[most_slots] = {};
};

} // namespace usdma::sim
