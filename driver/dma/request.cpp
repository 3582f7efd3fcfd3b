/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/request.h"

#include <cerrno>
#include <iterator>

namespace usdma::dma {

struct reason_row {
	const char *name;
	int err;
};

/* Indexed by fault_reason. */
static constexpr reason_row reasons[] = {
	{"none", 0},
	{"bad operation", EINVAL},
	{"bad length", EINVAL},
	{"source not mapped", EFAULT},
	{"destination not mapped", EFAULT},
	{"source not readable", EFAULT},
	{"destination not writable", EFAULT},
	{"unaligned address", EINVAL},
	{"wait timed out", ETIME}, /* ETIMEDOUT is of calls that wait: not yet */
	{"damaged descriptor", EIO},
	{"transfer failed", EIO},
	{"stopped", ECANCELED},
	{"injected fault", EIO},
	{"device lost", ENODEV},
	{"ended by a reset", EIO},
};
static_assert(std::size(reasons) == size_t(fault_reason::count));

/* The device may report any number. */
const char *fault_name(fault_reason reason)
{
	return reason < fault_reason::count ? reasons[size_t(reason)].name : "unknown fault";
}

int fault_errno(fault_reason reason)
{
	return reason < fault_reason::count ? reasons[size_t(reason)].err : EIO;
}

/* ---- what a request accesses ------------------------------------------------------------------------- */

static bool meets(space in, u64 at, u64 len, const iova_range &where)
{
	if (in != space::host || !len)
		return false;
	return at + len < at || (at < where.first + where.size && where.first < at + len);
}

/* Rows of len bytes. ~0: more than there are addresses. */
static u64 extent(const request &r, u64 pitch)
{
	u64 size;

	if (!r.height || __builtin_mul_overflow(u64(r.height - 1), pitch, &size) ||
	    __builtin_add_overflow(size, r.len, &size))
		return r.height ? ~u64(0) : 0;
	return size;
}

static bool operands_meet(const request &r, u64 src_len, u64 dst_len, const iova_range &where)
{
	return meets(src_space(r.spaces), r.src, src_len, where) || meets(dst_space(r.spaces), r.dst, dst_len, where);
}

static bool indirect_accesses(const request &r, const iova_range &where)
{
	const bool cells = r.arg & u8(indirect_mode::cells);

	return r.arg & indirect_host ||
	       operands_meet(r, cells ? sizeof(u64) : sizeof(indirect_block), cells ? sizeof(u64) : 0, where);
}

bool may_access(const request &r, const iova_range &where)
{
	switch (r.op) {
	case opcode::nop:
		return false;
	case opcode::copy:
	case opcode::reduce:
		return operands_meet(r, r.len, r.len, where);
	case opcode::copy_2d:
		return operands_meet(r, extent(r, r.a), extent(r, r.b), where);
	case opcode::fill:
		return operands_meet(r, 0, r.len, where);
	case opcode::copy_indirect:
		return indirect_accesses(r, where);
	case opcode::write:
	case opcode::timestamp:
		return operands_meet(r, 0, sizeof(u64), where);
	case opcode::wait:
		return operands_meet(r, sizeof(u64), 0, where);
	default:
		return true;
	}
}

} // namespace usdma::dma
