/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors: driver/dma/softop implements the operations for all devices. Here is its backend for an engine, and
 * the common copy, which bypasses it.
 */
#include "driver/base/clock.h"
#include "driver/sim/models/sdma/engine.h"
#include "driver/vfio/device.h"

namespace usdma::sim {

using dma::fault_reason;
using dma::opcode;
using sdma::descriptor;

namespace softop = dma::softop;

static_assert(u32(softop::may_read) == vfio::dma_read && u32(softop::may_write) == vfio::dma_write);

/* A 2-D copy yields after this many rows, or after a slice's bytes. */
static constexpr u32 rows_per_slice = 1024;
/* Polls of a WAIT per heartbeat. */
static constexpr u32 wait_beat = 64;
static constexpr softop::bounds model_bounds = {model_max_len, slice, rows_per_slice, bounce_size};

class engine::op_backend final : public softop::backend {
public:
	op_backend(engine &u, hw_channel &ch, const descriptor &d) : backend(model_bounds), u_(u), ch_(ch), d_(d) {}

	result fail(fault_reason reason, u64 address) override { return u_.fault(reason, address); }
	bool check(const softop::end &e, u64 len) override { return u_.check_mapping(end_of(ch_, e), len); }
	bool translate(const softop::end &e, u64 len, piece *out) override
	{
		return u_.translate(end_of(ch_, e), len, out);
	}
	result get_piece(const softop::end &src, void *buf, u64 len) override
	{
		return u_.remote(ch_, false, src.addr, buf, len);
	}
	result put_piece(const softop::end &dst, const void *buf, u64 len, bool whole) override
	{
		return u_.remote(ch_, true, dst.addr, const_cast<void *>(buf), len, whole);
	}
	u8 *buffer(unsigned which) override { return u_.bounce(which); }
	result move(softop::end dst, softop::end src, u64 len, cache_hint hint) override
	{
		return u_.move(ch_, end_of(ch_, dst), end_of(ch_, src), len, hint);
	}
	result move_rows(softop::end dst, softop::end src, const softop::rows &r, cache_hint hint) override;
	bool step(u64 n, bool last) override
	{
		u_.moved_ += n;
		return last || u_.checkpoint(ch_);
	}
	bool step_once(u64 n, bool last) override;
	void save_progress(u64 done) override { u_.save_part(ch_, d_, done, false); }
	u64 saved_progress() override { return u_.is_part(ch_, d_) ? ch_.part.bytes : 0; }
	u64 wait_until(u32 limit_ms) override;
	result pause(u64) override;

private:
	engine &u_;
	hw_channel &ch_;
	const descriptor &d_;
};

engine::result engine::op_backend::move_rows(softop::end dst, softop::end src, const softop::rows &r, cache_hint hint)
{
	end to = end_of(ch_, dst), from = end_of(ch_, src);
	result got = result::done;

	for (u32 row = 0; row < r.count && got == result::done; row++) {
		got = u_.move(ch_, to, from, r.len, hint);
		from.addr += r.src_pitch;
		to.addr += r.dst_pitch;
	}
	return got;
}

bool engine::op_backend::step_once(u64 n, bool last)
{
	u_.moved_ += n;
	/* Also after the last piece, which a stop may have waited for. */
	if (unlikely(ch_.stop_due))
		u_.halt(ch_, fault_reason::stopped, 0, 0);
	return ch_.state == sdma::chan_state_running && (last || u_.checkpoint(ch_));
}

u64 engine::op_backend::wait_until(u32 limit_ms)
{
	ch_.wait_is_reported = d_.arg & dma::wait_reported;
	if (!ch_.waiting)
		ch_.wait_until = limit_ms ? now_ns() + limit_ms * ns_per_ms : ~u64(0);
	return ch_.wait_until;
}

/* Yields to other channels: the descriptor runs again in the next turn. */
engine::result engine::op_backend::pause(u64)
{
	/* Rarely, as the client reads this cache line. */
	if (++ch_.wait_polls % wait_beat == 0 || u_.beat_due_)
		store_relaxed(&ch_.record->heartbeat, ++ch_.heartbeat);
	return result::blocked;
}

/* copy_at_once() after a lookup, for other areas than those of the channel's last copies. */
bool engine::copy_elsewhere(hw_channel &ch, const descriptor &d)
{
	fill_window(end_of(ch, {dma::src_space(d.spaces), d.src, softop::may_read}));
	fill_window(end_of(ch, {dma::dst_space(d.spaces), d.dst, softop::may_write}));
	return copy_at_once(ch, d, mem_base_);
}

/* Descriptors of a channel complete in order, so flag_fence needs no action. */
engine::result engine::execute(hw_channel &ch, const descriptor &d, u64 mem_base)
{
	/* A waiting descriptor keeps the base with which it started. */
	if (!ch.waiting)
		ch.mem_base = mem_base;
	mem_base_ = ch.mem_base;
	if (unlikely(d.reserved))
		return fault(fault_reason::bad_op, 0);
	if (d.op == u8(opcode::copy) && copy_elsewhere(ch, d))
		return result::done;
	order_copies();
	op_backend backend(*this, ch, d);
	const result r = softop::run(
		backend, {opcode(d.op), d.flags, d.spaces, d.arg, d.height, d.src, d.dst, d.len, d.a, d.b, d.cookie});
	if (d.op == u8(opcode::write))
		report_store();
	return r;
}

} // namespace usdma::sim
