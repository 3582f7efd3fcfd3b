/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the thread runs: the queues' submissions. They end in order. One without a fence may begin before the one in
 * front of it has ended ([D] SQE_FENCE_FLAG): the second of two moves its data first. Model: not with injected faults.
 */
#include "driver/sim/models/hisi/hisi_model.h"

namespace usdma::sim {

using namespace hisi;

/* Several submissions have one completion: a client must not count those. */
static constexpr u32 most_unreported = 8;

/* ---- completions ----------------------------------------------------------------------------------- */

/* With lock_ held. The completion of a submission is written now, not with that of a later one. */
bool hisi_model::is_due(hisi_queue &q, const outcome &o)
{
	q.unreported++;
	if (!o.status && !(o.control & sqe_interrupt) && q.unreported < most_unreported && q.is_on() && q.has_work())
		return false;
	if (!wrong_ || !wrong_->drop_record(q.index, q.seq))
		return true;
	q.unreported = 0;
	return false;
}

/* With lock_ held: the next entry of the CQ. What to write there. */
u64 hisi_model::take_entry(hisi_queue &q, u32 index, u32 status, u64 *at)
{
	const u64 word = index | q.valid | u64(status) << cqe_status_shift;

	*at = q.base(q_cq_base) + q.cq_tail * sizeof(completion) + offsetof(completion, word);
	q.cq_tail = q.next_cq();
	if (!q.cq_tail)
		q.valid ^= cqe_valid;
	q.unreported = 0;
	return word;
}

/* With lock_ held: the status of interrupts. True: raise one. */
bool hisi_model::note(hisi_queue &q, const outcome &o)
{
	const u32 done = o.control & sqe_interrupt ? u32(int_done) : 0, error = err_bit(o.status);

	if (!layout_.err_bits) {
		q.at(q_int_sts) |= (done | error) & layout_.int_bits;
		return (done | error) & ~q.get(q_int_msk);
	}
	q.at(q_int_sts) |= done;
	q.at(hip09_err_sts) |= error & layout_.err_bits;
	return (done & ~q.get(q_int_msk)) || (error & ~q.get(hip09_err_msk));
}

/* The completion is written before the interrupt is raised; a reset waits until both are done. at: 0: none. */
void hisi_model::report(hisi_queue &q, u64 at, u64 word, const outcome &o)
{
	const bool written = !at || memory_.write(at, &word, sizeof(word));
	bool raises;
	{
		std::lock_guard guard(lock_);

		if (!written)
			q.state = fsm_halt;
		raises = note(q, o);
	}
	if (raises)
		raise(q.index);
}

void hisi_model::end(hisi_queue &q, outcome o)
{
	u64 at = 0, word = 0;
	{
		std::lock_guard guard(lock_);
		u32 index = q.head;

		q.head = q.head >= q.get(q_sq_depth) ? 0 : q.head + 1;
		q.state = o.status && q.get(q_ctrl0) & layout_.ctrl0_abort ? fsm_abort : fsm_done;
		q.at(q_err_num0) += o.status != st_success;
		if (o.status && wrong_ && wrong_->wrong(mistake::error))
			o.status = st_success;
		if (is_due(q, o)) {
			if (wrong_ && wrong_->wrong(mistake::completion))
				index = index ? index - 1 : q.get(q_sq_depth);
			word = take_entry(q, index, o.status, &at);
		}
	}
	report(q, at, word, o);
	std::lock_guard guard(lock_);

	q.busy = q.early = false;
	apply_pending(q);
}

/* What was left to a later completion, which does not come: the queue was paused, or disabled. True: done. */
bool hisi_model::flush(hisi_queue &q)
{
	u64 at, word;
	{
		std::lock_guard guard(lock_);

		if (!q.has_unreported() || q.can_run())
			return false;
		word = take_entry(q, q.head ? q.head - 1 : q.get(q_sq_depth), st_success, &at);
		q.busy = true;
	}
	report(q, at, word, {});
	std::lock_guard guard(lock_);

	q.busy = false;
	apply_pending(q);
	return true;
}

/* Reported, and reported again when it is done. */
void hisi_model::complete_early(hisi_queue &q, u32 control)
{
	u64 at, word;
	{
		std::lock_guard guard(lock_);

		if (!wrong_->wrong(mistake::early))
			return;
		word = take_entry(q, q.head, st_success, &at);
		q.early = true;
	}
	report(q, at, word, {.control = control});
	delay_early(q.index);
}

/* ---- injected faults ------------------------------------------------------------------------------- */

/* Checked once for each submission, and again while the queue hangs. */
bool hisi_model::hangs(hisi_queue &q)
{
	const bool hung = injected_hang(q.index, q.seq);
	std::lock_guard guard(lock_);

	q.hung = hung;
	if (hung) {
		q.busy = false;
		apply_pending(q);
	}
	return hung;
}

/* The status that the driver of a real device would see. */
static u32 status_of(dma::fault_reason reason)
{
	using dma::fault_reason;

	switch (reason) {
	case fault_reason::none:
		return st_success;
	case fault_reason::bad_op:
		return st_opcode;
	case fault_reason::bad_length:
		return st_length;
	case fault_reason::src_unmapped:
	case fault_reason::src_denied:
		return st_read;
	case fault_reason::dst_unmapped:
	case fault_reason::dst_denied:
		return st_write;
	case fault_reason::unaligned:
	case fault_reason::bad_tag:
		return st_sqe_read;
	default:
		return st_poison;
	}
}

u32 hisi_model::injected(hisi_queue &q, u64 dst)
{
	u64 address;

	return wrong_ ? status_of(wrong_->descriptor(q.index, q.seq, dst, &address)) : u32(st_success);
}

/* ---- a submission ---------------------------------------------------------------------------------- */

u32 hisi_model::execute_copy(const submission &s)
{
	const bool less = wrong_ && s.len > 1 && wrong_->wrong(mistake::length);
	bool at_source = false;

	if (memory_.copy(s.dst, s.src, s.len - less, &at_source))
		return st_success;
	return at_source ? st_read : st_write;
}

hisi_model::outcome hisi_model::execute(hisi_queue &q, u64 at)
{
	submission s;
	outcome o;

	if (!memory_.read(at, &s, sizeof(s)))
		return {.status = st_sqe_read};
	o.control = s.control;
	o.status = (s.control & sqe_op_mask) != sqe_copy ? u32(st_opcode) :
		   !s.len                                ? u32(st_length) :
							   injected(q, s.dst);
	if (!o.status && wrong_)
		complete_early(q, s.control);
	if (!o.status)
		o.status = execute_copy(s);
	o.moved = s.len;
	if (wrong_)
		o.delay_ns = wrong_->delay_ns(q.index, q.seq);
	return o;
}

void hisi_model::run_ahead(hisi_queue &q)
{
	submission next;
	u64 at;
	{
		std::lock_guard guard(lock_);
		const u32 index = q.head >= q.get(q_sq_depth) ? 0 : q.head + 1;

		if (wrong_ || index == q.get(q_sq_tail))
			return;
		at = q.base(q_sq_base) + u64(index) * sizeof(submission);
	}
	if (!memory_.read(at, &next, sizeof(next)) || next.control & sqe_fence)
		return;
	ahead_[q.index] = execute(q, at);
	std::lock_guard guard(lock_);
	q.ahead = true;
}

/* True: run the submission at *at. */
bool hisi_model::begin(hisi_queue &q, u64 *at)
{
	std::lock_guard guard(lock_);

	apply_pending(q);
	/* One that hangs is not paused. */
	if (q.is_stopped() || !(q.hung || q.can_run()))
		return false;
	q.busy = true;
	q.seq += !q.hung;
	*at = q.base(q_sq_base) + u64(q.head) * sizeof(submission);
	return true;
}

bool hisi_model::run_queue(u32 index)
{
	hisi_queue &q = queues_[index];
	const u64 from = pace_from();
	u64 at;

	if (!begin(q, &at))
		return flush(q);
	if (wrong_ && hangs(q))
		return false;
	const bool was_ahead = q.ahead;
	const outcome before = ahead_[index];
	q.ahead = false;
	if (!was_ahead)
		run_ahead(q);
	const outcome o = was_ahead ? before : execute(q, at);
	pace(index, from, o.delay_ns, o.moved);
	end(q, o);
	return true;
}

} // namespace usdma::sim
