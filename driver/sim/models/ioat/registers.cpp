/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BAR0. Accesses of 1, 2, 4 and 8 bytes: drivers write 64-bit registers in one access or in two (ioat_regs.h), and read
 * several registers in one.
 */
#include "driver/sim/models/ioat/ioat_model.h"

#include "driver/sim/models.h"

namespace usdma::sim {

using namespace ioat;

/* ---- reads --------------------------------------------------------------------------------------- */

/* The register that begins at reg; 0: none does. */
u64 ioat_model::read_general(u32 reg) const
{
	switch (reg) {
	case reg_chancnt:
		return queues_count_;
	case reg_xfercap:
		return usual_xfercap;
	case reg_genctrl:
		return genctrl_;
	case reg_intrctrl:
		return intrctrl_ | (attention_ ? intr_status : 0) |
		       (attention_ && intrctrl_ & intr_master ? intr_raised : 0);
	case reg_version:
		return cfg_.model->variant;
	case reg_intrdelay:
		return intrdelay_;
	case reg_dmacap:
		return cap_fill | cap_xor | cap_pq;
	}
	return 0;
}

u64 ioat_model::read_channel(const ioat_channel &ch, u32 reg) const
{
	switch (reg) {
	case chan_ctrl:
		return ch.ctrl;
	case chan_comp:
		return 2;
	case chan_cmd:
		return ch.reset_due != ioat_channel::pending::none ? cmd_reset : 0;
	case chan_dmacount:
		return ch.dmacount;
	case chan_sts:
		return ch.completed | ch.status();
	case chan_chainaddr:
		return ch.chain;
	case chan_cmp:
		return ch.cmp;
	case chan_cdar:
		return ch.current;
	case chan_err:
		return ch.err;
	case chan_errmask:
		return ch.errmask;
	case chan_dcactrl:
		return ch.dcactrl;
	}
	return 0;
}

/* Where a register begins, and its bytes. */
struct reg_shape {
	u32 at, size;
};

static constexpr reg_shape general_regs[] = {{reg_chancnt, 1},   {reg_xfercap, 1},    {reg_genctrl, 1},
					     {reg_intrctrl, 1},  {reg_attnstatus, 4}, {reg_version, 1},
					     {reg_intrdelay, 2}, {reg_status, 2},     {reg_dmacap, 4}};
static constexpr reg_shape channel_regs[] = {{chan_ctrl, 2}, {chan_comp, 2},      {chan_cmd, 1},    {chan_dmacount, 2},
					     {chan_sts, 8},  {chan_chainaddr, 8}, {chan_cmp, 8},    {chan_cdar, 8},
					     {chan_err, 4},  {chan_errmask, 4},   {chan_dcactrl, 4}};

/* Calls f(register, its offset in the access in bytes, negative: the access begins inside of it) for each touched one.
 */
template <size_t n, class F> static void each_reg(const reg_shape (&regs)[n], u32 offset, u32 len, const F &f)
{
	for (const reg_shape &r : regs)
		if (r.at < offset + len && offset < r.at + r.size)
			f(r, int(r.at) - int(offset));
}

static u64 shifted(u64 value, int bytes)
{
	return bytes < 0 ? value >> (-bytes * 8) : value << (bytes * 8);
}

/* The channel of an offset; nullptr: a general register, or none. */
static ioat_channel *channel_at(ioat_channel *all, u32 count, u32 offset)
{
	const u32 i = offset / chan_size;

	return i && i <= count ? &all[i - 1] : nullptr;
}

u64 ioat_model::read_register(u32 offset, u32 len)
{
	u64 value = 0;

	if (ioat_channel *ch = channel_at(channels_, queues_count_, offset)) {
		each_reg(channel_regs, offset % chan_size, len, [&](const reg_shape &r, int at) {
			value |= shifted(read_channel(*ch, r.at), at);
			/* The first to read it as 0 owns the channel. */
			if (r.at == chan_ctrl)
				ch->ctrl |= ctrl_in_use;
		});
	} else if (offset < chan_size) {
		each_reg(general_regs, offset, len, [&](const reg_shape &r, int at) {
			value |= shifted(r.at == reg_attnstatus ? attention_ : read_general(r.at), at);
			if (r.at == reg_attnstatus)
				attention_ = 0;
		});
	}
	return len == 8 ? value : value & ((u64(1) << 8 * len) - 1);
}

/* ---- writes -------------------------------------------------------------------------------------- */

/* The register's value with the bytes of this access in it. */
static u64 merged(u64 old, const reg_shape &r, u64 value, u32 len, int at)
{
	const u64 ones = len == 8 ? ~u64(0) : (u64(1) << 8 * len) - 1;
	const u64 mask = shifted(ones, -at), reg = r.size == 8 ? ~u64(0) : (u64(1) << 8 * r.size) - 1;

	return (old & ~mask) | (shifted(value & ones, -at) & mask & reg);
}

/* What bytes that are not written count as: 0 for bits that act when they are written as 1. */
u64 ioat_model::unwritten(const ioat_channel &ch, u32 reg) const
{
	if (reg == chan_err || reg == chan_cmd)
		return 0;
	return read_channel(ch, reg) & (reg == chan_ctrl ? ~u64(ctrl_int_rearm) : ~u64(0));
}

void ioat_model::write_register(u32 offset, u64 value, u32 len)
{
	if (ioat_channel *ch = channel_at(channels_, queues_count_, offset)) {
		each_reg(channel_regs, offset % chan_size, len, [&](const reg_shape &r, int at) {
			write_channel(*ch, r.at, merged(unwritten(*ch, r.at), r, value, len, at));
		});
		return;
	}
	if (offset >= chan_size)
		return;
	each_reg(general_regs, offset, len, [&](const reg_shape &r, int at) {
		const u64 v = merged(read_general(r.at), r, value, len, at);

		if (r.at == reg_intrctrl)
			intrctrl_ = u8(v & (intr_master | intr_vectors));
		else if (r.at == reg_genctrl)
			genctrl_ = u8(v & 1);
		else if (r.at == reg_intrdelay)
			intrdelay_ = u16(v & 0x3fff);
	});
}

/* Applies what waits for the engine to leave the channel's descriptor. */
void ioat_model::apply_pending(ioat_channel &ch)
{
	if (ch.busy)
		return;
	if (ch.reset_due != ioat_channel::pending::none) {
		const bool all = ch.reset_due == ioat_channel::pending::power_on;
		ioat_channel fresh;

		fresh.index = ch.index;
		fresh.seq = ch.seq;
		/* A channel's reset leaves its settings, and CHANERR, which is cleared by writing it. */
		if (!all) {
			fresh.ctrl = ch.ctrl;
			fresh.cmp = ch.cmp;
			fresh.err = ch.err;
			fresh.errmask = ch.errmask;
			fresh.dcactrl = ch.dcactrl;
		}
		if (!all) {
			fresh.chain = ch.chain;
			fresh.chain_due = ch.chain_due;
			fresh.count_due = ch.count_due;
		}
		fresh.mute = !all && (ch.mute || (wrong_ && wrong_->wrong(mistake::vector)));
		ch = fresh;
		if (wrong_)
			wrong_->channel_off(ch.index);
		apply_chain(ch);
		return;
	}
	/* A hung channel obeys a reset only. */
	if (ch.suspend_due && !ch.hung) {
		if (ch.state != sts_halted)
			ch.state = sts_suspended;
		ch.suspend_due = false;
	}
	apply_chain(ch);
}

void ioat_model::halt(ioat_channel &ch, u32 err)
{
	ch.err |= err;
	ch.state = sts_halted;
}

void ioat_model::command(ioat_channel &ch, u8 cmd)
{
	if (cmd & cmd_reset) {
		if (ch.reset_due == ioat_channel::pending::none)
			ch.reset_due = ioat_channel::pending::reset;
		ch.chain_due = false;
	} else if (cmd & cmd_suspend) {
		ch.suspend_due = ch.state != sts_halted;
	} else if (cmd & cmd_resume) {
		if (ch.state == sts_suspended)
			ch.state = sts_active;
		ch.suspend_due = false;
	}
	apply_pending(ch);
	kick();
}

void ioat_model::write_ctrl(ioat_channel &ch, u16 value)
{
	static constexpr u16 stored = 0xf03c | ctrl_dca | ctrl_in_use;

	/* The disable bit is cleared by writing 1. */
	ch.ctrl = u16((ch.ctrl & ctrl_int_rearm & ~value) | (value & stored));
}

/*
 * The counts start anew, and the channel is armed; not while it runs, nor before its errors are cleared. A client may
 * write it as soon as it sees a halt or has written a reset, before the engine has left the channel: it waits.
 */
void ioat_model::write_chain(ioat_channel &ch, u64 value)
{
	ch.chain = value;
	ch.chain_due = true;
	ch.count_due = 0;
	apply_pending(ch);
}

void ioat_model::apply_chain(ioat_channel &ch)
{
	if (!ch.chain_due)
		return;
	ch.chain_due = false;
	if (ch.has_work() || ch.err)
		return;
	ch.state = sts_armed;
	ch.dmacount = ch.run = 0;
	ch.completed = 0;
	ch.next = ch.chain;
	ch.ahead = false;
	ch.suspend_due = false;
	write_count(ch, ch.count_due);
}

void ioat_model::write_count(ioat_channel &ch, u16 value)
{
	if (ch.chain_due) {
		ch.count_due = value;
		return;
	}
	ch.dmacount = value;
	if (ch.state == sts_armed && ch.run != ch.dmacount)
		ch.state = sts_active;
	kick();
}

void ioat_model::write_channel(ioat_channel &ch, u32 reg, u64 value)
{
	switch (reg) {
	case chan_ctrl:
		return write_ctrl(ch, u16(value));
	case chan_cmd:
		return command(ch, u8(value));
	case chan_chainaddr:
		return write_chain(ch, value);
	case chan_cmp:
		ch.cmp = value;
		return;
	case chan_err:
		ch.err &= ~u32(value);
		return;
	case chan_errmask:
		ch.errmask = u32(value);
		return;
	case chan_dcactrl:
		ch.dcactrl = u32(value);
		return;
	case chan_dmacount:
		write_count(ch, u16(value));
	}
}

} // namespace usdma::sim
