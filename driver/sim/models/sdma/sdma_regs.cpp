/* SPDX-License-Identifier: BSD-3-Clause */
/* BAR0 (docs/hardware.md, "Registers"): trapped accesses of 4 and 8 bytes, aligned to 4. */
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/log.h"
#include "driver/sim/models/sdma/sdma_model.h"

#include <cstring>

namespace usdma::sim {

using namespace sdma;

static int check_width(u64 offset, u32 len)
{
	if (offset % 4 || (len != 4 && len != 8))
		return fail(EINVAL, "sim: registers are read and written 4 or 8 bytes at a time, not %u at 0x%llx", len,
			    static_cast<unsigned long long>(offset));
	return 0;
}

int sdma_model::read_bar0(u64 offset, u8 *buf, u32 len)
{
	if (const int err = check_width(offset, len))
		return err;
	if (offset >= chan_doorbell_base)
		return access_doorbell(offset - chan_doorbell_base, buf, nullptr, len);
	for (u32 at = 0; at < len; at += 4) {
		const u32 v = read_word(u32(offset) + at);

		memcpy(buf + at, &v, sizeof(v));
	}
	return 0;
}

int sdma_model::write_bar0(u64 offset, const u8 *buf, u32 len)
{
	if (const int err = check_width(offset, len))
		return err;
	if (offset >= chan_doorbell_base)
		return access_doorbell(offset - chan_doorbell_base, nullptr, buf, len);
	for (u32 at = 0; at < len; at += 4) {
		u32 v;

		memcpy(&v, buf + at, sizeof(v));
		if (const int err = write_word(u32(offset) + at, v))
			return err;
	}
	return 0;
}

/* ---- reads --------------------------------------------------------------------------------------- */

static bool is_wide(u32 reg)
{
	return reg == reg_caps || reg == reg_max_len || reg == reg_mem_size || reg == reg_mem_base || reg == reg_clock;
}

static bool is_wide_channel(u32 reg)
{
	return reg == chan_ring_base || reg == chan_record || reg == chan_first_seq || reg == chan_head;
}

u64 sdma_model::read_global(u32 reg) const
{
	switch (reg) {
	case reg_id:
		return id_value;
	case reg_version:
		return version_major << 16 | version_minor;
	case reg_caps:
		return hw_cap_sleep | hw_cap_heartbeat | hw_cap_completion | hw_cap_wait_takes |
		       (m_.mem_size ? u64(hw_cap_memory) : 0) |
		       (m_.mem_size && !cfg_.stale ? u64(hw_cap_memory_zeroed) : 0) |
		       (m_.mem_size && m_.is_plain() ? u64(hw_cap_memory_cached) : 0) |
		       (m_.in_client ? u64(hw_cap_sleep_ordered) : 0);
	case reg_channels:
		return cfg_.channels;
	case reg_engines:
		return cfg_.engines;
	case reg_max_len:
		return model_max_len;
	case reg_mem_size:
		return m_.mem_size;
	case reg_mem_base:
		return load_relaxed(&m_.mem_base);
	case reg_ctrl:
		return ctrl_;
	case reg_status:
		return is_stopping() ? 0u : u32(status_ready);
	case reg_clock:
		return now_ns();
	case reg_ring_order:
		return model_max_order << 8 | model_min_order;
	case reg_vectors:
		return m_.irqs.count();
	}
	return 0;
}

/* A snapshot: reading does not stop the engine. */
u32 sdma_model::debug_bits(const hw_channel &ch) const
{
	return (load_relaxed(&ch.waiting) ? u32(chan_debug_waiting) : 0) |
	       (load_relaxed(&ch.listed) ? u32(chan_debug_listed) : 0) |
	       (engine_of(ch.index).bell_rung() ? u32(chan_debug_bell) : 0);
}

u64 sdma_model::read_channel(const hw_channel &ch, u32 reg) const
{
	switch (reg) {
	case chan_ring_base:
		return ch.regs.ring_base;
	case chan_ring_order:
		return ch.regs.ring_order;
	case chan_vectors:
		return ch.regs.vectors;
	case chan_record:
		return ch.regs.record;
	case chan_first_seq:
		return ch.regs.first_seq;
	case chan_coalesce:
		return ch.regs.coalesce;
	case chan_state:
		return load_acquire(&ch.state);
	case chan_head:
		return load_relaxed(&ch.head);
	case chan_debug:
		return debug_bits(ch);
	case chan_completion:
		return ch.regs.completion;
	}
	return 0;
}

/* A 64-bit register is readable at both its words; undefined ones read as 0. */
u32 sdma_model::read_word(u32 offset) const
{
	if (offset < chan_ctrl_base)
		return offset % 8 && is_wide(offset - 4) ? u32(read_global(offset - 4) >> 32) :
							   u32(read_global(offset));
	const u32 index = u32((offset - chan_ctrl_base) / chan_stride),
		  reg = u32((offset - chan_ctrl_base) % chan_stride);

	if (index >= cfg_.channels)
		return 0;
	if (reg % 8 && is_wide_channel(reg - 4))
		return u32(read_channel(channels_[index], reg - 4) >> 32);
	return u32(read_channel(channels_[index], reg));
}

/* ---- writes -------------------------------------------------------------------------------------- */

static u64 with_half(u64 old, bool high, u32 v)
{
	return high ? (old & 0xffffffff) | u64(v) << 32 : (old & ~u64(0xffffffff)) | v;
}

int sdma_model::write_word(u32 offset, u32 value)
{
	if (offset < chan_ctrl_base)
		return write_global(offset, value);
	const u32 index = u32((offset - chan_ctrl_base) / chan_stride),
		  reg = u32((offset - chan_ctrl_base) % chan_stride);

	return index < cfg_.channels ? write_channel(channels_[index], reg, value) : 0;
}

int sdma_model::write_global(u32 offset, u32 value)
{
	switch (offset) {
	case reg_mem_base:
	case reg_mem_base + 4:
		return write_mem_base(with_half(m_.mem_base, offset != reg_mem_base, value));
	case reg_ctrl:
		return write_ctrl(value);
	}
	return 0; /* read-only or undefined: no effect */
}

/* Page-aligned: otherwise aligned words of device memory would not be accessed atomically. */
int sdma_model::write_mem_base(u64 base)
{
	if (base % 4096)
		return fail(EINVAL, "sim: reg_mem_base 0x%llx is not a multiple of 4096",
			    static_cast<unsigned long long>(base));
	store_relaxed(&m_.mem_base, base);
	return 0;
}

int sdma_model::write_ctrl(u32 value)
{
	if (value & ctrl_reset)
		return reset();
	ctrl_ = value & ctrl_enable;
	return ctrl_ ? 0 : all_off();
}

int sdma_model::write_channel(hw_channel &ch, u32 offset, u32 value)
{
	const u32 state = load_acquire(&ch.state);
	channel_regs &r = ch.regs;

	if (offset == chan_wake) {
		engine_of(ch.index).kick();
		return 0;
	}
	if (engine_of(ch.index).pending(&ch))
		return fail(EBUSY, "sim: channel %u has a pending command", ch.index);
	if (offset == chan_command)
		return command(ch, value);
	/* Setup registers are writable while the channel is off. */
	if (state != chan_state_off && state != chan_state_error)
		return 0;
	switch (offset) {
	case chan_ring_base:
	case chan_ring_base + 4:
		r.ring_base = with_half(r.ring_base, offset != chan_ring_base, value);
		break;
	case chan_record:
	case chan_record + 4:
		r.record = with_half(r.record, offset != chan_record, value);
		break;
	case chan_first_seq:
	case chan_first_seq + 4:
		r.first_seq = with_half(r.first_seq, offset != chan_first_seq, value);
		break;
	case chan_ring_order:
		r.ring_order = value;
		break;
	case chan_vectors:
		r.vectors = value;
		break;
	case chan_coalesce:
		r.coalesce = value;
		break;
	case chan_completion:
		r.completion = value;
		break;
	}
	return 0;
}

int sdma_model::command(hw_channel &ch, u32 cmd)
{
	const u32 state = load_acquire(&ch.state);

	switch (cmd) {
	case chan_cmd_enable:
		if (state == chan_state_stopping)
			return fail(EBUSY, "sim: channel %u is still stopping", ch.index);
		return state == chan_state_running || state == chan_state_halted ? 0 : enable(ch);
	case chan_cmd_disable:
		return state == chan_state_off || state == chan_state_stopping ? 0 :
										 engine_of(ch.index).command(&ch, cmd);
	case chan_cmd_stop:
	case chan_cmd_resume:
		return engine_of(ch.index).command(&ch, cmd);
	}
	return 0;
}

/* Checks the registers; the engine checks the memory. */
int sdma_model::enable(hw_channel &ch)
{
	const char *wrong = nullptr;

	if (!(ctrl_ & ctrl_enable))
		wrong = "the device is not enabled (reg_ctrl)";
	else if (!pci_.may_reach_memory())
		wrong = "bus mastering is off in the PCI command register, or the function is not in D0";
	else
		wrong = setup_error(ch.regs);
	if (!wrong)
		return engine_of(ch.index).command(&ch, chan_cmd_enable);
	log_warn_limited("sim: channel %u does not start: %s", ch.index, wrong);
	store_release(&ch.state, u32(chan_state_error));
	return 0;
}

/* Trapped access to the doorbell pages: like a mapped one, and a new tail wakes the engine. */
int sdma_model::access_doorbell(u64 offset, u8 *in, const u8 *out, u32 len)
{
	const u32 index = u32(offset / chan_stride);
	u8 *word = m_.doorbell_pages + offset;
	u64 v = 0;

	if (!in == !out)
		return fail(EINVAL, "sim: an access to a doorbell is a read or a write");
	if (!range_within(offset, len, cfg_.channels * chan_stride)) {
		if (!out)
			memset(in, 0, len);
		return 0;
	}
	if (len == 8 && offset % 8)
		return fail(EINVAL, "sim: an access of 8 bytes to a doorbell is not aligned to 8");
	if (!out) {
		v = len == 8 ? load_acquire(reinterpret_cast<u64 *>(word)) :
			       load_acquire(reinterpret_cast<u32 *>(word));
		memcpy(in, &v, len);
		return 0;
	}
	memcpy(&v, out, len);
	if (len == 8)
		store_release(reinterpret_cast<u64 *>(word), v);
	else
		store_release(reinterpret_cast<u32 *>(word), u32(v));
	if (offset % chan_stride < doorbell_tail + 8)
		engine_of(index).kick();
	return 0;
}

} // namespace usdma::sim
