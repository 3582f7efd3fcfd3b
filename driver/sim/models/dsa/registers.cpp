/* SPDX-License-Identifier: BSD-3-Clause */
/* BAR0 by words of 64 bits: each access reads or writes bytes of one. */
#include "driver/sim/models/dsa/dsa_model.h"

namespace usdma::sim {

/* As in the map of 9.2; OFFSETS reports them. */
static constexpr u32 permissions_at = 0x400, groups_at = 0x600, queues_at = 0x800;
static constexpr u64 low = 0xffffffff;

/* ---- reads --------------------------------------------------------------------------------------- */

u64 dsa_model::read_capability(u32 at) const
{
	switch (at) {
	case dsa::off_version:
		return cfg_.model->variant;
	case dsa::off_gencap:
		return dsa::gencap_block_on_fault | dsa::gencap_overlap | dsa::gencap_cache | dsa::gencap_readback |
		       dsa::gencap_config | u64(xfer_log2) << dsa::gencap_xfer_shift |
		       u64(batch_log2) << dsa::gencap_batch_shift |
		       (is_v2() ? dsa::gencap_cmdcap | dsa::gencap_fault_info : 0);
	case dsa::off_wqcap:
		return total_size | u64(queues_count_) << 16 | dsa::wqcap_shared | dsa::wqcap_dedicated |
		       dsa::wqcap_priority | dsa::wqcap_occupancy | (is_v2() ? dsa::wqcap_opcfg | 1 << 24 : 0);
	case dsa::off_grpcap:
		return groups_count_ | read_buffers << 8 | dsa::grpcap_buffer_control | dsa::grpcap_buffer_limit;
	case dsa::off_engcap:
		return groups_count_;
	case dsa::off_opcap:
		return opcap;
	case dsa::off_offsets:
		return groups_at / dsa::table_step | queues_at / dsa::table_step << 16 |
		       u64(permissions_at / dsa::table_step) << 32;
	case dsa::off_cmdcap:
		return is_v2() ? (1 << (u32(dsa::command::release_handle) + 1)) - 2 : 0;
	}
	return 0;
}

u64 dsa_model::read_register(u32 offset, u32)
{
	return read_word(offset & ~7u) >> 8 * (offset & 7);
}

u64 dsa_model::read_word(u32 at) const
{
	const u32 permission = (at - permissions_at) / dsa::msixperm_step;
	const u32 group = (at - groups_at) / sizeof(dsa::group_config), queue = (at - queues_at) / wqcfg_size();

	if (at >= queues_at && queue < queues_count_) {
		const u32 word = (at - queues_at) % wqcfg_size() / 4;

		return queue_word(queues_[queue], word) | u64(queue_word(queues_[queue], word + 1)) << 32;
	}
	if (at >= groups_at && group < groups_count_)
		return reinterpret_cast<const u64 *>(&groups_[group])[at % sizeof(dsa::group_config) / 8];
	if (at >= permissions_at && permission < irqs_.count())
		return permissions_[permission];
	if (at >= dsa::off_swerror && at < dsa::off_swerror + sizeof(swerror_))
		return swerror_[(at - dsa::off_swerror) / 8];
	switch (at) {
	case dsa::off_gencfg:
		return gencfg_;
	case dsa::off_genctrl:
		return genctrl_;
	case dsa::off_gensts:
		return u32(state_) | (state_ == dsa::device_state::halt ? dsa::needs_flr << 2 : 0);
	case dsa::off_intcause:
		return intcause_;
	case dsa::off_cmdstatus:
		return cmdstatus_;
	}
	return read_capability(at);
}

u32 dsa_model::queue_word(const dsa_queue &q, u32 word) const
{
	return word == dsa::wq_word_state ? u32(q.state) << dsa::wq_state_shift | q.count : q.cfg[word];
}

/* ---- writes -------------------------------------------------------------------------------------- */

/* Table 9-7. */
u32 dsa_model::writable_bits(const dsa_queue &q, u32 word, bool device_disabled)
{
	const bool disabled = q.state == dsa::wq_state::disabled;

	if (word == dsa::wq_word_size)
		return device_disabled ? 0xffff : 0;
	if (word == dsa::wq_word_threshold)
		return 0xffff;
	if (!disabled)
		return 0;
	if (word == dsa::wq_word_mode)
		return 0x3ffffff0 | dsa::wq_dedicated | dsa::wq_block_on_fault;
	return word == dsa::wq_word_limits ? 0x1ff : word >= dsa::wq_word_opcfg ? ~0u : 0;
}

void dsa_model::write_queue(u32 at, u32 value, u32 mask)
{
	const u32 index = at / wqcfg_size(), word = at % wqcfg_size() / 4;

	if (index >= queues_count_)
		return;
	dsa_queue &q = queues_[index];
	mask &= writable_bits(q, word, state_ == dsa::device_state::disabled);
	q.cfg[word] = (q.cfg[word] & ~mask) | (value & mask);
}

void dsa_model::write_group(u32 at, u64 value, u64 mask)
{
	const u32 group = at / sizeof(dsa::group_config), word = at % sizeof(dsa::group_config) / 8;

	if (group >= groups_count_ || state_ != dsa::device_state::disabled)
		return;
	u64 &w = reinterpret_cast<u64 *>(&groups_[group])[word];
	w = (w & ~mask) | (value & mask);
}

void dsa_model::write_word(u32 at, u64 value, u64 mask)
{
	static constexpr u32 config_bits = dsa::gencfg_limit | dsa::gencfg_user_interrupts;
	const u32 permission = (at - permissions_at) / dsa::msixperm_step;
	const auto merged = [&](u32 old, u32 bits) { return u32((old & ~(mask & bits)) | (value & mask & bits)); };

	if (at >= queues_at) {
		write_queue(at - queues_at, u32(value), u32(mask));
		write_queue(at - queues_at + 4, u32(value >> 32), u32(mask >> 32));
	} else if (at >= groups_at) {
		write_group(at - groups_at, value, mask);
	} else if (at >= permissions_at && permission < irqs_.count()) {
		permissions_[permission] = merged(permissions_[permission], 0xfffff00c);
	} else if (at == dsa::off_gencfg && state_ == dsa::device_state::disabled) {
		gencfg_ = merged(gencfg_, config_bits);
	} else if (at == dsa::off_genctrl) {
		genctrl_ = merged(genctrl_, dsa::genctrl_swerror | dsa::genctrl_halt);
	} else if (at == dsa::off_intcause) {
		intcause_ &= ~u32(value & mask);
	} else if (at == dsa::off_cmd && mask & low) {
		write_command(u32(value));
	} else if (at == dsa::off_swerror) {
		swerror_[0] &= ~(value & mask & (dsa::swerr_valid | dsa::swerr_overflow));
	}
}

void dsa_model::write_register(u32 offset, u64 value, u32 len)
{
	const u32 shift = 8 * (offset & 7);
	const u64 mask = len == 8 ? ~u64(0) : (u64(1) << 8 * len) - 1;

	write_word(offset & ~7u, value << shift, mask << shift);
}

/* ---- resets (table 9-3) ---------------------------------------------------------------------------------- */

void dsa_model::reset_queue_config(dsa_queue &q, bool with_size)
{
	const u32 size = q.cfg[dsa::wq_word_size];

	for (u32 &word : q.cfg)
		word = 0;
	q.cfg[dsa::wq_word_size] = with_size ? 0 : size;
	q.cfg[dsa::wq_word_opcfg] = is_v2() ? u32(opcap) : 0;
}

void dsa_model::reset_config()
{
	gencfg_ = read_buffers;
	genctrl_ = intcause_ = 0;
	handles_ = 0;
	for (u32 &p : permissions_)
		p = 0;
	for (dsa::group_config &g : groups_) {
		g = {};
		g.flags = u64(read_buffers) << dsa::group_allowed_shift;
	}
	for (u32 i = 0; i < queues_count_; i++)
		reset_queue_config(queues_[i], true);
}

/* No queue is busy. */
void dsa_model::power_on()
{
	for (u32 i = 0; i < queues_count_; i++) {
		dsa_queue &q = queues_[i];

		drop(q, q.submitted);
		q.state = dsa::wq_state::disabled;
		for (auto &p : q.pieces)
			p.have = 0;
	}
	reset_config();
	for (u64 &word : swerror_)
		word = 0;
	cmdstatus_ = 0;
	state_ = dsa::device_state::disabled;
	reset_due_ = false;
}

/* ---- errors ------------------------------------------------------------------------------------------ */

void dsa_model::misc_interrupt(u32 cause)
{
	intcause_ |= cause;
	due_ |= 1;
	kick();
}

void dsa_model::software_error(u8 code, const dsa_queue *q, const dsa::work *w, const outcome &o)
{
	if (swerror_[0] & dsa::swerr_valid) {
		swerror_[0] |= dsa::swerr_overflow;
		return;
	}
	swerror_[0] = dsa::swerr_valid | (swerror_[0] & dsa::swerr_overflow) | u64(code) << dsa::swerr_code_shift;
	swerror_[1] = u64(o.detail) << 32;
	swerror_[2] = o.is_fault() ? o.address : 0;
	if (q)
		swerror_[0] |= dsa::swerr_has_wq | u64(q->index) << dsa::swerr_wq_shift;
	if (w) {
		swerror_[0] |= dsa::swerr_has_descriptor | u64(w->flags_operation >> 24) << dsa::swerr_op_shift |
			       (o.is_fault() && o.write ? u64(dsa::swerr_write) : 0);
		if (q->in_batch) {
			swerror_[0] |= dsa::swerr_in_batch;
			swerror_[1] |= q->next - 1;
		}
	}
	if (genctrl_ & dsa::genctrl_swerror)
		misc_interrupt(dsa::cause_swerror);
}

/* 5.7: the configuration has changed while the device is not disabled. */
void dsa_model::halt()
{
	if (state_ == dsa::device_state::disabled || state_ == dsa::device_state::halt)
		return;
	state_ = dsa::device_state::halt;
	software_error(dsa::swerr_config, nullptr, nullptr, {});
	/* What it waits for will not end. */
	if (cmdstatus_ & dsa::cmd_active)
		finish_command(dsa::cmd_error::halted);
	if (genctrl_ & dsa::genctrl_halt)
		misc_interrupt(dsa::cause_halt);
}

} // namespace usdma::sim
