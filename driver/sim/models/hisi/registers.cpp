/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BAR2. Registers have 32 bits. Model: a wider access is two of them, a narrower read is a part of one, and a narrower
 * write is ignored.
 */
#include "driver/sim/models/hisi/hisi_model.h"

namespace usdma::sim {

using namespace hisi;

u32 hisi_queue::fsm() const
{
	if (early)
		return fsm_done;
	if (busy || hung || has_unreported())
		return fsm_run;
	if (is_stopped())
		return state;
	if (!(get(q_ctrl0) & ctrl0_enable))
		return fsm_idle;
	if (get(q_ctrl0) & ctrl0_pause)
		return fsm_pause;
	return !has_work() ? state : has_space() ? u32(fsm_run) : u32(fsm_wait);
}

/* Applies a reset once the engine has left the queue's submission. It leaves addresses, depths, pointers and settings.
 */
void hisi_model::apply_pending(hisi_queue &q)
{
	if (q.busy || q.reset_due == hisi_queue::pending::none)
		return;
	hisi_queue fresh;

	fresh.index = q.index;
	fresh.seq = q.seq;
	if (q.reset_due == hisi_queue::pending::reset)
		std::copy(std::begin(q.reg), std::end(q.reg), fresh.reg);
	q = fresh;
	if (wrong_)
		wrong_->channel_off(q.index);
}

/* ---- which register -------------------------------------------------------------------------------- */

hisi_queue *hisi_model::queue_of(u32 offset)
{
	const u32 i = (offset - layout_.queue_base) / queue_size;

	return offset >= layout_.queue_base && i < layout_.queues ? &queues_[i] : nullptr;
}

u32 *hisi_model::common_of(u32 offset)
{
	const u32 port = (offset - hip09_port) / hip09_port_step;

	if (!layout_.err_bits)
		return offset == hip08_mode ? &mode_ : nullptr;
	return offset >= hip09_port && port < hip09_ports && offset % hip09_port_step == 0 ? &ports_[port] : nullptr;
}

/* ---- reads ----------------------------------------------------------------------------------------- */

u32 hisi_model::read_queue(const hisi_queue &q, u32 reg) const
{
	switch (reg) {
	case q_ctrl1:
		return q.get(reg) | (q.reset_due != hisi_queue::pending::none ? u32(ctrl1_reset) : 0);
	case q_fsm:
		return q.fsm();
	case q_sq_sts:
		return q.head;
	case q_cq_tail:
		return q.cq_tail;
	}
	return q.get(reg);
}

u32 hisi_model::read_word(u32 offset)
{
	if (const hisi_queue *q = queue_of(offset))
		return read_queue(*q, offset % queue_size);
	const u32 *r = common_of(offset);

	return r ? *r : 0;
}

u64 hisi_model::read_register(u32 offset, u32 len)
{
	if (len == 8)
		return read_word(offset) | u64(read_word(offset + 4)) << 32;
	const u32 value = read_word(offset & ~3u) >> offset % 4 * 8;

	return len == 4 ? value : value & ((1u << 8 * len) - 1);
}

/* ---- writes ---------------------------------------------------------------------------------------- */

void hisi_model::write_queue(hisi_queue &q, u32 reg, u32 value)
{
	const bool has_err = layout_.err_bits;

	switch (reg) {
	case q_int_sts:
		q.at(reg) &= ~value;
		return;
	case q_int_msk:
		q.at(reg) = value & layout_.int_bits;
		return;
	case hip09_err_sts:
		q.at(reg) = has_err ? q.at(reg) & ~value : value;
		return;
	case hip09_err_msk:
		q.at(reg) = value & layout_.err_bits;
		return;
	case q_ctrl1:
		q.at(reg) = value & ~u32(ctrl1_reset);
		if (value & ctrl1_reset && q.reset_due == hisi_queue::pending::none)
			q.reset_due = hisi_queue::pending::reset;
		apply_pending(q);
		return;
	}
	const bool counts = reg >= q_err_num0 && reg <= (has_err ? u32(q_err_num2) : u32(hip08_err_num5));

	if (reg <= q_ctrl0 || counts)
		q.at(reg) = value;
	kick();
}

void hisi_model::write_word(u32 offset, u32 value)
{
	if (hisi_queue *q = queue_of(offset))
		write_queue(*q, offset % queue_size, value);
	else if (u32 *r = common_of(offset))
		*r = value;
}

void hisi_model::write_register(u32 offset, u64 value, u32 len)
{
	if (len >= 4)
		write_word(offset, u32(value));
	if (len == 8)
		write_word(offset + 4, u32(value >> 32));
}

} // namespace usdma::sim
