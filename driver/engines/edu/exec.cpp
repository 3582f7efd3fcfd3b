/* SPDX-License-Identifier: BSD-3-Clause */
/* Each operation, in terms of move.cpp's. */
#include "driver/engines/edu/exec.h"
#include "driver/engines/sdma/sdma_hw.h"
#include "driver/sim/reduce.h"

#include <algorithm>
#include <cstring>

namespace usdma::edu {

using dma::fault_reason;
using dma::opcode;
using dma::space;

static constexpr u8 known_flags = dma::flag_fence | dma::flag_interrupt | dma::flag_complete | dma::flag_cache;
static constexpr u8 known_spaces = 0x11;
static constexpr u64 wait_look_ns = 200 * ns_per_us, wait_look_max_ns = 5 * ns_per_ms;

/* flag_fence asks for nothing: requests of a channel end one after the other. */
outcome executor::run(const dma::request &r)
{
	if ((r.flags & ~known_flags) || (r.spaces & ~known_spaces))
		return {fault_reason::bad_op};
	switch (r.op) {
	case opcode::nop:
		return {};
	case opcode::copy:
		return copy(r);
	case opcode::copy_2d:
		return copy_2d(r);
	case opcode::fill:
		return fill(r);
	case opcode::copy_indirect:
		return indirect(r);
	case opcode::write:
		return write(r, r.a);
	case opcode::timestamp:
		return write(r, now_ns());
	case opcode::wait:
		return wait(r);
	case opcode::reduce:
		return reduce(r);
	default:
		return {fault_reason::bad_op};
	}
}

static bool length_right(u64 len)
{
	return len && len <= max_length;
}

outcome executor::copy(const dma::request &r)
{
	const end src = source(dma::src_space(r.spaces), r.src), dst = target(dma::dst_space(r.spaces), r.dst);

	if (!length_right(r.len))
		return {fault_reason::bad_length};
	if (outcome o = check(src, r.len); !o)
		return o;
	if (outcome o = check(dst, r.len); !o)
		return o;
	return move(dst, src, r.len);
}

/* The bytes from the first row's first to the last row's last; false: more than 64 bits can say. */
static bool span_2d(u64 pitch, u64 len, u32 height, u64 *out)
{
	u64 rows;

	return !__builtin_mul_overflow(pitch, u64(height) - 1, &rows) && !__builtin_add_overflow(rows, len, out);
}

outcome executor::copy_2d(const dma::request &r)
{
	end src = source(dma::src_space(r.spaces), r.src), dst = target(dma::dst_space(r.spaces), r.dst);
	u64 src_span, dst_span, total;

	if (!r.len || !r.height || __builtin_mul_overflow(r.len, u64(r.height), &total) || !length_right(total))
		return {fault_reason::bad_length};
	if (r.height > 1 && (r.a < r.len || r.b < r.len))
		return {fault_reason::bad_length};
	if (!span_2d(r.a, r.len, r.height, &src_span) || !span_2d(r.b, r.len, r.height, &dst_span))
		return {fault_reason::bad_length};
	if (outcome o = check(src, src_span); !o)
		return o;
	if (outcome o = check(dst, dst_span); !o)
		return o;
	for (u32 row = 0; row < r.height; row++, src.addr += r.a, dst.addr += r.b)
		if (outcome o = move(dst, src, r.len); !o)
			return o;
	return {};
}

outcome executor::fill(const dma::request &r)
{
	end dst = target(dma::dst_space(r.spaces), r.dst);
	alignas(8) u8 pattern[memory_usable];

	if (r.arg != 1 && r.arg != 4 && r.arg != 8)
		return {fault_reason::bad_op};
	if (!length_right(r.len) || r.len % r.arg)
		return {fault_reason::bad_length};
	if (outcome o = check(dst, r.len); !o)
		return o;
	/* Little-endian: the pattern's low bytes come first; each chunk but the last is a multiple of 8. */
	for (size_t i = 0; i < sizeof(pattern); i += r.arg)
		memcpy(pattern + i, &r.a, r.arg);
	for (u64 left = r.len, n; left; left -= n, dst.addr += n) {
		n = std::min<u64>(left, sizeof(pattern));
		if (outcome o = put(dst, pattern, n); !o)
			return o;
		if (left > n && !progress_.go_on(true))
			return {fault_reason::stopped};
	}
	return {};
}

/* Both kinds end in a copy inside device memory. */
outcome executor::indirect(const dma::request &r)
{
	const end block = source(dma::src_space(r.spaces), r.src), cell = source(dma::dst_space(r.spaces), r.dst);
	const bool cells = r.arg & u8(dma::indirect_mode::cells);
	const space found = r.arg & dma::indirect_host ? space::host : space::device;
	sdma::indirect_block b = {};
	outcome o;

	if (r.arg & ~(u8(dma::indirect_mode::cells) | dma::indirect_host))
		return {fault_reason::bad_op};
	if (r.src % 8 || (cells && r.dst % 8))
		return {fault_reason::unaligned, r.src % 8 ? r.src : r.dst};
	o = check(block, cells ? 8 : sizeof(b));
	if (o && cells)
		o = check(cell, 8);
	if (o)
		o = cells ? get_word(block, &b.src) : get(block, &b, sizeof(b));
	if (o && cells)
		o = get_word(cell, &b.dst);
	if (!o)
		return o;
	if (cells) {
		b.src += r.a;
		b.dst += r.b;
	}
	const u64 len = cells ? r.len : u64(b.len_high) << 32 | b.len;
	if (!length_right(len))
		return {fault_reason::bad_length, r.src};
	const end src = source(found, b.src), dst = target(found, b.dst);
	o = check(src, len);
	if (o)
		o = check(dst, len);
	return o ? move(dst, src, len) : o;
}

outcome executor::write(const dma::request &r, u64 value)
{
	const end dst = target(dma::dst_space(r.spaces), r.dst);

	if (r.dst % sizeof(value))
		return {fault_reason::unaligned, r.dst};
	if (outcome o = check(dst, sizeof(value)); !o)
		return o;
	return put(dst, &value, sizeof(value));
}

outcome executor::wait(const dma::request &r)
{
	const end src = source(dma::src_space(r.spaces), r.src);
	const deadline limit = r.height ? deadline::in_ms(r.height) : deadline::never();
	u64 word, look = wait_look_ns;

	if (r.arg > u8(dma::compare::nor))
		return {fault_reason::bad_op};
	if (r.src % sizeof(word))
		return {fault_reason::unaligned, r.src};
	for (;; look = std::min(look * 2, wait_look_max_ns)) {
		if (outcome o = check(src, sizeof(word)); !o)
			return o;
		if (outcome o = get_word(src, &word); !o)
			return o;
		if (dma::compares(dma::compare(r.arg), word, r.a))
			return {};
		if (limit.passed())
			return {fault_reason::timeout, r.src};
		progress_.pause(deadline::sooner(limit, deadline::in_ns(look)));
		if (!progress_.go_on(false))
			return {fault_reason::stopped};
	}
}

/* Never left off in the middle: run again from its start it would count twice. */
outcome executor::reduce(const dma::request &r)
{
	const sim::reduce_fn fn = sim::find_reduction(r.arg);
	const u64 size = dma::element_size(dma::reduce_type(r.arg));
	end src = source(dma::src_space(r.spaces), r.src), dst = target(dma::dst_space(r.spaces), r.dst);
	const end old = source(dst.space, dst.addr);
	alignas(8) u8 a[memory_usable], b[memory_usable];
	outcome o;

	if (!fn || !size)
		return {fault_reason::bad_op};
	if (!length_right(r.len) || r.len % size)
		return {fault_reason::bad_length};
	if (r.src % size || r.dst % size)
		return {fault_reason::unaligned, r.src % size ? r.src : r.dst};
	o = check(src, r.len);
	if (o)
		o = check(dst, r.len);
	if (o)
		o = check(old, r.len);
	if (o.reason == fault_reason::src_denied && o.address - r.dst < r.len)
		o.reason = fault_reason::dst_denied; /* what is added to is read, too */
	for (u64 done = 0, n; o && done < r.len; done += n) {
		n = std::min<u64>(r.len - done, sizeof(a));
		o = get(source(src.space, src.addr + done), a, n);
		if (o)
			o = get(source(dst.space, dst.addr + done), b, n);
		if (!o)
			break;
		fn(b, a, n);
		o = put(target(dst.space, dst.addr + done), b, n);
		progress_.go_on(true);
	}
	return o;
}

} // namespace usdma::edu
