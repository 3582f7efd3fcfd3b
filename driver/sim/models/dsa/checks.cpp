/* SPDX-License-Identifier: BSD-3-Clause */
/* What a descriptor must be (5.4, 5.5): flags, reserved fields, sizes, addresses. Read by the engine's thread. */
#include "driver/sim/models/dsa/dsa_model.h"

#include <cstring>

namespace usdma::sim {

using dsa::operation;
using dsa::status;

/* Tables 5-3 and 5-5, and the flags of each operation. */
struct op_rule {
	operation op;
	u32 allowed; /* beside those of all operations */
	u32 required;
	u64 reserved; /* bytes, a bit each */
	bool has_size;
};

/* Bits first to last. */
static constexpr u64 byte_range(u32 first, u32 last)
{
	return (~u64(0) >> (63 - (last - first))) << first;
}

static constexpr u32 all_ops_flags = dsa::flag_fence | dsa::flag_record | dsa::flag_record_always |
				     dsa::flag_interrupt | dsa::flag_tc_record;
static constexpr u32 writes_flags = dsa::flag_block_on_fault | dsa::flag_cache1 | dsa::flag_cache2 | dsa::flag_strict |
				    dsa::flag_tc2;
static constexpr u32 reads_flags = dsa::flag_block_on_fault | dsa::flag_tc1;
static constexpr u32 crc_flags = dsa::flag_crc_seed_memory | dsa::flag_crc_raw | dsa::flag_crc_data_msb;
static constexpr u32 result_flags = dsa::flag_record | dsa::flag_record_always;

static constexpr op_rule op_rules[] = {
	{operation::noop, 0, 0, byte_range(16, 35) | byte_range(38, 63), false},
	{operation::batch, dsa::flag_tc1, 0, byte_range(24, 31) | byte_range(38, 63), false},
	{operation::drain, dsa::flag_drain_tc, 0, byte_range(16, 35) | byte_range(38, 63), false},
	{operation::move, reads_flags | writes_flags, 0, byte_range(38, 63), true},
	{operation::fill, writes_flags, 0, byte_range(38, 63), true},
	{operation::compare, reads_flags | dsa::flag_tc2 | dsa::flag_check, result_flags,
	 byte_range(38, 39) | byte_range(41, 63), true},
	{operation::compare_pattern, reads_flags | dsa::flag_check, result_flags,
	 byte_range(38, 39) | byte_range(41, 63), true},
	{operation::dualcast, reads_flags | writes_flags | dsa::flag_tc3, 0, byte_range(38, 39) | byte_range(48, 63),
	 true},
	{operation::crc, reads_flags | crc_flags, result_flags,
	 byte_range(24, 31) | byte_range(38, 39) | byte_range(44, 63), true},
	{operation::copy_crc, reads_flags | writes_flags | crc_flags, result_flags,
	 byte_range(38, 39) | byte_range(44, 63), true},
};

static const op_rule *rule_of(const dsa::work &w)
{
	for (const op_rule &r : op_rules)
		if (u32(r.op) == w.flags_operation >> 24)
			return &r;
	return nullptr;
}

/* A seed in memory takes the field of its address instead of the seed's; the third selector is the address's. */
static op_rule with_seed(op_rule r, u32 flags)
{
	if (flags & dsa::flag_crc_seed_memory && r.allowed & dsa::flag_crc_seed_memory) {
		r.reserved = (r.reserved & ~byte_range(48, 55)) | byte_range(40, 47);
		r.allowed |= dsa::flag_tc3;
	}
	return r;
}

static bool has_reserved(const dsa::work &w, u64 reserved)
{
	u8 bytes[sizeof(w)];

	memcpy(bytes, &w, sizeof(w));
	for (u32 i = 0; i < sizeof(w); i++)
		if (reserved >> i & 1 && bytes[i])
			return true;
	return false;
}

static bool overlap(u64 a, u64 b, u64 len)
{
	return a - b < len || b - a < len;
}

static u32 invalid_flags(const dsa_queue &q, const op_rule &r, u32 flags)
{
	u32 bad = flags & ~(r.allowed | all_ops_flags);

	if (!q.in_batch)
		bad |= flags & dsa::flag_fence;
	if (!(q.cfg[dsa::wq_word_mode] & dsa::wq_block_on_fault))
		bad |= flags & dsa::flag_block_on_fault;
	if (!(flags & dsa::flag_record))
		bad |= flags & (dsa::flag_record_always | dsa::flag_tc_record);
	if (r.op == operation::drain && !(flags & (dsa::flag_record_always | dsa::flag_interrupt)))
		bad |= dsa::flag_record_always;
	return bad | (r.required & ~flags);
}

bool dsa_model::vector_of(u16 handle, u32 *vector) const
{
	*vector = is_v2() ? handle - handle_base : handle;
	return *vector < irqs_.count() && (!is_v2() || handles_ >> *vector & 1);
}

dsa_model::outcome dsa_model::check_handle(const dsa_queue &q, const dsa::work &w)
{
	const bool pasid = q.cfg[dsa::wq_word_mode] & dsa::wq_pasid_enable;
	std::lock_guard guard(lock_);
	u32 vector;

	if (!vector_of(w.handle, &vector) || bool(permissions_[vector] & dsa::perm_pasid) != pasid)
		return {.status = status::handle, .detail = w.handle};
	return {};
}

/* The address of the record, which then takes whatever else is wrong. */
dsa_model::outcome dsa_model::check_record(const dsa::work &w)
{
	if (!(w.flags_operation & dsa::flag_record))
		return {};
	if (w.record % sizeof(dsa::completion))
		return {.status = status::record_alignment};
	const u64 got = memory_.reach(w.record, sizeof(dsa::completion), vfio::dma_write);
	if (got < sizeof(dsa::completion))
		return {.status = status::record_fault, .write = true, .address = w.record + got};
	return {};
}

/* What depends on the operation. */
static status check_operands(const dsa_queue &q, const dsa::work &w, operation op, u32 flags)
{
	switch (op) {
	case operation::batch:
		if (w.size < 2 || w.size > q.max_batch())
			return status::count;
		return w.src % sizeof(w) ? status::list_alignment : status::success;
	case operation::dualcast:
		if ((w.dst ^ w.more[0]) & 0xfff)
			return status::dualcast;
		return overlap(w.src, w.dst, w.size) || overlap(w.src, w.more[0], w.size) ||
				       overlap(w.dst, w.more[0], w.size) ?
			       status::overlap :
			       status::success;
	case operation::copy_crc:
		if (overlap(w.src, w.dst, w.size))
			return status::overlap;
		[[fallthrough]];
	case operation::crc:
		return flags & dsa::flag_crc_seed_memory && w.more[1] % 4 ? status::alignment : status::success;
	default:
		return status::success;
	}
}

dsa_model::outcome dsa_model::check(const dsa_queue &q, const dsa::work &w)
{
	const u32 flags = w.flags_operation & 0xffffff, code = w.flags_operation >> 24;
	const op_rule *found = rule_of(w);
	const bool in_wq = !is_v2() || (code < 32 && q.cfg[dsa::wq_word_opcfg] >> code & 1);

	if (!found || !in_wq || (q.in_batch && (found->op == operation::batch || found->op == operation::drain)))
		return {.status = status::operation};
	const op_rule r = with_seed(*found, flags);
	if (const u32 bad = invalid_flags(q, r, flags))
		return {.status = status::flags, .detail = bad};
	if (has_reserved(w, r.reserved) || (!(flags & dsa::flag_interrupt) && w.handle) ||
	    (!(flags & dsa::flag_record) && w.record))
		return {.status = status::reserved};
	if (r.has_size && (!w.size || w.size > q.max_xfer()))
		return {.status = status::size};
	if (const status s = check_operands(q, w, r.op, flags); s != status::success)
		return {.status = s};
	return flags & dsa::flag_interrupt ? check_handle(q, w) : outcome{};
}

} // namespace usdma::sim
