/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors: what they do stands in driver/dma/softop, once for all devices.  Here is what that
 * takes of an engine, and the usual copy, which goes without it.
 */
#include "driver/base/clock.h"
#include "driver/sim/engine.h"
#include "driver/vfio/device.h"

namespace usdma::sim {

using dma::fault_reason;
using dma::opcode;
using sdma::descriptor;

namespace softop = dma::softop;

static_assert(u32(softop::may_read) == vfio::dma_read && u32(softop::may_write) == vfio::dma_write);

/* A 2-D copy of short rows lets others in after so many, or after a slice's bytes. */
static constexpr u32 rows_per_slice = 1024;
/* Looks of a WAIT for one heartbeat. */
static constexpr u32 wait_beat = 64;
static constexpr softop::bounds model_bounds = {model_max_len, slice, rows_per_slice, bounce_size};

class engine::op_backend final : public softop::backend {
public:
	op_backend(engine &u, hw_channel &ch, const descriptor &d) : backend(model_bounds), u_(u), ch_(ch), d_(d) {}

	result fail(fault_reason reason, u64 address) override { return u_.fault(reason, address); }
	bool check(const softop::end &e, u64 len) override { return u_.check_span(end_of(ch_, e), len); }
	bool locate(const softop::end &e, u64 len, piece *out) override { return u_.locate(end_of(ch_, e), len, out); }
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
	void keep(u64 done) override { u_.keep_part(ch_, d_, done, false); }
	u64 kept() override { return u_.is_part(ch_, d_) ? ch_.part.bytes : 0; }
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
	/* Also behind the last piece, where a stop waited for it. */
	if (unlikely(ch_.stop_due))
		u_.halt(ch_, fault_reason::stopped, 0, 0);
	return ch_.state == sdma::chan_state_running && (last || u_.checkpoint(ch_));
}

u64 engine::op_backend::wait_until(u32 limit_ms)
{
	if (!ch_.waiting)
		ch_.wait_until = limit_ms ? now_ns() + limit_ms * ns_per_ms : ~u64(0);
	return ch_.wait_until;
}

/* The engine has other channels: the descriptor runs again in the next turn. */
engine::result engine::op_backend::pause(u64)
{
	/* Now and then: the client reads this line. */
	if (++ch_.wait_looks % wait_beat == 0)
		store_relaxed(&ch_.status->record.heartbeat, ++ch_.heartbeat);
	return result::blocked;
}

/* As copy_at_once, where the channel's last copies were elsewhere. */
bool engine::copy_elsewhere(hw_channel &ch, const descriptor &d)
{
	meet(end_of(ch, {dma::src_space(d.spaces), d.src, softop::may_read}));
	meet(end_of(ch, {dma::dst_space(d.spaces), d.dst, softop::may_write}));
	return copy_at_once(ch, d, mem_base_);
}

/*
 * Descriptors of a channel end one after the other, so flag_fence asks for
 * nothing that is not so already.
 */
engine::result engine::execute(hw_channel &ch, const descriptor &d, u64 mem_base)
{
	/* One that waits began with the base of then. */
	if (!ch.waiting)
		ch.mem_base = mem_base;
	mem_base_ = ch.mem_base;
	if (unlikely(d.reserved))
		return fault(fault_reason::bad_op, 0);
	if (d.op == u8(opcode::copy) && copy_elsewhere(ch, d))
		return result::done;
	op_backend backend(*this, ch, d);
	return softop::run(backend,
			   {opcode(d.op), d.flags, d.spaces, d.arg, d.height, d.src, d.dst, d.len, d.a, d.b, d.cookie});
}

} // namespace usdma::sim
