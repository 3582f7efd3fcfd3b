/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/engines/dsa/dsa.h"

#include <algorithm>
#include <cstdio>

namespace usdma::dsa {

using dma::fault_reason;
using dma::opcode;

static constexpr u64 shared_bytes = 4096;
/* A stop waits for the end of a batch, on a machine whose CPUs are all busy, too. */
static constexpr u64 batch_ms = 2000;
/* Also on a machine whose copies are slow. */
static constexpr u64 batch_bytes = 512 * MiB;

/* ---- opening ---------------------------------------------------------------------------------------- */

dsa_channel::dsa_channel(dsa_engine &e, u32 index_) : ring_channel(e, e.host(), index_), owner_(e) {}

int dsa_channel::open(const dma::channel_config &cfg, u32 size)
{
	static_assert(sizeof(shared_page) <= shared_bytes);

	if (int err = make_memory("usdma-dsa", shared_bytes + size * (sizeof(work) + sizeof(completion))); err < 0)
		return err;
	ring_size = size;
	page_ = reinterpret_cast<shared_page *>(memory());
	ring_ = reinterpret_cast<work *>(memory() + shared_bytes);
	done_ = reinterpret_cast<completion *>(ring_ + size);
	return begin(cfg, owner_.vector(index), owner_.has_portals());
}

/* ---- descriptors ------------------------------------------------------------------------------------- */

static bool fill_is_valid(const dma::request &r)
{
	return (r.arg == 1 || r.arg == 4 || r.arg == 8) && r.len % r.arg == 0;
}

bool dsa_channel::in_hardware(const dma::request &r) const
{
	const dma::engine_limits &l = owner_.limits();

	if (r.op >= opcode::op_count || !(l.ops & op_bit(r.op)) || (r.flags & ~dma::valid_flags) || r.spaces)
		return false;
	if (r.op == opcode::nop)
		return true;
	if (r.len - 1 >= l.max_len)
		return false;
	if (r.op == opcode::fill)
		return fill_is_valid(r);
	return owner_.copies_overlap() || (r.dst - r.src >= r.len && r.src - r.dst >= r.len);
}

static u64 pattern_of(const dma::request &r)
{
	return r.arg == 1 ? (r.a & 0xff) * 0x0101010101010101 : r.arg == 4 ? (r.a & 0xffffffff) * 0x100000001 : r.a;
}

/* Fields that an operation has no use for are reserved. */
void dsa_channel::build(u64 i, const dma::request &r)
{
	static constexpr u32 usual = flag_fence | flag_record | flag_record_always;
	const bool fills = r.op == opcode::fill;
	const u32 cache = r.flags & dma::flag_cache ? owner_.cache_flag() : 0;
	const u64 done_iova = iova_of(&done(i));

	if (r.op == opcode::nop)
		slot(i) = {0, op_and_flags(operation::noop, usual), done_iova, 0, 0, 0, 0, 0, {}};
	else
		slot(i) = {0,         op_and_flags(fills ? operation::fill : operation::move, usual | cache),
			   done_iova, fills ? pattern_of(r) : r.src,
			   r.dst,     u32(r.len),
			   0,         0,
			   {}};
	store_relaxed(&done(i).status, u8(0));
}

/* ---- completions ------------------------------------------------------------------------------------- */

static bool is_failure(u8 s)
{
	return s && s != u8(status::success);
}

u64 dsa_channel::read_news(u64 next)
{
	while (s64(handed() - next) >= 0 && status_of(next) == u8(status::success))
		next++;
	return next - 1;
}

/* Status of the first slot that has not completed, or of its batch, if it has failed; else 0. */
u8 dsa_channel::failure() const
{
	const u64 next = collected() + 1;
	const u8 own = s64(handed() - next) >= 0 ? status_of(next) : u8(0), all = load_device(&page_->batch.status);

	return is_failure(own) ? own : is_failure(all) ? all : u8(0);
}

/* With batch_lock_ held. The newest batch has completed, or failed. */
bool dsa_channel::is_done()
{
	completed(this);
	return s64(newest_ - collected()) <= 0 || failure();
}

/* ---- batches ----------------------------------------------------------------------------------------- */

/* Slots from sent_ on. One alone is no batch, which has at least two (5.4), nor may it have the Fence flag. */
void dsa_channel::submit(u32 requests, bool more)
{
	const work &first = slot(sent_ + 1);
	const bool single = requests == 1;

	raises_ = has_vector() && (more || wanted_);
	wanted_ = false;
	const u32 interrupt = raises_ ? u32(flag_interrupt) : 0;
	const u16 handle = raises_ ? owner_.handle(index) : u16(0);
	work w = single ? first : work{0,
				       op_and_flags(operation::batch, flag_record),
				       iova_of(&page_->batch),
				       iova_of(&first),
				       0,
				       requests,
				       0,
				       0,
				       {}};
	w.flags_operation = (w.flags_operation & ~u32(flag_fence)) | interrupt;
	w.handle = handle;
	sent_ += requests;
	newest_ = sent_;
	is_batch_ = !single;
	owner_.submit(index, w);
}

/* How many of the next requests are the next batch: they are next to each other in the ring, and end soon enough. */
u32 dsa_channel::next_batch() const
{
	const u64 to_end = ring_size - ((sent_ + 1) & (ring_size - 1));
	const u32 most = u32(std::min({last_ - sent_, to_end, u64(owner_.batch_size())}));
	u32 n = 1;

	for (u64 bytes = slot(sent_ + 1).size; n < most; n++) {
		bytes += slot(sent_ + 1 + n).size;
		if (bytes > batch_bytes)
			break;
	}
	return n;
}

/* The next batch, if there are requests and the one before is done. */
void dsa_channel::proceed()
{
	std::lock_guard g(batch_lock_);

	if (sent_ == last_)
		return;
	if (!is_done()) {
		if (!raises_)
			submit_drain();
		return;
	}
	/* Read after that: a batch that fails now must not count as done. */
	if (failure())
		return;
	const u32 n = next_batch();
	submit(n, sent_ + n != last_);
}

/* ---- interrupts ---------------------------------------------------------------------------------------- */

/* A drain completes when the batches before it have, whether they succeed or not. Without a vector the thread polls. */
void dsa_channel::submit_drain()
{
	if (!has_vector())
		return;
	raises_ = true;
	owner_.submit(index,
		      {0, op_and_flags(operation::drain, flag_interrupt), 0, 0, 0, 0, owner_.handle(index), 0, {}});
}

/* Nothing is posted to the device that a read would have to flush. */
void dsa_channel::rearm(bool)
{
	std::lock_guard g(batch_lock_);

	if (is_done())
		wanted_ = true;
	else if (!raises_)
		submit_drain();
}

/* ---- start and stop ------------------------------------------------------------------------------------ */

int dsa_channel::reset()
{
	bool idle;
	{
		std::lock_guard g(batch_lock_);

		idle = !unsure_ && is_done() && !failure();
	}
	const int err = owner_.reset_queue(index, idle);

	unsure_ = err < 0;
	if (!err)
		was_reset();
	return err;
}

/*
 * A queue whose batches have completed stays enabled. The record of a batch in which one has failed comes after that
 * one's, and would be taken for the next batch's: the reset waits for it.
 */
int dsa_channel::quiesce()
{
	bool idle;
	{
		std::lock_guard g(batch_lock_);

		idle = !unsure_ && (!enabled_ || (is_done() && !failure() && !has_failed_));
	}
	return idle ? 0 : reset();
}

void dsa_channel::was_reset()
{
	std::lock_guard g(batch_lock_);

	enabled_ = unsure_ = has_failed_ = false;
	completed(this);
	newest_ = collected();
}

int dsa_channel::start(u64 first)
{
	int err = 0;

	/* An error of what was dropped is not one of what follows. */
	owner_.clear_error(index);
	if (!enabled_)
		err = owner_.enable_queue(index);
	unsure_ = err < 0;
	if (err)
		return err;
	std::lock_guard g(batch_lock_);
	enabled_ = true;
	sent_ = last_ = newest_ = first - 1;
	store_relaxed(&page_->batch.status, u8(0));
	raises_ = false;
	wanted_ = true;
	return 0;
}

/* At the end of a batch: what follows has not been submitted. */
int dsa_channel::suspend()
{
	const deadline until = deadline::in_ms(batch_ms);
	const timespec t = {0, 20 * 1000};

	for (;; nanosleep(&t, nullptr)) {
		{
			std::lock_guard g(batch_lock_);

			if (is_done())
				return 0;
		}
		if (until.passed())
			return fail(ETIMEDOUT, "the queue's batch is not done after %llu ms",
				    static_cast<unsigned long long>(batch_ms));
	}
}

/* ---- faults ------------------------------------------------------------------------------------------ */

bool dsa_channel::has_halted()
{
	completed(this);
	return failure();
}

/*
 * An error without a record is in SWERROR, as is one of a descriptor that was no request's: it counts only while a
 * batch is in flight.
 */
int dsa_channel::read_halted(bool *out)
{
	u32 general = 0;
	u64 error = 0;
	int err = owner_.read_state(off_gensts, &general);

	if (!err)
		err = owner_.read(off_swerror, &error);
	std::lock_guard g(batch_lock_);
	*out = has_halted() || device_state(general & 3) == device_state::halt ||
	       (is_error_of(index, error) && !is_done());
	return err;
}

/* What is in SWERROR may be of something else. */
int dsa_channel::poll_halted(bool *halted)
{
	u32 general = 0;
	const int err = owner_.read_state(off_gensts, &general);

	*halted = !err && device_state(general & 3) == device_state::halt;
	return err;
}

static fault_reason reason_of(u8 code)
{
	switch (status(code & status_mask)) {
	case status::page_fault:
	case status::page_fault_blocked:
		return code & status_write ? fault_reason::dst_unmapped : fault_reason::src_unmapped;
	case status::size:
		return fault_reason::bad_length;
	case status::operation:
	case status::flags:
	case status::reserved:
		return fault_reason::bad_op;
	default:
		return fault_reason::transfer;
	}
}

/* The list of areas has the exact address, and whether a right was missing; the device may report the page alone. */
void dsa_channel::read_fault(const dma::request &r, fault_reason *why, u64 *at)
{
	const u64 next = collected() + 1;
	const u8 code = failure();
	const u64 address = status_of(next) ? done(next).address : page_->batch.address;

	has_failed_ |= is_batch_;
	owner_.clear_error(index);
	log_debug("%s: channel %u: status 0x%x at 0x%llx", owner_.transport().name(), index, code,
		  static_cast<unsigned long long>(address));
	if (find_fault(r, why, at))
		return;
	*why = reason_of(code);
	*at = *why == fault_reason::src_unmapped || *why == fault_reason::dst_unmapped ? address : r.dst;
}

void dsa_channel::describe_hardware(char *buf, size_t size)
{
	u32 state = 0;
	u64 error = 0;

	owner_.read(owner_.queue_reg(index, wq_word_state), &state);
	owner_.read(off_swerror, &error);
	snprintf(buf, size, "queue state 0x%x, failure 0x%x, software error 0x%llx", state, failure(),
		 static_cast<unsigned long long>(error));
}

} // namespace usdma::dsa
