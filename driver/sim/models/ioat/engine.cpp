/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the thread runs: the channels' descriptors. They end in order. Without a fence the next one may begin before
 * ([D] fence, [L] DMA_PREP_FENCE): of two copies or fills the second moves its data first. Model: not with injected
 * faults.
 */
#include "driver/sim/models/ioat/ioat_model.h"

#include <algorithm>
#include <cstring>

namespace usdma::sim {

using namespace ioat;

static constexpr u64 fill_block = 4 * KiB;
/* ---- interrupts ------------------------------------------------------------------------------------ */

/* With lock_ held. True: raise *vector. */
bool ioat_model::interrupt(ioat_channel &ch, bool failed, u32 control, u32 *vector)
{
	const bool wanted = failed ? ch.ctrl & ctrl_err_int : control & desc_interrupt;

	if (!wanted || ch.ctrl & ctrl_int_rearm)
		return false;
	/* Disabled until the client writes the bit. */
	ch.ctrl |= ctrl_int_rearm;
	*vector = ch.index;
	if (intrctrl_ & intr_vectors)
		return !ch.mute;
	attention_ |= 1u << ch.index;
	*vector = 0;
	return intrctrl_ & intr_master;
}

/* ---- a descriptor ---------------------------------------------------------------------------------- */

/* True: run the descriptor at *at. */
bool ioat_model::begin(ioat_channel &ch, u64 *at)
{
	std::lock_guard guard(lock_);

	apply_pending(ch);
	if (!ch.has_work())
		return false;
	ch.busy = true;
	ch.seq += !ch.hung;
	*at = ch.current = ch.next;
	return true;
}

/* The completion is written before the interrupt is raised; a reset waits until both are done. */
void ioat_model::report(ioat_channel &ch, u64 status, const outcome &o)
{
	u32 vector = 0;
	u64 cmp;
	bool wanted;
	{
		std::lock_guard guard(lock_);

		cmp = ch.cmp;
		wanted = o.err ? ch.ctrl & ctrl_err_completion : o.control & desc_completion;
	}
	if (wanted && wrong_ && wrong_->drop_record(ch.index, ch.seq))
		wanted = false;
	const bool written = !wanted || (cmp % 8 == 0 && memory_.write(cmp, &status, sizeof(status)));
	{
		std::lock_guard guard(lock_);

		if (!written)
			halt(ch, err_completion_address);
		wanted = interrupt(ch, o.err || !written, o.control, &vector);
	}
	if (wanted)
		raise(vector);
}

void ioat_model::end(ioat_channel &ch, u64 at, outcome o)
{
	u64 status;
	{
		std::lock_guard guard(lock_);

		/* Differences that validation found do not halt it if they are masked. */
		o.err &= ~(ch.errmask & (err_xor_p | err_xor_q));
		ch.run = u16(ch.run + o.counted);
		if (o.err) {
			halt(ch, wrong_ && wrong_->wrong(mistake::error) ? o.err << 1 : o.err);
		} else {
			ch.completed = at & sts_address;
			ch.next = o.next;
		}
		status = ch.completed | (o.err ? u64(sts_halted) : ch.has_work() ? u64(sts_active) : u64(sts_idle));
	}
	if (o.control & desc_completion && !o.err && wrong_ && wrong_->wrong(mistake::completion))
		status -= sizeof(descriptor);
	report(ch, status, o);
	std::lock_guard guard(lock_);

	ch.busy = false;
	apply_pending(ch);
}

bool ioat_model::may_run_ahead(u64 at, descriptor *d)
{
	const u32 op = at % sizeof(*d) || !memory_.read(at, d, sizeof(*d)) ? ~0u : d->control >> desc_op_shift;

	return op == op_copy || op == op_fill;
}

void ioat_model::run_ahead(ioat_channel &ch, u64 at)
{
	descriptor d, next;
	{
		std::lock_guard guard(lock_);

		if (wrong_ || u16(ch.run + 1) == ch.dmacount)
			return;
	}
	if (!may_run_ahead(at, &d) || d.control & desc_fence || !may_run_ahead(d.next, &next))
		return;
	ahead_[ch.index] = execute(ch, d.next);
	std::lock_guard guard(lock_);
	ch.ahead = true;
}

bool ioat_model::run_queue(u32 index)
{
	ioat_channel &ch = channels_[index];
	const u64 from = pace_from();
	u64 at;

	if (!begin(ch, &at) || (wrong_ && hangs(ch)))
		return false;
	const bool was_ahead = ch.ahead;
	const outcome before = ahead_[index];
	ch.ahead = false;
	if (!was_ahead)
		run_ahead(ch, at);
	const outcome o = was_ahead ? before : execute(ch, at);
	pace(index, from, o.delay_ns, o.moved);
	end(ch, at, o);
	return true;
}

/* ---- injected faults ------------------------------------------------------------------------------- */

/* Checked once for each descriptor, and again while the channel hangs. */
bool ioat_model::hangs(ioat_channel &ch)
{
	const bool hung = injected_hang(ch.index, ch.seq);
	std::lock_guard guard(lock_);

	ch.hung = hung;
	if (hung) {
		ch.busy = false;
		apply_pending(ch);
	}
	return hung;
}

/* The bit of CHANERR that the driver of a real device would see. */
static u32 chanerr_of(dma::fault_reason reason)
{
	using dma::fault_reason;

	switch (reason) {
	case fault_reason::none:
		return 0;
	case fault_reason::bad_op:
		return err_control;
	case fault_reason::bad_length:
		return err_length;
	case fault_reason::src_unmapped:
	case fault_reason::src_denied:
		return err_read_data;
	case fault_reason::dst_unmapped:
	case fault_reason::dst_denied:
		return err_write_data;
	case fault_reason::unaligned:
	case fault_reason::bad_tag:
		return err_descriptor;
	default:
		return err_dma_integrity;
	}
}

u32 ioat_model::injected(ioat_channel &ch, u64 dst)
{
	u64 address;

	return wrong_ ? chanerr_of(wrong_->descriptor(ch.index, ch.seq, dst, &address)) : 0;
}

/* Reported, and reported again when it is done. */
void ioat_model::complete_early(ioat_channel &ch, u64 at, u32 control)
{
	if (!(control & (desc_completion | desc_interrupt)) || !wrong_->wrong(mistake::early))
		return;
	report(ch, (at & sts_address) | sts_idle, {.control = control});
	delay_early(ch.index);
}

/* ---- operations ------------------------------------------------------------------------------------ */

u32 ioat_model::execute_copy(const descriptor &d)
{
	bool at_source = false;

	if (d.control & desc_null)
		return 0;
	if (memory_.copy(d.dst, d.src, d.size, &at_source))
		return 0;
	return at_source ? err_read_data : err_write_data;
}

/* The pattern begins at the destination. */
u32 ioat_model::execute_fill(const descriptor &d)
{
	u8 block[fill_block];

	for (u64 at = 0; at < sizeof(block); at += sizeof(d.src))
		memcpy(block + at, &d.src, sizeof(d.src));
	for (u64 at = 0, n; at < d.size; at += n) {
		n = std::min<u64>(d.size - at, sizeof(block));
		if (!memory_.write(d.dst + at, block, n))
			return err_write_data;
	}
	return 0;
}

u32 ioat_model::execute_op(descriptor d, outcome *o)
{
	if (!d.size || d.size > 1u << usual_xfercap)
		return err_length;
	o->moved = d.size;
	d.size -= wrong_ && d.size > 1 && wrong_->wrong(mistake::length);
	switch (d.control >> desc_op_shift) {
	case op_copy:
		return execute_copy(d);
	case op_fill:
		return execute_fill(d);
	case op_xor:
	case op_xor_val:
	case op_pq:
	case op_pq_val:
		return execute_raid(d, o);
	}
	return err_control;
}

ioat_model::outcome ioat_model::execute(ioat_channel &ch, u64 at)
{
	descriptor d;
	outcome o;

	if (at % sizeof(d))
		o.err = ch.run ? err_descriptor : err_chain_address;
	else if (!memory_.read(at, &d, sizeof(d)))
		o.err = err_next_address;
	if (o.err)
		return o;
	o.control = d.control;
	o.next = d.next;
	o.err = injected(ch, d.dst);
	if (!o.err && wrong_)
		complete_early(ch, at, d.control);
	if (!o.err)
		o.err = execute_op(d, &o);
	if (wrong_)
		o.delay_ns = wrong_->delay_ns(ch.index, ch.seq);
	return o;
}

} // namespace usdma::sim
