/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A ring and a status block that only messages reach (remote.h).  The engine works on
 * copies of both: descriptors are fetched as the doorbell tells of them, and what the
 * engine writes to the status block is sent, one part at a time and in its order.
 */
#pragma once

#include "driver/base/clock.h"
#include "driver/engines/sdma/sdma_hw.h"
#include "driver/sim/dma_space.h"
#include "driver/sim/remote.h"

#include <memory>

namespace usdma::sim {

/* Its engine's own. */
class far_ring {
public:
	/* In a pass: whether all of it is mapped with these rights, by file or not. */
	static bool reaches(const dma_space &space, u64 iova, u64 size, u32 rights);
	/* nullptr: no memory, no client to ask, or one that takes too little in a message. */
	static std::unique_ptr<far_ring> make(remote_port *port, int wake_fd, u64 ring_iova, u64 record_iova,
					      u32 ring_slots);
	~far_ring() { end_both(); }
	far_ring(const far_ring &) = delete;
	far_ring &operator=(const far_ring &) = delete;

	/* Slot n modulo slots() holds the n-th descriptor, once it has been fetched. */
	const sdma::descriptor *ring() const { return ring_; }
	u32 slots() const { return slots_; }
	sdma::status_block *status() { return &status_; }

	/* Descriptors behind this one are fetched (again); what was fetched of them is forgotten. */
	void start_behind(u64 seq);
	/* The status block as it is now, and from here on each part that is noted. */
	void send_all() { due_ = part_all; }
	void note_completed() { due_ |= part_completed; }
	/* The state, and the fault with it. */
	void note_state() { due_ |= part_fault | part_completed | part_state; }
	void note_beat(u64 now);

	/*
	 * Goes on with both: next is the descriptor to run next, tail the last one posted.  True: something has
	 * changed.
	 */
	bool step(u64 next, u64 tail);
	/*
	 * Begins nothing more but to tell what is completed.  True: nothing of ours can reach the client's
	 * memory any more.
	 */
	bool wind_up();
	/* The client refused, or has not answered in time. */
	bool lost() const { return lost_; }

	/* Of what was posted up to tail, it has not been tried to fetch the next. */
	bool lacks(u64 next, u64 tail) const { return s64(tail - next) >= 0 && s64(fetched_ - next) < 0; }
	/* There is something for step() to do. */
	bool restless(u64 next, u64 tail) const;
	/* The client's status block has our state: until then no later number may be reported. */
	bool state_told() const { return !((due_ | sent_) & (part_all | part_fault | part_state)); }
	/* The client's status block says what ours does. */
	bool told() const { return !due_ && !sent_; }
	/* … at least of this number. */
	u64 sent_completed() const { return sent_completed_; }
	/* Until when step() must be called though nobody wakes the engine; ~0: never. */
	u64 limit() const;

	bool interrupt_due = false; /* of the service slot, once the client knows … */
	u64 interrupt_behind = 0;   /* … that so many are completed, … */
	u64 interrupt_last = 0;     /* … and so many, for another one */

private:
	enum : u32 { part_all = 1, part_fault = 2, part_completed = 4, part_state = 8, part_beat = 16 };
	static constexpr u32 most_slots = 64;

	far_ring(remote_port *port, int wake_fd, u64 ring_iova, u64 record_iova, u32 ring_slots);
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

	bool fetching_ = false, unproven_; /* no access of the client's has been seen to be right */
	u64 fetched_ = 0, fetch_first_ = 0, fetch_until_ = 0;
	remote_access fetch_;
	u32 due_ = 0, sent_ = 0; /* part_*; sent_: one, in flight */
	u64 sent_completed_ = 0, sending_completed_ = 0, push_until_ = 0, beat_at_ = 0, beat_ = 0;
	remote_access push_;
	sdma::status_block status_ = {}, push_from_ = {};
	sdma::descriptor ring_[most_slots] = {}, fetch_to_[most_slots] = {};
};

} // namespace usdma::sim
