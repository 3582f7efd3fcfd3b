/* SPDX-License-Identifier: BSD-3-Clause */
/* What each descriptor does (docs/hardware.md, "Operations"). */
#include "driver/base/clock.h"
#include "driver/sim/reduce.h"
#include "driver/sim/unit.h"
#include "driver/vfio/device.h"

namespace usdma::sim {

using dma::fault_reason;
using dma::opcode;
using dma::space;
using sdma::descriptor;

static constexpr u64 slice = 256 * KiB;
/* A 2-D copy of short rows lets others in after so many, or after a slice's bytes. */
static constexpr u32 rows_per_slice = 1024;
/* Looks of a WAIT for one heartbeat. */
static constexpr u32 wait_beat = 64;

/*
 * Descriptors of a channel end one after the other, so flag_fence asks for
 * nothing that is not so already.
 */
unit::result unit::execute(hw_channel &ch, const descriptor &d, u64 mem_base)
{
	/* One that waits began with the base of then. */
	if (!ch.waiting)
		ch.mem_base = mem_base;
	mem_base_ = ch.mem_base;
	if (unlikely(d.reserved || (d.flags & ~known_flags) || (d.spaces & ~known_spaces)))
		return fault(fault_reason::bad_op, 0);
	switch (opcode(d.op)) {
	case opcode::copy:
		return op_copy(ch, d);
	case opcode::nop:
		return result::done;
	case opcode::copy_2d:
		return op_copy_2d(ch, d);
	case opcode::fill:
		return op_fill(ch, d);
	case opcode::copy_indirect:
		return op_indirect(ch, d);
	case opcode::write:
		return op_write(ch, d, d.a);
	case opcode::timestamp:
		return op_write(ch, d, now_ns());
	case opcode::wait:
		return op_wait(ch, d);
	case opcode::reduce:
		return op_reduce(ch, d);
	default:
		return fault(fault_reason::bad_op, 0);
	}
}

static bool length_right(u64 len)
{
	return len && len <= model_max_len;
}

unit::result unit::op_copy(hw_channel &ch, const descriptor &d)
{
	const end src = source(ch, dma::src_space(d.spaces), d.src), dst = target(ch, dma::dst_space(d.spaces), d.dst);

	meet(src);
	meet(dst);
	if (copy_at_once(ch, d, mem_base_))
		return result::done;
	if (!length_right(d.len))
		return fault(fault_reason::bad_length, 0);
	if (!check_span(src, d.len) || !check_span(dst, d.len))
		return result::fault;
	return move(ch, dst, src, d.len, d.flags & dma::flag_cache);
}

/* The bytes from the first row's first to the last row's last; false: more than 64 bits can say. */
static bool span_2d(u64 pitch, u64 len, u32 height, u64 *out)
{
	u64 rows;

	return !__builtin_mul_overflow(pitch, u64(height) - 1, &rows) && !__builtin_add_overflow(rows, len, out);
}

unit::result unit::op_copy_2d(hw_channel &ch, const descriptor &d)
{
	end src = source(ch, dma::src_space(d.spaces), d.src), dst = target(ch, dma::dst_space(d.spaces), d.dst);
	u64 src_span, dst_span, total;

	if (!d.len || !d.height || __builtin_mul_overflow(d.len, u64(d.height), &total) || !length_right(total))
		return fault(fault_reason::bad_length, 0);
	if (d.height > 1 && (d.a < d.len || d.b < d.len))
		return fault(fault_reason::bad_length, 0);
	if (!span_2d(d.a, d.len, d.height, &src_span) || !span_2d(d.b, d.len, d.height, &dst_span))
		return fault(fault_reason::bad_length, 0);
	if (!check_span(src, src_span) || !check_span(dst, dst_span))
		return result::fault;
	const u32 rows = d.len >= slice ? 1 : u32(slice / d.len) < rows_per_slice ? u32(slice / d.len) : rows_per_slice;
	for (u32 row = 1; row <= d.height; row++) {
		const result r = move(ch, dst, src, d.len, d.flags & dma::flag_cache);

		if (r != result::done)
			return r;
		src.addr += d.a;
		dst.addr += d.b;
		if (row % rows == 0 && !checkpoint(ch))
			return result::gone;
	}
	return result::done;
}

/* The pattern in all eight bytes, as it stands at byte `at` of the filled range. */
static u64 pattern_at(u64 a, unsigned width, u64 at)
{
	const u64 p = width == 1 ? (a & 0xff) * 0x0101010101010101 : width == 4 ? (a & 0xffffffff) * 0x100000001 : a;
	const unsigned turn = unsigned(at % 8) * 8;

	return turn ? p >> turn | p << (64 - turn) : p;
}

static void fill_bytes(u8 *p, u64 len, u64 pattern)
{
	for (; len >= sizeof(pattern); p += sizeof(pattern), len -= sizeof(pattern))
		memcpy(p, &pattern, sizeof(pattern));
	memcpy(p, &pattern, len);
}

unit::result unit::op_fill(hw_channel &ch, const descriptor &d)
{
	end dst = target(ch, dma::dst_space(d.spaces), d.dst);
	u8 pattern[4 * KiB];

	if (d.arg != 1 && d.arg != 4 && d.arg != 8)
		return fault(fault_reason::bad_op, 0);
	if (!length_right(d.len) || d.len % d.arg)
		return fault(fault_reason::bad_length, 0);
	if (!check_span(dst, d.len))
		return result::fault;
	for (u64 done = 0; done < d.len;) {
		const u64 left = d.len - done, p = pattern_at(d.a, d.arg, done);
		piece t;

		if (!locate(dst, left < slice ? left : slice, &t))
			return result::fault;
		if (t.host) {
			fill_bytes(t.host, t.len, p);
		} else {
			t.len = t.len < sizeof(pattern) ? t.len : sizeof(pattern);
			fill_bytes(pattern, t.len, p);
			const result r = remote(ch, true, dst.addr, pattern, t.len);
			if (r != result::done)
				return r;
		}
		done += t.len;
		dst.addr += t.len;
		moved_ += t.len;
		if (done < d.len && !checkpoint(ch))
			return result::gone;
	}
	return result::done;
}

unit::result unit::op_indirect(hw_channel &ch, const descriptor &d)
{
	sdma::indirect_block b = {};
	result r;

	if (d.arg & ~(u8(dma::indirect_mode::cells) | dma::indirect_host))
		return fault(fault_reason::bad_op, 0);
	const bool cells = d.arg & u8(dma::indirect_mode::cells);
	const space found = d.arg & dma::indirect_host ? space::host : space::device;
	const end block = source(ch, dma::src_space(d.spaces), d.src);
	if (d.src % 8)
		return fault(fault_reason::unaligned, d.src);
	if (!cells) {
		if (!check_span(block, sizeof(b)))
			return result::fault;
		r = get_bytes(ch, block, &b, sizeof(b));
		if (r != result::done)
			return r;
	} else {
		const end cell = source(ch, dma::dst_space(d.spaces), d.dst);

		if (d.dst % 8)
			return fault(fault_reason::unaligned, d.dst);
		if (!check_span(block, 8) || !check_span(cell, 8))
			return result::fault;
		r = get_word(ch, block, &b.src);
		if (r == result::done)
			r = get_word(ch, cell, &b.dst);
		if (r != result::done)
			return r;
		b.src += d.a;
		b.dst += d.b;
	}
	const u64 len = cells ? d.len : u64(b.len_high) << 32 | b.len;
	if (!length_right(len))
		return fault(fault_reason::bad_length, d.src);
	const end src = source(ch, found, b.src), dst = target(ch, found, b.dst);
	if (!check_span(src, len) || !check_span(dst, len))
		return result::fault;
	return move(ch, dst, src, len, len);
}

unit::result unit::op_write(hw_channel &ch, const descriptor &d, u64 value)
{
	const end dst = target(ch, dma::dst_space(d.spaces), d.dst);
	piece t;

	if (d.dst % sizeof(value))
		return fault(fault_reason::unaligned, d.dst);
	if (!check_span(dst, sizeof(value)) || !locate(dst, sizeof(value), &t))
		return result::fault;
	if (!t.host)
		return remote(ch, true, dst.addr, &value, sizeof(value));
	/* Release: another channel's WAIT on this word sees what was copied before. */
	store_release(reinterpret_cast<u64 *>(t.host), value);
	return result::done;
}

unit::result unit::op_wait(hw_channel &ch, const descriptor &d)
{
	const end src = source(ch, dma::src_space(d.spaces), d.src);
	u64 word;

	if (d.arg > u8(dma::compare::nor))
		return fault(fault_reason::bad_op, 0);
	if (d.src % sizeof(word))
		return fault(fault_reason::unaligned, d.src);
	if (!check_span(src, sizeof(word)))
		return result::fault;
	const result r = get_word(ch, src, &word);
	if (r != result::done)
		return r;
	if (dma::compares(dma::compare(d.arg), word, d.a))
		return result::done;
	/* Now and then: the client reads this line. */
	if (++ch.wait_looks % wait_beat == 0)
		store_relaxed(&ch.status->record.heartbeat, ++ch.heartbeat);
	if (!ch.waiting)
		ch.wait_until = d.height ? now_ns() + d.height * ns_per_ms : ~u64(0);
	else if (ch.wait_until != ~u64(0) && now_ns() >= ch.wait_until)
		return fault(fault_reason::timeout, d.src);
	return result::blocked;
}

unit::result unit::op_reduce(hw_channel &ch, const descriptor &d)
{
	const reduce_fn reduce = find_reduction(d.arg);
	const u64 size = dma::element_size(dma::reduce_type(d.arg));
	end src = source(ch, dma::src_space(d.spaces), d.src), dst = target(ch, dma::dst_space(d.spaces), d.dst);
	end both = dst;

	both.right = vfio::dma_read | vfio::dma_write;
	if (!reduce || !size)
		return fault(fault_reason::bad_op, 0);
	if (!length_right(d.len) || d.len % size)
		return fault(fault_reason::bad_length, 0);
	if (d.src % size || d.dst % size)
		return fault(fault_reason::unaligned, d.src % size ? d.src : d.dst);
	if (!check_span(src, d.len) || !check_span(both, d.len))
		return result::fault;
	/* What is reduced already must not be so twice. */
	u64 left = d.len - (is_part(ch, d) ? ch.part.bytes : 0);
	src.addr += d.len - left;
	dst.addr += d.len - left;
	while (left) {
		piece s, t;

		if (!locate(src, left, &s) || !locate(dst, left, &t))
			return result::fault;
		u64 n = s.len < t.len ? s.len : t.len;
		n = n < at_once ? n : at_once;
		if (likely(s.host && t.host)) {
			reduce(t.host, s.host, n);
		} else {
			const result r = reduce_remote(ch, dst, src, n, reduce);
			if (r == result::gone)
				keep_part(ch, d, d.len - left, false);
			if (r != result::done)
				return r;
		}
		src.addr += n;
		dst.addr += n;
		left -= n;
		moved_ += n;
		/* Also behind the last piece, where a stop waited for it. */
		if (unlikely(ch.stop_due))
			halt(ch, fault_reason::stopped, 0, 0);
		if (ch.state != sdma::chan_state_running || (left && !checkpoint(ch))) {
			keep_part(ch, d, d.len - left, false);
			return result::gone;
		}
	}
	return result::done;
}

/* At most a bounce buffer's worth, of which at least one side is reached by messages. */
unit::result unit::reduce_remote(hw_channel &ch, const end &dst, const end &src, u64 len, void (*reduce)(void *, const void *, size_t))
{
	u8 *a = bounce(0), *b = bounce(1);

	if (!a)
		return fault(fault_reason::transfer, src.addr);
	result r = get_bytes(ch, src, b, len);
	if (r == result::done)
		r = get_bytes(ch, dst, a, len);
	if (r != result::done)
		return r;
	reduce(a, b, len);
	return put_bytes(ch, dst, a, len, true);
}

} // namespace usdma::sim
