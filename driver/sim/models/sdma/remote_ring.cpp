/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/models/sdma/remote_ring.h"

#include "driver/base/barrier.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace usdma::sim {

using namespace sdma;

/* Timeout of a reply from the client. */
static constexpr u64 answer_ns = 3 * ns_per_s;
/* Interval of heartbeats; docs/hardware.md promises 100 ms. */
static constexpr u64 beat_ns = 50 * ns_per_ms;

bool remote_ring::reaches(const dma_space &space, u64 iova, u64 size, u32 rights)
{
	for (u64 at = iova; at - iova < size;) {
		window w;

		if (!space.find(at, &w) || (w.prot & rights) != rights || is_dead(w.piece))
			return false;
		at = w.base + w.size;
	}
	return true;
}

remote_ring::remote_ring(remote_port *port, int wake_fd, u64 ring_iova, u64 record_iova, u32 ring_slots)
	: port_(port), wake_fd_(wake_fd), ring_iova_(ring_iova), record_iova_(record_iova), mask_(ring_slots - 1),
	  slots_(std::min(ring_slots, most_slots)), unverified_(!port->counts_valid())
{
}

std::unique_ptr<remote_ring> remote_ring::make(remote_port *port, int wake_fd, u64 ring_iova, u64 record_iova,
					       u32 ring_slots)
{
	if (!port || port->max_len() < sizeof(status_block))
		return nullptr;
	return std::unique_ptr<remote_ring>(new (std::nothrow)
						    remote_ring(port, wake_fd, ring_iova, record_iova, ring_slots));
}

/* A valid tag equals its slot's index modulo the slots, so index ^ 1 is never valid. */
void remote_ring::restart_after(u64 seq)
{
	if (fetching_)
		port_->end(&fetch_);
	fetching_ = false;
	fetched_ = seq;
	for (u32 i = 0; i < slots_; i++)
		ring_[i].tag = i ^ 1;
}

void remote_ring::note_beat(u64 now)
{
	if (now < beat_at_ || status_.record.heartbeat == beat_)
		return;
	beat_at_ = now + beat_ns;
	due_ |= part_beat;
}

/* ---- accesses ------------------------------------------------------------------------------------ */

bool remote_ring::begin(remote_access *a, u64 *until)
{
	*until = now_ns() + answer_ns;
	a->wake_fd = wake_fd_;
	a->result = 1;
	lost_ |= port_->begin(a) != 0;
	return !lost_;
}

/* True: completed or failed. */
bool remote_ring::ended(remote_access *a, u64 until)
{
	const s32 result = load_acquire(&a->result);

	if (result == 1 && now_ns() < until)
		return false;
	port_->end(a);
	lost_ |= load_acquire(&a->result) != 0;
	return true;
}

/* ---- descriptors --------------------------------------------------------------------------------- */

bool remote_ring::end_fetch()
{
	if (!fetching_ || !ended(&fetch_, fetch_until_))
		return false;
	const u64 n = fetch_.len / sizeof(descriptor);

	fetching_ = unverified_ = false;
	for (u64 i = 0; i < n && !lost_; i++)
		ring_[(fetch_first_ + i) % slots_] = fetch_to_[i];
	if (!lost_)
		fetched_ = fetch_first_ + n - 1;
	return true;
}

/* Fetches as many as are contiguous in both rings and fit one message; only when all before them have run. */
bool remote_ring::begin_fetch(u64 next, u64 tail)
{
	if (fetching_ || lost_ || !(lacks(next, tail) || unverified_))
		return false;
	/* Slot 0 never has the tag 0 before the ring is used: reading it verifies the client (server::reply_data). */
	if (unverified_)
		return begin_read(ring_iova_, sizeof(u32), fetched_ + 1);
	const u64 n = std::min({tail - next + 1, slots_ - next % slots_, port_->max_len() / u64(sizeof(descriptor))});

	return begin_read(ring_iova_ + (next & mask_) * sizeof(descriptor), u32(n * sizeof(descriptor)), next);
}

bool remote_ring::begin_read(u64 address, u32 len, u64 first)
{
	fetch_.write = false;
	fetch_.address = address;
	fetch_.buf = reinterpret_cast<u8 *>(fetch_to_);
	fetch_.len = len;
	fetch_first_ = first;
	fetching_ = begin(&fetch_, &fetch_until_);
	return true;
}

/* ---- the status block ---------------------------------------------------------------------------- */

bool remote_ring::end_push()
{
	if (!sent_ || !ended(&push_, push_until_))
		return false;
	if (sent_ & (part_all | part_completed) && !lost_)
		sent_completed_ = sending_completed_;
	sent_ = 0;
	return true;
}

/* The lowest part first: a fault before the state that reports it, completed before the running state. */
bool remote_ring::begin_push()
{
	static constexpr struct {
		u32 part, at, len;
	} parts[] = {{part_all, 0, sizeof(status_block)},
		     {part_fault, offsetof(dma::completion_record, fault_seq), 24},
		     {part_completed, 0, 8},
		     {part_state, offsetof(dma::completion_record, state), 8},
		     {part_beat, offsetof(dma::completion_record, heartbeat), 8}};

	if (sent_ || !due_ || lost_ || unverified_)
		return false;
	const auto *p = std::find_if(std::begin(parts), std::end(parts),
				     [this](const auto &q) { return due_ & q.part; });
	memcpy(&push_from_, &status_, sizeof(status_));
	/* The client must wake us for each post: polling its memory would take messages. */
	push_from_.asleep = dma::asleep_each;
	push_from_.cpu = 0; /* later changes are not sent */
	if (p->part == part_all) {
		/* A stop that came at once is sent after it. */
		push_from_.record.state = dma::state_running;
		push_from_.record.reason = 0;
	}
	sending_completed_ = push_from_.record.completed;
	if (p->part & (part_all | part_beat))
		beat_ = push_from_.record.heartbeat;
	push_.write = true;
	push_.address = record_iova_ + p->at;
	push_.buf = reinterpret_cast<u8 *>(&push_from_) + p->at;
	push_.len = p->len;
	if (begin(&push_, &push_until_)) {
		due_ &= ~p->part;
		sent_ = p->part;
	}
	return true;
}

/* ---- both ---------------------------------------------------------------------------------------- */

bool remote_ring::step(u64 next, u64 tail)
{
	bool changed = end_fetch();

	changed |= end_push();
	changed |= begin_fetch(next, tail);
	return begin_push() || changed;
}

bool remote_ring::has_work(u64 next, u64 tail) const
{
	return (fetching_ ? load_acquire(&fetch_.result) != 1 : unverified_ || lacks(next, tail)) ||
	       (sent_ ? load_acquire(&push_.result) != 1 : due_);
}

u64 remote_ring::limit() const
{
	return std::min(fetching_ ? fetch_until_ : ~u64(0), sent_ ? push_until_ : ~u64(0));
}

bool remote_ring::wind_up()
{
	end_fetch();
	end_push();
	due_ &= part_all | part_completed;
	return !begin_push() && !fetching_ && !sent_;
}

void remote_ring::end_both()
{
	if (fetching_)
		port_->end(&fetch_);
	if (sent_)
		port_->end(&push_);
	fetching_ = false;
	sent_ = 0;
}

} // namespace usdma::sim
