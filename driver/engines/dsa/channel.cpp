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
static constexpr u32 batch_requests = 32;
/* Of a batch's record before it is used. */
static constexpr u8 free_record = 0xff;

/* ---- opening ---------------------------------------------------------------------------------------- */

dsa_channel::dsa_channel(dsa_engine &e, u32 index_) : ring_channel(e, e.host(), index_), owner_(e) {}

int dsa_channel::open(const dma::channel_config &cfg, u32 size)
{
	static_assert(sizeof(shared_page) <= shared_bytes);

	if (int err = make_memory("usdma-dsa", shared_bytes + size * (sizeof(pair) + sizeof(u64))); err < 0)
		return err;
	ring_size = size;
	page_ = reinterpret_cast<shared_page *>(memory());
	ring_ = reinterpret_cast<pair *>(memory() + shared_bytes);
	numbers_ = reinterpret_cast<u64 *>(ring_ + size);
	for (completion &c : page_->batch)
		c.status = free_record;
	batch_seq_ = cfg.first_seq;
	return begin(cfg, owner_.vector(index));
}

void dsa_channel::close()
{
	owner_.close(this);
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
void dsa_channel::build(u64 i, u64 seq, const dma::request &r)
{
	static constexpr u32 usual = flag_fence | flag_record;
	const u64 fault = iova_of(&page_->fault);
	u64 *number = &numbers_[i & (ring_size - 1)];
	pair &p = slot(i);

	p.data = {0, op_and_flags(operation::noop, usual), fault, 0, 0, 0, 0, 0, {}};
	if (r.op != opcode::nop) {
		const bool fills = r.op == opcode::fill;
		const u32 cache = r.flags & dma::flag_cache ? owner_.cache_flag() : 0;

		p.data.flags_operation = op_and_flags(fills ? operation::fill : operation::move, usual | cache);
		p.data.src = fills ? pattern_of(r) : r.src;
		p.data.dst = r.dst;
		p.data.size = u32(r.len);
	}
	*number = seq;
	p.number = {0,
		    op_and_flags(operation::move, usual | owner_.cache_flag()),
		    fault,
		    iova_of(number),
		    iova_of(&page_->record.completed),
		    sizeof(seq),
		    0,
		    0,
		    {}};
}

/* ---- batches ----------------------------------------------------------------------------------------- */

/* What the batch wrote before is visible. */
u8 dsa_channel::batch_status() const
{
	return load_device(&page_->batch[batch_ % shared_page::batches].status);
}

/* With batch_lock_ held. The newest batch, of this status, has neither stored its last number nor ended. */
bool dsa_channel::in_flight(u8 status) const
{
	return !status && s64(dma::completed(this) - batch_seq_) < 0;
}

static bool is_failure(u8 s)
{
	return s && s != u8(status::success) && s != free_record;
}

/* Slots from sent_ on. */
void dsa_channel::submit_batch(u32 requests, bool more)
{
	completion &own = page_->batch[++batch_ % shared_page::batches];

	store_relaxed(&own.status, u8(0));
	raises_ = more || wanted_;
	wanted_ = false;
	batch_seq_ = numbers_[(sent_ + requests) & (ring_size - 1)];
	owner_.submit(index, {0,
			      op_and_flags(operation::batch,
					   flag_record | flag_record_always | (raises_ ? u32(flag_interrupt) : 0)),
			      iova_of(&own),
			      iova_of(&slot(sent_ + 1)),
			      0,
			      2 * requests,
			      raises_ ? owner_.handle(index) : u16(0),
			      0,
			      {}});
	sent_ += requests;
}

/*
 * The next batch, if there are requests and the one before is done. Its record may be written later than its numbers:
 * so each has its own, which is used again when it has been written.
 */
void dsa_channel::proceed()
{
	std::lock_guard g(batch_lock_);
	/* Read once: a batch that fails now must not count as done. */
	const u8 newest = batch_status();
	const u8 next = load_device(&page_->batch[(batch_ + 1) % shared_page::batches].status);
	const u64 to_end = ring_size - ((sent_ + 1) & (ring_size - 1));

	if (sent_ == last_ || is_failure(newest))
		return;
	if (in_flight(newest) || !next) {
		if (!raises_)
			submit_drain();
		return;
	}
	const u32 n = u32(std::min({last_ - sent_, to_end, u64(batch_requests)}));
	submit_batch(n, sent_ + n != last_);
}

/* ---- interrupts ---------------------------------------------------------------------------------------- */

/* A drain completes when the batches before it have, whether they succeed or not. */
void dsa_channel::submit_drain()
{
	raises_ = true;
	owner_.submit(index,
		      {0, op_and_flags(operation::drain, flag_interrupt), 0, 0, 0, 0, owner_.handle(index), 0, {}});
}

/* Nothing is posted to the device that a read would have to flush. */
void dsa_channel::rearm(bool)
{
	std::lock_guard g(batch_lock_);

	if (!in_flight(batch_status()))
		wanted_ = true;
	else if (!raises_)
		submit_drain();
}

/* ---- start and stop ------------------------------------------------------------------------------------ */

int dsa_channel::reset()
{
	const int err = owner_.reset_queue(index, !unsure_ && is_done());

	unsure_ = err < 0;
	if (!err)
		was_reset();
	return err;
}

/* Nothing is written any more, nor are the records of what was dropped. */
void dsa_channel::was_reset()
{
	std::lock_guard g(batch_lock_);

	enabled_ = unsure_ = false;
	batch_seq_ = dma::completed(this);
	for (completion &c : page_->batch)
		store_relaxed(&c.status, free_record);
}

bool dsa_channel::is_done()
{
	std::lock_guard g(batch_lock_);

	return !in_flight(batch_status());
}

int dsa_channel::start(u64 first)
{
	int err = unsure_ || (enabled_ && !is_done()) ? reset() : 0;

	/* An error of what was dropped is not one of what follows. */
	owner_.clear_error(index);
	if (!err && !enabled_)
		err = owner_.enable_queue(index);
	unsure_ = err < 0;
	if (err)
		return err;
	std::lock_guard g(batch_lock_);
	enabled_ = true;
	sent_ = last_ = first - 1;
	batch_seq_ = dma::completed(this);
	store_relaxed(&page_->fault.status, u8(0));
	store_relaxed(&page_->batch[batch_ % shared_page::batches].status, free_record);
	raises_ = false;
	wanted_ = true;
	return 0;
}

/* At the end of a batch: what follows has not been submitted. */
int dsa_channel::suspend()
{
	const deadline until = deadline::in_ms(batch_ms);
	const timespec t = {0, 20 * 1000};

	for (; !is_done(); nanosleep(&t, nullptr))
		if (until.passed())
			return fail(ETIMEDOUT, "the queue's batch is not done after %llu ms",
				    static_cast<unsigned long long>(batch_ms));
	return 0;
}

/* ---- faults ------------------------------------------------------------------------------------------ */

bool dsa_channel::has_halted()
{
	return is_failure(batch_status());
}

/*
 * Only its record shows that a batch has failed; an error without one is in SWERROR, as is one of a descriptor that was
 * no request's: it counts only while a batch is in flight.
 */
int dsa_channel::read_halted(bool *out)
{
	u32 general = 0;
	u64 error = 0;
	int err = owner_.read(off_gensts, &general);

	if (!err)
		err = owner_.read(off_swerror, &error);
	*out = has_halted() || device_state(general & 3) == device_state::halt ||
	       (is_error_of(index, error) && !is_done());
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
	const u8 code = load_device(&page_->fault.status);

	owner_.clear_error(index);
	log_debug("%s: channel %u: batch 0x%x, descriptor 0x%x", owner_.transport().name(), index, batch_status(),
		  code);
	if (find_fault(r, why, at))
		return;
	*why = reason_of(code);
	*at = *why == fault_reason::src_unmapped || *why == fault_reason::dst_unmapped ? page_->fault.address : r.dst;
}

void dsa_channel::describe_hardware(char *buf, size_t size)
{
	u32 state = 0;
	u64 error = 0;

	owner_.read(owner_.queue_reg(index, wq_word_state), &state);
	owner_.read(off_swerror, &error);
	snprintf(buf, size, "queue state 0x%x, batch status 0x%x, software error 0x%llx", state, batch_status(),
		 static_cast<unsigned long long>(error));
}

} // namespace usdma::dsa
