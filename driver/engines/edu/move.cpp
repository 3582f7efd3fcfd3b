/* SPDX-License-Identifier: BSD-3-Clause */
/* Address checks and copies: one transfer, or one CPU copy, per acquisition of the lock. */
#include "driver/base/barrier.h"
#include "driver/engines/edu/exec.h"

#include <algorithm>
#include <cstring>

namespace usdma::edu {

using dma::fault_reason;
using dma::space;

static bool is_source(u32 rights)
{
	return rights == dma::softop::may_read;
}

outcome executor::check_locked(const end &e, u64 len)
{
	const u64 base = load_relaxed(&s_.memory_base);
	outcome o;

	if (e.space == space::host) {
		o.reason = s_.areas.check(e.addr, len, e.rights, &o.address);
		return o;
	}
	if (range_within(e.addr - base, len, memory_given))
		return {};
	/* The first byte out of range. */
	return {is_source(e.rights) ? fault_reason::src_unmapped : fault_reason::dst_unmapped,
		e.addr - base < memory_given ? base + memory_given : e.addr};
}

static outcome moved(int err, u64 address)
{
	if (!err)
		return {};
	return {err == -ENODEV ? fault_reason::lost : fault_reason::transfer, address};
}

/* Device memory → mapped host memory. */
outcome executor::pull(u64 addr, u64 iova, u64 len)
{
	return moved(s_.dma.to_host(offset(addr), iova, len), addr);
}

/* Mapped host memory → device memory. */
outcome executor::push(u64 iova, u64 addr, u64 len)
{
	return moved(s_.dma.to_device(iova, offset(addr), len), addr);
}

/* Both endpoints are host memory: copy through an unused part of device memory. */
outcome executor::pass_through(const end &dst, const end &src, u64 len, u64 *done)
{
	const u64 at = load_relaxed(&s_.memory_unused) ? 0 : memory_given;
	const u64 n = *done = std::min(len, memory_usable - at);

	if (outcome o = moved(s_.dma.to_device(src.addr, at, n), src.addr); !o)
		return o;
	return moved(s_.dma.to_host(at, dst.addr, n), dst.addr);
}

/* At most one transfer. */
outcome executor::transfer(const end &dst, const end &src, u64 len, u64 *done)
{
	const u64 n = *done = std::min(len, memory_usable);
	std::lock_guard guard(s_.lock);

	/* Checked again for each step: the memory may have been unmapped meanwhile. */
	if (outcome o = check_locked(src, n); !o)
		return o;
	if (outcome o = check_locked(dst, n); !o)
		return o;
	if (src.space == space::host && dst.space == space::host)
		return pass_through(dst, src, n, done);
	if (src.space == space::host)
		return push(src.addr, dst.addr, n);
	if (dst.space == space::host)
		return pull(src.addr, dst.addr, n);
	if (outcome o = pull(src.addr, s_.page_iova, n); !o)
		return o;
	return push(s_.page_iova, dst.addr, n);
}

/* Copy from and to a buffer of the driver; at most memory_usable bytes. */
outcome executor::get(end src, void *buf, u64 len)
{
	std::lock_guard guard(s_.lock);

	if (outcome o = check_locked(src, len); !o)
		return o;
	if (src.space == space::device) {
		outcome o = pull(src.addr, s_.page_iova, len);

		if (o)
			memcpy(buf, s_.page, len);
		return o;
	}
	outcome o;
	o.reason = s_.areas.get(src.addr, buf, len, src.rights, &o.address);
	return o;
}

outcome executor::put(end dst, const void *buf, u64 len)
{
	std::lock_guard guard(s_.lock);

	if (outcome o = check_locked(dst, len); !o)
		return o;
	if (dst.space == space::device) {
		memcpy(s_.page, buf, len);
		return push(s_.page_iova, dst.addr, len);
	}
	outcome o;
	o.reason = s_.areas.put(dst.addr, buf, len, dst.rights, &o.address);
	return o;
}

} // namespace usdma::edu
