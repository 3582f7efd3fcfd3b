/* SPDX-License-Identifier: BSD-3-Clause */
/* What the thread runs: the queue's descriptors, in order. */
#include "driver/sim/models/ptdma/ptdma_model.h"

namespace usdma::sim {

using namespace ptdma;

/* ---- injected faults ------------------------------------------------------------------------------- */

/* Checked once for each descriptor, and again while the queue hangs. */
bool ptdma_model::hangs()
{
	const bool hung = injected_hang(0, queue_.seq);
	std::lock_guard guard(lock_);

	queue_.hung = hung;
	if (hung) {
		queue_.busy = false;
		apply_pending();
	}
	return hung;
}

/* The error that the driver of a real device would see. */
static u32 error_of(dma::fault_reason reason)
{
	using dma::fault_reason;

	switch (reason) {
	case fault_reason::none:
		return error_none;
	case fault_reason::bad_op:
		return error_engine;
	case fault_reason::bad_length:
		return error_length;
	case fault_reason::src_unmapped:
	case fault_reason::src_denied:
		return error_read;
	case fault_reason::dst_unmapped:
	case fault_reason::dst_denied:
		return error_write;
	default:
		return error_parity;
	}
}

u32 ptdma_model::injected(u64 dst)
{
	u64 address;

	return wrong_ ? error_of(wrong_->descriptor(0, queue_.seq, dst, &address)) : u32(error_none);
}

/* Reported, and reported again when it is done. */
void ptdma_model::complete_early(u32 control)
{
	bool raises;

	if (!(control & desc_interrupt) || !wrong_->wrong(mistake::early))
		return;
	{
		std::lock_guard guard(lock_);

		raises = set_status(int_done);
	}
	if (raises)
		raise(0);
	delay_early(0);
}

/* ---- a descriptor ---------------------------------------------------------------------------------- */

/* With lock_ held. Model: one message when the first enabled bit is set; enabling one that is set raises none. */
bool ptdma_model::set_status(u32 bits)
{
	const bool before = queue_.int_status & queue_.int_enable;

	queue_.int_status |= bits;
	return !before && queue_.int_status & queue_.int_enable;
}

/* A reset waits until the interrupt is raised. */
void ptdma_model::end(outcome o)
{
	ptdma_queue &q = queue_;
	bool raises;

	if (o.error && wrong_ && wrong_->wrong(mistake::error))
		o.error = error_none;
	{
		std::lock_guard guard(lock_);

		q.running = false;
		q.status = o.error;
		if (!o.error)
			q.head = (q.head & ~q.ring_mask()) | ((q.head + u32(sizeof(descriptor))) & q.ring_mask());
		if (o.error || q.is_empty())
			q.control &= ~u32(control_run);
		raises = set_status(o.error ? u32(int_error) : o.control & desc_interrupt ? u32(int_done) : 0);
	}
	if (raises)
		raise(0);
	std::lock_guard guard(lock_);

	q.busy = false;
	apply_pending();
}

/* Model: which of the errors that have names it is. */
static u32 check(const descriptor &d)
{
	if ((d.control & desc_engine_mask) != (desc_copy & desc_engine_mask))
		return error_engine;
	if ((d.control | desc_interrupt) != desc_copy || d.reserved || d.reserved_too)
		return error_function_reserved;
	if (!d.len)
		return error_length;
	if ((d.src_high | d.dst_high) & desc_memory_mask)
		return error_memory_select;
	return (d.src_high | d.dst_high) & ~desc_high_mask ? error_function_reserved : error_none;
}

static u64 address(u32 high, u32 low)
{
	return u64(high & desc_high_mask) << 32 | low;
}

/* Model: addresses do not go on at 0. */
static u32 check_end(const descriptor &d, u64 src, u64 dst)
{
	static constexpr u64 end = u64(1) << address_bits;

	return src + d.len > end ? u32(error_read) : dst + d.len > end ? u32(error_write) : u32(error_none);
}

ptdma_model::outcome ptdma_model::execute(u64 at)
{
	descriptor d;
	bool at_source = false;
	outcome o;

	if (!memory_.read(at, &d, sizeof(d)))
		return {.error = error_fetch};
	const u64 src = address(d.src_high, d.src_low), dst = address(d.dst_high, d.dst_low);
	o.control = d.control;
	o.error = check(d);
	if (!o.error)
		o.error = check_end(d, src, dst);
	if (!o.error)
		o.error = injected(dst);
	if (!o.error && wrong_)
		complete_early(d.control);
	const bool less = !o.error && wrong_ && d.len > 1 && wrong_->wrong(mistake::length);

	if (!o.error && !memory_.copy(dst, src, d.len - less, &at_source))
		o.error = at_source ? error_read : error_write;
	o.moved = d.len;
	if (wrong_)
		o.delay_ns = wrong_->delay_ns(0, queue_.seq);
	return o;
}

/* True: run the descriptor at *at. */
bool ptdma_model::begin(u64 *at)
{
	std::lock_guard guard(lock_);
	ptdma_queue &q = queue_;

	apply_pending();
	/* One that hangs does not stop. */
	if (!(q.hung || (q.can_run() && !q.is_empty())))
		return false;
	q.busy = q.running = true;
	q.seq += !q.hung;
	*at = q.at();
	return true;
}

bool ptdma_model::run_queue(u32)
{
	const u64 from = pace_from();
	u64 at;

	if (!begin(&at) || (wrong_ && hangs()))
		return false;
	const outcome o = execute(at);

	pace(0, from, o.delay_ns, o.moved);
	end(o);
	return true;
}

} // namespace usdma::sim
