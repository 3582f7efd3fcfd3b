/* SPDX-License-Identifier: BSD-3-Clause */
/* What the thread runs: one descriptor of each queue in turn, in order, so that a fence or a drain needs no action. */
#include "driver/sim/models/dsa/dsa_model.h"

#include <cstring>
#include <utility>

namespace usdma::sim {

using dsa::operation;
using dsa::status;

static operation op_of(const dsa::work &w)
{
	return operation(w.flags_operation >> 24);
}

/* ---- interrupts ------------------------------------------------------------------------------------ */

/* Of a descriptor whose handle is valid. */
void dsa_model::interrupt(const dsa::work &w, const outcome &o)
{
	u32 vector;

	if (!(w.flags_operation & dsa::flag_interrupt) || o.status == status::handle)
		return;
	{
		std::lock_guard guard(lock_);

		if (!vector_of(w.handle, &vector) || permissions_[vector] & dsa::perm_ignore)
			return;
	}
	raise(vector);
}

/* ---- a descriptor ---------------------------------------------------------------------------------- */

/*
 * Descriptors of a queue may pass each other (3.8, 3.9), but for a drain: of three that wait the second is the first.
 * Not the last one: DPDK takes a queue as idle when its last batch is done (idxd_vchan_status).
 */
void dsa_model::reorder(dsa_queue &q)
{
	dsa::work &one = q.slots[q.head], &two = q.slots[(q.head + 1) % dsa_queue::most];

	q.reordered = !q.reordered && q.count > 2 && !(cmdstatus_ & dsa::cmd_active) &&
		      op_of(one) != operation::drain && op_of(two) != operation::drain;
	if (q.reordered)
		std::swap(one, two);
}

/* True: go on with q.running. */
bool dsa_model::begin(dsa_queue &q)
{
	std::lock_guard guard(lock_);

	if (q.abort) {
		drop(q, target_[q.index]);
		advance_command();
	}
	if (reset_due_ || state_ == dsa::device_state::halt)
		return false;
	if (!q.active && q.count) {
		reorder(q);
		q.running = q.slots[q.head];
		q.head = (q.head + 1) % dsa_queue::most;
		q.count--;
		q.active = true;
	}
	q.busy = q.active;
	return q.active;
}

void dsa_model::end(dsa_queue &q, bool done)
{
	std::lock_guard guard(lock_);

	q.busy = false;
	q.active &= !done;
	q.finished += done;
	if (q.abort)
		drop(q, target_[q.index]);
	if (reset_due_)
		power_on();
	advance_command();
}

bool dsa_model::run_queue(u32 index)
{
	dsa_queue &q = queues_[index];

	if (!begin(q))
		return false;
	const bool done = step(q);
	const bool hung = q.hung;

	end(q, done);
	return !hung;
}

/* The next step of q.running. True: it has completed. */
bool dsa_model::step(dsa_queue &q)
{
	const dsa::work &w = q.running;
	const bool reports = w.flags_operation & (dsa::flag_record_always | dsa::flag_interrupt);
	outcome o;

	if (q.in_batch)
		return step_batch(q);
	if (op_of(w) != operation::batch && hangs(q))
		return false;
	o = check_record(w);
	if (o.status == status::success)
		o = check(q, w);
	if (o.status == status::success && reports && wrong_ && wrong_->wrong(mistake::early)) {
		complete(q, w, {.bytes = op_of(w) == operation::batch ? w.size : 0});
		delay_early(q.index);
	}
	if (op_of(w) == operation::batch && o.status == status::success) {
		q.in_batch = true;
		return step_batch(q);
	}
	complete(q, w, op_of(w) == operation::batch ? o : run_one(q, w));
	return true;
}

bool dsa_model::read_batch(const dsa_queue &q, u32 index, dsa::work *w, u64 *bad)
{
	const u64 at = q.running.src + index * sizeof(*w), got = memory_.reach(at, sizeof(*w), vfio::dma_read);

	*bad = at + got;
	return got == sizeof(*w) && memory_.read(at, w, sizeof(*w));
}

/* Of a batch: descriptors from q.position on that may run in any order. False: a fence stops them, after a failure. */
bool dsa_model::find_fence(dsa_queue &q)
{
	dsa::work w;
	u64 bad;

	q.first = q.position;
	q.next = q.first + 1;
	if (q.failed && read_batch(q, q.first, &w, &bad) && w.flags_operation & dsa::flag_fence)
		return false;
	while (q.next < q.running.size && read_batch(q, q.next, &w, &bad) && !(w.flags_operation & dsa::flag_fence))
		q.next++;
	return true;
}

/* The next descriptor of a batch, or its end. */
bool dsa_model::step_batch(dsa_queue &q)
{
	outcome all = {.status = q.failed ? status::batch_failed : status::success, .bytes = q.position};
	u64 bad;
	dsa::work w;

	const bool goes_on = q.next != q.first || find_fence(q);
	if (goes_on && !read_batch(q, q.next - 1, &w, &bad)) {
		all = {.status = status::batch_page_fault, .operand = 1, .bytes = q.position, .address = bad};
	} else if (goes_on) {
		if (hangs(q))
			return false;
		const outcome o = run_one(q, w);

		complete(q, w, o);
		q.failed |= o.status != status::success;
		q.next--;
		if (++q.position < q.running.size)
			return false;
		all = {.status = q.failed ? status::batch_failed : status::success, .bytes = q.position};
	}
	q.in_batch = false;
	/* Its record takes as long as that of any other descriptor. */
	if (all.status != status::success)
		pace(q.index, pace_from(), 0, 0);
	complete(q, q.running, all);
	q.position = q.first = q.next = 0;
	q.failed = false;
	return true;
}

dsa_model::outcome dsa_model::run_one(dsa_queue &q, const dsa::work &w)
{
	const u64 from = pace_from();
	outcome o = check_record(w);

	if (o.status == status::success)
		o = check(q, w);
	if (o.status == status::success && wrong_)
		o = injected(q, w);
	if (o.status == status::success)
		o = execute(q, w);
	if (o.status != status::success && wrong_ && wrong_->wrong(mistake::error))
		o = {};
	pace(q.index, from, wrong_ ? wrong_->delay_ns(q.index, q.seq) : 0, w.size);
	return o;
}

/* ---- completion 3.6 ------------------------------------------------------------------------------------------ */

/* The first word last: it has the status. False: the client has unmapped it meanwhile. */
bool dsa_model::put_record(const dsa::work &w, const outcome &o)
{
	const u64 at = w.record + (wrong_ && wrong_->wrong(mistake::completion) ? sizeof(dsa::completion) : 0);
	const dsa::completion c = {.status = u8(u8(o.status) | (o.is_fault() && o.write ? dsa::status_write : 0)),
				   .result = o.result,
				   .fault_info = u8(is_v2() ? o.operand << 1 : 0),
				   .unused = 0,
				   .bytes = o.bytes,
				   .address = o.address,
				   .detail = o.detail,
				   .more = {}};
	u8 bytes[sizeof(c)];

	memcpy(bytes, &c, sizeof(c));
	return memory_.write(at + 8, bytes + 8, sizeof(c) - 8) && memory_.write(at, bytes, 8);
}

/* Not what comes of bus mastering that was switched off: the device halts for that. */
void dsa_model::report(dsa_queue &q, const dsa::work &w, const outcome &o, u8 code)
{
	if (!memory_.is_allowed())
		return;
	std::lock_guard guard(lock_);

	software_error(code, &q, &w, o);
}

void dsa_model::complete(dsa_queue &q, const dsa::work &w, outcome o)
{
	const u32 flags = w.flags_operation;
	const bool bad_record = o.status == status::record_fault || o.status == status::record_alignment;
	/* A batch in which a descriptor failed has not succeeded: its record is written without a request for it, too.
	 */
	const bool failed = o.status != status::success && o.status != status::false_predicate;
	const bool has_record = flags & dsa::flag_record && !bad_record;

	if (failed && o.status != status::batch_failed && (!has_record || o.status == status::handle))
		report(q, w, o, u8(o.status));
	if (bad_record)
		return;
	const bool writes = has_record && (failed || flags & dsa::flag_record_always) &&
			    !(wrong_ && wrong_->drop_record(q.index, q.seq));
	if (writes && !put_record(w, o))
		return report(q, w, {.status = status::record_fault, .write = true, .address = w.record},
			      u8(status::record_fault));
	interrupt(w, o);
}

/* ---- injected faults ------------------------------------------------------------------------------- */

/* Checked once for each descriptor, and again while the queue hangs. */
bool dsa_model::hangs(dsa_queue &q)
{
	if (!wrong_)
		return false;
	q.seq += !q.hung;
	const bool hung = injected_hang(q.index, q.seq);
	std::lock_guard guard(lock_);

	q.hung = hung;
	return hung;
}

dsa_model::outcome dsa_model::injected(dsa_queue &q, const dsa::work &w)
{
	using dma::fault_reason;
	u64 at = w.dst;

	switch (wrong_->descriptor(q.index, q.seq, w.dst, &at)) {
	case fault_reason::none:
		return {};
	case fault_reason::bad_op:
		return {.status = status::operation};
	case fault_reason::bad_length:
		return {.status = status::size};
	case fault_reason::src_unmapped:
	case fault_reason::src_denied:
		return {.status = status::page_fault, .operand = 1, .address = w.src};
	case fault_reason::dst_unmapped:
	case fault_reason::dst_denied:
		return {.status = status::page_fault, .operand = 3, .write = true, .address = at};
	case fault_reason::unaligned:
		return {.status = status::alignment};
	case fault_reason::bad_tag:
		return {.status = status::reserved};
	default:
		return {.status = status::hardware};
	}
}

} // namespace usdma::sim
