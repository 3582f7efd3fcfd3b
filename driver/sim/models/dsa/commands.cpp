/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Administrative commands (3.15). What needs no descriptor to finish is done with the write of the register; else the
 * engine's thread finishes the command after the last of them.
 */
#include "driver/sim/models/dsa/dsa_model.h"

#include <bit>

namespace usdma::sim {

using dsa::cmd_error;
using dsa::command;

/* ---- enabling 5.1, 5.2 ------------------------------------------------------------------------------------ */

cmd_error dsa_model::check_groups() const
{
	const u64 all = (u64(1) << queues_count_) - 1;
	u64 queues = 0, used = 0, active = 0;

	for (u32 i = 0; i < queues_count_; i++)
		active |= queues_[i].size() ? u64(1) << i : 0;
	for (const dsa::group_config &g : groups_) {
		if (!g.queues[0] != !g.engines)
			return cmd_error::group_half;
		if (g.queues[0] & ~all || g.queues[1] || g.queues[2] || g.queues[3] || g.queues[0] & queues)
			return cmd_error::group_queues;
		if (g.engines & ~((u64(1) << groups_count_) - 1) || g.engines & used)
			return cmd_error::group_engines;
		queues |= g.queues[0];
		used |= g.engines;
	}
	return queues == active ? cmd_error::none : cmd_error::group_queues;
}

cmd_error dsa_model::check_buffers() const
{
	const u32 limit = gencfg_ & dsa::gencfg_limit;
	u32 reserved = 0, limited = 0;
	const auto field = [](u64 flags, u32 shift) { return u32(flags >> shift & 0xff); };

	for (const dsa::group_config &g : groups_) {
		reserved += g.engines ? field(g.flags, dsa::group_reserved_shift) : 0;
		limited += g.flags & dsa::group_use_limit ? u32(std::popcount(g.engines)) : 0;
	}
	if (reserved > read_buffers || limit > read_buffers || limit < 4 * limited)
		return cmd_error::read_buffers;
	for (const dsa::group_config &g : groups_) {
		const u32 allowed = field(g.flags, dsa::group_allowed_shift);
		const u32 own = field(g.flags, dsa::group_reserved_shift);

		if (g.engines && (allowed < 4 * u32(std::popcount(g.engines)) || allowed < own ||
				  allowed > own + read_buffers - reserved))
			return cmd_error::read_buffers;
	}
	return cmd_error::none;
}

cmd_error dsa_model::enable_device()
{
	u32 total = 0;

	if (state_ != dsa::device_state::disabled)
		return cmd_error::not_disabled;
	if (!memory_.is_allowed())
		return cmd_error::bus_master;
	for (u32 i = 0; i < queues_count_; i++)
		total += queues_[i].size();
	if (total > total_size)
		return cmd_error::wq_sizes;
	cmd_error err = check_groups();
	if (err == cmd_error::none)
		err = check_buffers();
	if (err == cmd_error::none)
		state_ = dsa::device_state::enabled;
	return err;
}

cmd_error dsa_model::enable_queue(u32 index)
{
	if (index >= queues_count_)
		return cmd_error::wq_index;
	dsa_queue &q = queues_[index];
	const u32 mode = q.cfg[dsa::wq_word_mode], limits = q.cfg[dsa::wq_word_limits];
	const u32 batch = limits >> dsa::wq_batch_shift & 0xf;

	if (state_ != dsa::device_state::enabled)
		return cmd_error::not_enabled;
	if (q.state != dsa::wq_state::disabled)
		return cmd_error::wq_not_disabled;
	if (!q.size())
		return cmd_error::wq_size;
	if (!(mode >> dsa::wq_priority_shift & 0xf))
		return cmd_error::wq_priority;
	if (mode & dsa::wq_block_on_fault && !pci_.has_page_requests())
		return cmd_error::wq_block_on_fault;
	if (mode & dsa::wq_pasid_enable ? !pci_.has_pasid() : !q.is_dedicated())
		return cmd_error::wq_pasid;
	if (!batch || batch > batch_log2)
		return cmd_error::wq_batch;
	if ((limits & 0x1f) > xfer_log2)
		return cmd_error::wq_xfer;
	for (u32 word = dsa::wq_word_opcfg; is_v2() && word < std::size(q.cfg); word++)
		if (q.cfg[word] & ~(word == dsa::wq_word_opcfg ? u32(opcap) : 0))
			return cmd_error::wq_opcfg;
	q.state = dsa::wq_state::enabled;
	return cmd_error::none;
}

/* ---- stopping ---------------------------------------------------------------------------------------------- */

/* Descriptors up to this one that have not finished. Nothing of the queue is busy. */
void dsa_model::drop(dsa_queue &q, u64 last)
{
	const u32 left = u32(q.submitted - last);

	q.finished = last;
	q.head = (q.head + q.count - left) % dsa_queue::most;
	q.count = left;
	q.position = q.first = q.next = 0;
	q.active = q.hung = q.abort = q.in_batch = q.failed = false;
	if (wrong_)
		wrong_->channel_off(q.index);
}

/* The engine's thread drops them, if it has a descriptor of the queue, or one that hangs. */
void dsa_model::abort(dsa_queue &q)
{
	if (q.busy || q.hung)
		q.abort = true;
	else
		drop(q, target_[q.index]);
}

/* All four refuse a queue that is not enabled: [L] registers.h names them at error 0x32; [E] vidxd_wq_reset(). */
cmd_error dsa_model::stop_queues(command code, u32 operand)
{
	const bool aborts = code == command::abort_wq || code == command::reset_wq;

	if (operand >> 16 || operand & ~((1u << queues_count_) - 1))
		return cmd_error::wq_index;
	for (u32 i = 0; i < queues_count_; i++)
		if (operand >> i & 1 && queues_[i].state != dsa::wq_state::enabled)
			return cmd_error::wq_not_enabled;
	stopping_ = operand;
	for (u32 i = 0; i < queues_count_; i++) {
		dsa_queue &q = queues_[i];

		if (!(operand >> i & 1))
			continue;
		target_[i] = q.submitted;
		if (code == command::disable_wq || code == command::reset_wq)
			q.state = dsa::wq_state::busy;
		if (aborts)
			abort(q);
	}
	return cmd_error::none;
}

/* What remains when all descriptors have finished. */
void dsa_model::complete_stop()
{
	const auto code = command(command_ >> dsa::cmd_code_shift & 0x1f);
	const bool device = code == command::disable_device || code == command::reset_device;

	for (u32 i = 0; i < queues_count_; i++) {
		dsa_queue &q = queues_[i];

		if (device || ((code == command::disable_wq || code == command::reset_wq) && stopping_ >> i & 1))
			q.state = dsa::wq_state::disabled;
		if (code == command::reset_wq && stopping_ >> i & 1)
			reset_queue_config(q, false);
	}
	if (code == command::reset_device)
		reset_config();
	if (device)
		state_ = dsa::device_state::disabled;
}

void dsa_model::advance_command()
{
	if (!(cmdstatus_ & dsa::cmd_active))
		return;
	for (u32 i = 0; i < queues_count_; i++)
		if (stopping_ >> i & 1 && (s64(queues_[i].finished - target_[i]) < 0 || queues_[i].abort))
			return;
	complete_stop();
	finish_command(cmd_error::none);
}

/* ---- the register ------------------------------------------------------------------------------------------ */

void dsa_model::finish_command(cmd_error err)
{
	cmdstatus_ = (cmdstatus_ & ~(dsa::cmd_active | dsa::cmd_error_mask)) | u32(err);
	stopping_ = 0;
	if (command_ & dsa::cmd_interrupt)
		misc_interrupt(dsa::cause_command);
}

cmd_error dsa_model::take_handle(u32 operand, bool request)
{
	if (operand >= irqs_.count())
		return cmd_error::handle_index;
	if (request)
		handles_ |= 1u << operand;
	else
		handles_ &= ~(1u << operand);
	cmdstatus_ |= request ? (handle_base + operand) << dsa::cmd_result_shift : 0;
	return cmd_error::none;
}

/* Sets stopping_ if descriptors have to finish first. */
cmd_error dsa_model::begin_command(u32 value)
{
	const auto code = command(value >> dsa::cmd_code_shift & 0x1f);
	const u32 operand = value & dsa::cmd_operand, all = (1u << queues_count_) - 1;
	const bool enabled = state_ == dsa::device_state::enabled;

	if (state_ == dsa::device_state::halt)
		return cmd_error::halted;
	switch (code) {
	case command::enable_device:
		return enable_device();
	case command::enable_wq:
		return enable_queue(operand);
	case command::disable_wq:
	case command::drain_wq:
	case command::abort_wq:
	case command::reset_wq:
		return stop_queues(code, operand);
	case command::request_handle:
	case command::release_handle:
		return is_v2() ? take_handle(operand, code == command::request_handle) : cmd_error::unsupported;
	case command::disable_device:
	case command::reset_device:
		if (code == command::disable_device && !enabled)
			return cmd_error::device_not_enabled;
		/* Descriptors are no longer taken. */
		state_ = enabled ? dsa::device_state::drain : state_;
		[[fallthrough]];
	case command::drain_all:
	case command::abort_all:
	case command::drain_pasid:
	case command::abort_pasid: /* may wait for them, too */
		stopping_ = all;
		for (u32 i = 0; i < queues_count_; i++) {
			target_[i] = queues_[i].submitted;
			if (code == command::abort_all || code == command::reset_device)
				abort(queues_[i]);
		}
		return cmd_error::none;
	}
	return cmd_error::unsupported;
}

void dsa_model::write_command(u32 value)
{
	if (cmdstatus_ & dsa::cmd_active) {
		software_error(dsa::swerr_command, nullptr, nullptr, {});
		return;
	}
	command_ = value;
	cmdstatus_ = dsa::cmd_active;
	stopping_ = 0;
	const cmd_error err = begin_command(value);
	if (err != cmd_error::none || !stopping_)
		finish_command(err);
	else
		advance_command();
	kick();
}

} // namespace usdma::sim
