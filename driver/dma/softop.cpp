/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/softop.h"

#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/dma/reduce.h"

#include <algorithm>
#include <iterator>

namespace usdma::dma::softop {

static end source(const request &r)
{
	return {src_space(r.spaces), r.src, may_read};
}

static end target(const request &r)
{
	return {dst_space(r.spaces), r.dst, may_write};
}

/* The word of a WAIT. */
static end waited(const request &r)
{
	return {src_space(r.spaces), r.src, r.arg & wait_take ? may_read | may_write : u32(may_read)};
}

/* The second word of an indirect copy. */
static end second_cell(const request &r)
{
	return {dst_space(r.spaces), r.dst, may_read};
}

/* The destination of a reduction, which is read as well. */
static end accumulator(const request &r)
{
	return {dst_space(r.spaces), r.dst, may_read | may_write};
}

static end advanced(end e, u64 n)
{
	e.addr += n;
	return e;
}

static cache_hint hint_of(const request &r)
{
	return r.flags & flag_cache ? cache_hint::keep : cache_hint::none;
}

/* ---- bytes ----------------------------------------------------------------------------------------- */

static result get(backend &b, end src, void *buf, u64 len)
{
	piece p;

	for (auto *to = static_cast<u8 *>(buf); len; to += p.len, src.addr += p.len, len -= p.len) {
		if (!b.translate(src, len, &p))
			return result::fault;
		if (p.host)
			memcpy(to, p.host, p.len);
		else if (const result got = b.get_piece(src, to, p.len); got != result::done)
			return got;
	}
	return result::done;
}

static result put(backend &b, end dst, const void *buf, u64 len, bool whole)
{
	piece p;

	for (auto *from = static_cast<const u8 *>(buf); len; from += p.len, dst.addr += p.len, len -= p.len) {
		if (!b.translate(dst, len, &p))
			return result::fault;
		if (p.host)
			memcpy(p.host, from, p.len);
		else if (const result got = b.put_piece(dst, from, p.len, whole); got != result::done)
			return got;
	}
	return result::done;
}

/* Acquire: pairs with another channel's WRITE of this word; data copied before it is visible. */
static result get_word(backend &b, const end &src, u64 *out)
{
	piece p;

	if (!b.translate(src, sizeof(*out), &p))
		return result::fault;
	if (!p.host)
		return b.get_piece(src, out, sizeof(*out));
	*out = load_acquire(reinterpret_cast<u64 *>(p.host));
	return result::done;
}

/* Release: pairs with another channel's WAIT on this word; data copied before is visible. */
static result put_word(backend &b, const end &dst, u64 value)
{
	piece p;

	if (!b.translate(dst, sizeof(value), &p))
		return result::fault;
	if (!p.host)
		return b.put_piece(dst, &value, sizeof(value), false);
	store_release(reinterpret_cast<u64 *>(p.host), value);
	return result::done;
}

/* At least one endpoint is not accessible to the CPU: copy through a buffer. */
static result move_buffered(backend &b, const end &dst, const end &src, u64 len)
{
	u8 *buf = b.buffer(0);

	if (!buf)
		return b.fail(fault_reason::transfer, src.addr);
	const result got = get(b, src, buf, len);
	return got == result::done ? put(b, dst, buf, len, false) : got;
}

result backend::move(end dst, end src, u64 len, cache_hint)
{
	for (u64 n; len; len -= n, src.addr += n, dst.addr += n) {
		piece from, to;
		result got = result::done;

		if (!translate(src, len, &from) || !translate(dst, len, &to))
			return result::fault;
		n = std::min({from.len, to.len, bounds_.slice});
		if (from.host && to.host)
			memcpy(to.host, from.host, n);
		else
			got = move_buffered(*this, dst, src, n = std::min(n, bounds_.buffer));
		if (got != result::done)
			return got;
		if (!step(n, len == n) && len > n)
			return result::stopped;
	}
	return result::done;
}

result backend::move_rows(end dst, end src, const rows &r, cache_hint hint)
{
	result got = result::done;

	for (u32 row = 0; row < r.count && got == result::done; row++) {
		got = move(dst, src, r.len, hint);
		src.addr += r.src_pitch;
		dst.addr += r.dst_pitch;
	}
	return got;
}

/* ---- checks ---------------------------------------------------------------------------------------- */

static result check_end(backend &b, const end &e, u64 len)
{
	return b.check(e, len) ? result::done : result::fault;
}

static result check_both(backend &b, const end &src, const end &dst, u64 len)
{
	return b.check(src, len) && b.check(dst, len) ? result::done : result::fault;
}

static bool length_valid(const backend &b, u64 len)
{
	return len && len <= b.limits().max_len;
}

static result check_nop(backend &, const request &)
{
	return result::done;
}

static result check_copy(backend &b, const request &r)
{
	if (!length_valid(b, r.len))
		return b.fail(fault_reason::bad_length, 0);
	return check_both(b, source(r), target(r), r.len);
}

/* Bytes from the start of the first row to the end of the last; false: exceeds 64 bits. */
static bool extent_2d(u64 pitch, u64 len, u32 height, u64 *out)
{
	u64 rows;

	return !__builtin_mul_overflow(pitch, u64(height) - 1, &rows) && !__builtin_add_overflow(rows, len, out);
}

static result check_copy_2d(backend &b, const request &r)
{
	u64 src_extent, dst_extent, total;

	if (__builtin_mul_overflow(r.len, u64(r.height), &total) || !length_valid(b, total))
		return b.fail(fault_reason::bad_length, 0);
	if (r.height > 1 && (r.a < r.len || r.b < r.len))
		return b.fail(fault_reason::bad_length, 0);
	if (!extent_2d(r.a, r.len, r.height, &src_extent) || !extent_2d(r.b, r.len, r.height, &dst_extent))
		return b.fail(fault_reason::bad_length, 0);
	const result got = check_end(b, source(r), src_extent);
	return got == result::done ? check_end(b, target(r), dst_extent) : got;
}

static result check_fill(backend &b, const request &r)
{
	if (r.arg != 1 && r.arg != 4 && r.arg != 8)
		return b.fail(fault_reason::bad_op, 0);
	if (!length_valid(b, r.len) || r.len % r.arg)
		return b.fail(fault_reason::bad_length, 0);
	return check_end(b, target(r), r.len);
}

static bool has_cells(const request &r)
{
	return r.arg & u8(indirect_mode::cells);
}

/* Checks the words that are read first; the addresses in them are checked when they are read. */
static result check_indirect(backend &b, const request &r)
{
	if (r.arg & ~(u8(indirect_mode::cells) | indirect_host))
		return b.fail(fault_reason::bad_op, 0);
	if (r.src % 8)
		return b.fail(fault_reason::unaligned, r.src);
	if (!has_cells(r))
		return check_end(b, source(r), sizeof(indirect_block));
	if (r.dst % 8)
		return b.fail(fault_reason::unaligned, r.dst);
	return check_both(b, source(r), second_cell(r), 8);
}

static result check_write(backend &b, const request &r)
{
	if (r.dst % 8)
		return b.fail(fault_reason::unaligned, r.dst);
	return check_end(b, target(r), 8);
}

static result check_wait(backend &b, const request &r)
{
	if (wait_comparison(r.arg) > compare::nor || r.arg & ~(wait_compare | wait_take | wait_reported))
		return b.fail(fault_reason::bad_op, 0);
	if (r.src % 8)
		return b.fail(fault_reason::unaligned, r.src);
	return check_end(b, waited(r), 8);
}

static result check_reduce(backend &b, const request &r)
{
	const u64 size = element_size(reduce_type(r.arg));

	if (!size || !find_reduction(r.arg))
		return b.fail(fault_reason::bad_op, 0);
	if (!length_valid(b, r.len) || r.len % size)
		return b.fail(fault_reason::bad_length, 0);
	if (r.src % size || r.dst % size)
		return b.fail(fault_reason::unaligned, r.src % size ? r.src : r.dst);
	return check_both(b, source(r), accumulator(r), r.len);
}

/* ---- operations, with valid arguments ------------------------------------------------------ */

static result run_nop(backend &, const request &)
{
	return result::done;
}

static result run_copy(backend &b, const request &r)
{
	return b.move(target(r), source(r), r.len, hint_of(r));
}

/* In blocks of rows, to amortize the call. */
static result run_copy_2d(backend &b, const request &r)
{
	const u64 fit = std::max<u64>(b.limits().slice / r.len, 1);
	rows block = {r.len, 0, r.a, r.b};

	for (u32 row = 0; row < r.height; row += block.count) {
		block.count = u32(std::min<u64>({fit, b.limits().max_rows, r.height - row}));
		const result got = b.move_rows(advanced(target(r), row * r.b), advanced(source(r), row * r.a), block,
					       hint_of(r));
		if (got != result::done)
			return got;
		const bool last = row + block.count == r.height;
		if (!b.step(0, last) && !last)
			return result::stopped;
	}
	return result::done;
}

/* The pattern repeated to eight bytes, rotated to byte `at` of the filled range. */
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

static result fill_piece(backend &b, const end &dst, u64 len, u64 pattern, u64 *done)
{
	u8 buf[4 * KiB];
	piece p;

	if (!b.translate(dst, std::min(len, b.limits().slice), &p))
		return result::fault;
	*done = p.host ? p.len : std::min<u64>(p.len, sizeof(buf));
	fill_bytes(p.host ? p.host : buf, *done, pattern);
	return p.host ? result::done : b.put_piece(dst, buf, *done, false);
}

static result run_fill(backend &b, const request &r)
{
	for (u64 at = 0, n; at < r.len; at += n) {
		const result got = fill_piece(b, advanced(target(r), at), r.len - at, pattern_at(r.a, r.arg, at), &n);

		if (got != result::done)
			return got;
		const bool last = at + n == r.len;
		if (!b.step(n, last) && !last)
			return result::stopped;
	}
	return result::done;
}

static result read_cells(backend &b, const request &r, indirect_block *out)
{
	result got = get_word(b, source(r), &out->src);

	if (got == result::done)
		got = get_word(b, second_cell(r), &out->dst);
	out->src += r.a;
	out->dst += r.b;
	out->len_high = u32(r.len >> 32);
	out->len = u32(r.len);
	return got;
}

static result run_indirect(backend &b, const request &r)
{
	const space found = r.arg & indirect_host ? space::host : space::device;
	indirect_block i = {};

	result got = has_cells(r) ? read_cells(b, r, &i) : get(b, source(r), &i, sizeof(i));
	if (got != result::done)
		return got;
	const end src = {found, i.src, may_read}, dst = {found, i.dst, may_write};
	const u64 len = u64(i.len_high) << 32 | i.len;
	if (!length_valid(b, len))
		return b.fail(fault_reason::bad_length, r.src);
	got = check_both(b, src, dst, len);
	return got == result::done ? b.move(dst, src, len, cache_hint::none) : got;
}

static result run_write(backend &b, const request &r)
{
	return put_word(b, target(r), r.a);
}

static result run_timestamp(backend &b, const request &r)
{
	return put_word(b, target(r), now_ns());
}

/* *taken: the word was still this one. */
static result take_word(backend &b, const request &r, u64 word, bool *taken)
{
	static constexpr u64 none = 0;
	piece p;

	if (!b.translate(waited(r), sizeof(word), &p))
		return result::fault;
	if (!p.host)
		return b.put_piece(waited(r), &none, sizeof(none), true);
	*taken = cmpxchg_acq_rel(reinterpret_cast<u64 *>(p.host), &word, none);
	return result::done;
}

static result run_wait(backend &b, const request &r)
{
	for (u64 word, until = 0;;) {
		result got = get_word(b, waited(r), &word);
		bool holds = got == result::done && compares(wait_comparison(r.arg), word, r.a);

		if (holds && r.arg & wait_take)
			got = take_word(b, r, word, &holds);
		if (got != result::done || holds)
			return got;
		if (!until)
			until = b.wait_until(r.height);
		if (until != ~u64(0) && now_ns() >= until)
			return b.fail(fault_reason::timeout, r.src);
		got = b.pause(until);
		if (got != result::done)
			return got;
	}
}

/* At least one endpoint is not accessible to the CPU. */
static result reduce_buffered(backend &b, const end &dst, const end &src, u64 len, reduce_fn reduce)
{
	u8 *acc = b.buffer(0), *add = b.buffer(1);

	if (!acc || !add)
		return b.fail(fault_reason::transfer, src.addr);
	result got = get(b, src, add, len);
	if (got == result::done)
		got = get(b, dst, acc, len);
	if (got != result::done)
		return got;
	reduce(acc, add, len);
	return put(b, dst, acc, len, true);
}

static result reduce_piece(backend &b, const end &dst, const end &src, u64 len, reduce_fn reduce, u64 *done)
{
	piece from, to;

	if (!b.translate(src, len, &from) || !b.translate(dst, len, &to))
		return result::fault;
	const u64 n = *done = std::min({from.len, to.len, b.limits().buffer});
	if (unlikely(!from.host || !to.host))
		return reduce_buffered(b, dst, src, n, reduce);
	reduce(to.host, from.host, n);
	return result::done;
}

/* Resumes where an interrupted run stopped: no element may be reduced twice. */
static result run_reduce(backend &b, const request &r)
{
	const reduce_fn reduce = find_reduction(r.arg);

	for (u64 at = b.saved_progress(), n = 0; at < r.len; at += n) {
		result got = reduce_piece(b, advanced(accumulator(r), at), advanced(source(r), at), r.len - at, reduce,
					  &n);

		if (got == result::stopped)
			b.save_progress(at);
		if (got != result::done)
			return got;
		if (b.step_once(n, at + n == r.len))
			continue;
		b.save_progress(at + n);
		return result::stopped;
	}
	return result::done;
}

/* ---- the table --------------------------------------------------------------------------------------- */

struct row {
	const char *name;
	result (*check)(backend &b,
			const request &r); /* arguments first, then ranges, in the order of docs/hardware.md */
	result (*run)(backend &b, const request &r);
};

/* Indexed by opcode. */
static constexpr row table[] = {
	{"nop", check_nop, run_nop},
	{"copy", check_copy, run_copy},
	{"copy_2d", check_copy_2d, run_copy_2d},
	{"fill", check_fill, run_fill},
	{"copy_indirect", check_indirect, run_indirect},
	{"write", check_write, run_write},
	{"wait", check_wait, run_wait},
	{"reduce", check_reduce, run_reduce},
	{"timestamp", check_write, run_timestamp},
};
static_assert(std::size(table) == size_t(opcode::op_count));

const char *name(opcode op)
{
	return op < opcode::op_count ? table[size_t(op)].name : nullptr;
}

result run(backend &b, const request &r)
{
	if (r.op >= opcode::op_count || (r.flags & ~valid_flags) || (r.spaces & ~valid_spaces))
		return b.fail(fault_reason::bad_op, 0);
	const row &op = table[size_t(r.op)];
	const result got = op.check(b, r);
	return got == result::done ? op.run(b, r) : got;
}

} // namespace usdma::dma::softop
