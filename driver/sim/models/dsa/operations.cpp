/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on memory (8.3), in pieces between which areas can be unmapped. */
#include "driver/sim/models/dsa/dsa_model.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace usdma::sim {

using dsa::operation;
using dsa::status;

static constexpr u64 piece_size = 64 * KiB; /* as of buffer_ */
/* How long a page request may stay without an answer. */
static constexpr u64 page_request_ns = 100 * ns_per_ms, page_poll_ns = ns_per_ms;
/* Operands 8.2.3 */
enum : u8 { number_src = 1, number_src2 = 2, number_dst = 3, number_dst2 = 4 };

/* True: the client has mapped the address meanwhile. Outside of a pass. */
bool dsa_model::await_page(const dsa_queue &q, const range &o, u64 at)
{
	const u64 until = now_ns() + page_request_ns;
	bool found = false;

	while (!found && now_ns() < until && !thread_.quits()) {
		delay(q.index, now_ns() + page_poll_ns);
		found = memory_.reach(at, 1, o.right);
		std::lock_guard guard(lock_);

		if (q.abort || reset_due_)
			break;
	}
	return found;
}

/*
 * Calls f(offset, n), which returns false to stop, for pieces that all operands reach. Backward: from the last byte, by
 * pieces that are within a page of each operand.
 */
template <class F>
dsa_model::outcome dsa_model::over(dsa_queue &q, const dsa::work &w, std::span<const range> ops, bool backward,
				   const F &f)
{
	const bool blocks = w.flags_operation & dsa::flag_block_on_fault;

	for (u64 done = 0, n; done < w.size; done += n) {
		const range *bad = nullptr;

		n = std::min<u64>(w.size - done, piece_size);
		for (const range &o : ops)
			n = backward ? std::min(n, (o.at + w.size - done - 1) % 4096 + 1) : n;
		const u64 offset = backward ? w.size - done - n : done, whole = n;
		for (const range &o : ops) {
			const u64 got = memory_.reach(o.at + offset, n, o.right);

			bad = got < n && (!backward || !bad) ? &o : bad;
			n = std::min(n, got);
		}
		n = backward && n < whole ? 0 : n;
		if (n && !f(offset, n))
			return {.status = status::hardware};
		if (!n && !(blocks && await_page(q, *bad, bad->at + offset)))
			return {.status = blocks ? status::page_fault_blocked : status::page_fault,
				.result = backward,
				.operand = bad->number,
				.write = bad->right == vfio::dma_write,
				.bytes = u32(done),
				.address = bad->at + offset};
		memory_.reader().pass();
	}
	return {};
}

static bool overlaps(u64 dst, u64 src, u64 len)
{
	return dst - src < len || src - dst < len;
}

dsa_model::outcome dsa_model::move(dsa_queue &q, const dsa::work &w)
{
	const range ops[] = {{w.src, vfio::dma_read, number_src}, {w.dst, vfio::dma_write, number_dst}};
	const bool overlap = overlaps(w.dst, w.src, w.size);
	u8 *const buf = buffer_[0].get();

	return over(q, w, ops, overlap && w.dst > w.src, [&](u64 at, u64 n) {
		bool at_source;

		if (!overlap)
			return memory_.copy(w.dst + at, w.src + at, n, &at_source);
		return memory_.read(w.src + at, buf, n) && memory_.write(w.dst + at, buf, n);
	});
}

/* Byte i of the destination is byte i modulo 8 of the pattern. */
dsa_model::outcome dsa_model::fill(dsa_queue &q, const dsa::work &w)
{
	const range ops[] = {{w.dst, vfio::dma_write, number_dst}};
	u8 *const buf = buffer_[0].get();
	const u64 block = std::min<u64>(piece_size, align_up(u64(w.size) + 8, u64(8)));

	for (u64 i = 0; i < block; i += 8)
		memcpy(buf + i, &w.src, 8);
	return over(q, w, ops, false, [&](u64 at, u64 n) {
		/* A fault may have stopped within the pattern. */
		const u64 first = std::min(n, block - at % 8);

		return memory_.write(w.dst + at, buf + at % 8, first) &&
		       (first == n || memory_.write(w.dst + at + first, buf, n - first));
	});
}

/* Compare, and compare with a pattern (8.3.6, 8.3.7). */
dsa_model::outcome dsa_model::compare(dsa_queue &q, const dsa::work &w)
{
	const bool pattern = operation(w.flags_operation >> 24) == operation::compare_pattern;
	const range ops[] = {{w.src, vfio::dma_read, number_src}, {w.dst, vfio::dma_read, number_src2}};
	u8 *const a = buffer_[0].get(), *const b = buffer_[1].get();
	u64 different = ~u64(0);
	u8 bytes[8];

	memcpy(bytes, &w.dst, sizeof(bytes));
	outcome o = over(q, w, std::span(ops).first(pattern ? 1 : 2), false, [&](u64 at, u64 n) {
		if (!memory_.read(w.src + at, a, n) || (!pattern && !memory_.read(w.dst + at, b, n)))
			return false;
		for (u64 i = 0; i < n && different == ~u64(0); i++)
			if (a[i] != (pattern ? bytes[(at + i) % 8] : b[i]))
				different = at + i;
		return different == ~u64(0);
	});
	if (different == ~u64(0) && o.status != status::success)
		return o;
	o = {.result = different != ~u64(0), .bytes = different != ~u64(0) ? u32(different) : 0};
	if (w.flags_operation & dsa::flag_check && o.result != (w.more[0] & 1))
		o.status = status::false_predicate;
	return o;
}

dsa_model::outcome dsa_model::dualcast(dsa_queue &q, const dsa::work &w)
{
	const range ops[] = {{w.src, vfio::dma_read, number_src},
			     {w.dst, vfio::dma_write, number_dst},
			     {w.more[0], vfio::dma_write, number_dst2}};

	return over(q, w, ops, false, [&](u64 at, u64 n) {
		bool at_source;

		return memory_.copy(w.dst + at, w.src + at, n, &at_source) &&
		       memory_.copy(w.more[0] + at, w.src + at, n, &at_source);
	});
}

/* ---- CRC-32C (8.3.12, appendix A) ----------------------------------------------------------------------------- */

static constexpr auto make_crc_table()
{
	std::array<u32, 256> table = {};

	for (u32 i = 0; i < table.size(); i++) {
		table[i] = i;
		for (unsigned bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? dsa::crc_polynomial : 0);
	}
	return table;
}
static constexpr auto crc_table = make_crc_table();

static u32 reversed(u32 value, unsigned bits)
{
	u32 out = 0;

	for (unsigned i = 0; i < bits; i++)
		out |= (value >> i & 1) << (bits - 1 - i);
	return out;
}

/* Also copies. */
dsa_model::outcome dsa_model::crc(dsa_queue &q, const dsa::work &w)
{
	const bool copies = operation(w.flags_operation >> 24) == operation::copy_crc;
	const bool raw = w.flags_operation & dsa::flag_crc_raw, msb = w.flags_operation & dsa::flag_crc_data_msb;
	const range ops[] = {{w.src, vfio::dma_read, number_src}, {w.dst, vfio::dma_write, number_dst}};
	u8 *const buf = buffer_[0].get();
	u32 value = u32(w.more[0]);

	if (w.flags_operation & dsa::flag_crc_seed_memory && !memory_.read(w.more[1], &value, sizeof(value)))
		return {.status = status::page_fault, .operand = number_src2, .address = w.more[1]};
	value = raw ? reversed(value, 32) : ~value;
	outcome o = over(q, w, std::span(ops).first(copies ? 2 : 1), false, [&](u64 at, u64 n) {
		if (!memory_.read(w.src + at, buf, n))
			return false;
		for (u64 i = 0; i < n; i++)
			value = value >> 8 ^ crc_table[(value ^ (msb ? reversed(buf[i], 8) : buf[i])) & 0xff];
		return !copies || memory_.write(w.dst + at, buf, n);
	});
	if (o.status == status::success || o.is_fault())
		o.detail = raw ? reversed(value, 32) : ~value;
	return o;
}

/* Checked. */
dsa_model::outcome dsa_model::execute(dsa_queue &q, dsa::work w)
{
	const auto op = operation(w.flags_operation >> 24);

	if ((op == operation::move || op == operation::fill) && w.size > 1 && wrong_ && wrong_->wrong(mistake::length))
		w.size--;
	switch (op) {
	case operation::move:
		return move(q, w);
	case operation::fill:
		return fill(q, w);
	case operation::compare:
	case operation::compare_pattern:
		return compare(q, w);
	case operation::dualcast:
		return dualcast(q, w);
	case operation::crc:
	case operation::copy_crc:
		return crc(q, w);
	default:
		return {}; /* no-op; a drain has those before it completed already */
	}
}

} // namespace usdma::sim
