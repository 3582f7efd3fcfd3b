/* SPDX-License-Identifier: BSD-3-Clause */
/* softop's access to memory: one transfer, or one CPU copy, per acquisition of the lock. */
#include "driver/base/barrier.h"
#include "driver/engines/edu/edu.h"

#include <algorithm>
#include <cstring>

namespace usdma::edu {

using dma::fault_reason;
using dma::space;

namespace softop = dma::softop;

static_assert(u32(softop::may_read) == vfio::dma_read && u32(softop::may_write) == vfio::dma_write);
static_assert(memory_usable % 8 == 0);

/* A transfer takes 100 ms: check for a stop after each. */
static constexpr softop::bounds device_bounds = {max_length, memory_usable, 1, memory_usable};

class executor final : public dma::soft_backend {
public:
	executor(dma::ring_channel &c, shared_state &s) : soft_backend(c, &device_bounds), s_(s) {}

private:
	bool check(const end &e, u64 len) override;
	result get_piece(const end &src, void *buf, u64 len) override;
	result put_piece(const end &dst, const void *buf, u64 len, bool whole) override;
	result move(end dst, end src, u64 len, cache_hint hint) override;

	result check_locked(const end &e, u64 len);
	result transfer(const end &dst, const end &src, u64 len, u64 *done);
	result pass_through(const end &dst, const end &src, u64 len, u64 *done);
	result moved(int err, u64 address);
	result pull(u64 addr, u64 iova, u64 len);
	result push(u64 iova, u64 addr, u64 len);
	u64 offset(u64 addr) const { return addr - load_relaxed(&s_.memory_base); }

	shared_state &s_;
};

softop::result executor::check_locked(const end &e, u64 len)
{
	const u64 base = load_relaxed(&s_.memory_base);
	u64 at = e.addr;

	if (memory_.closed)
		return fail(fault_reason::lost, at);
	if (e.space == space::host) {
		const fault_reason why = memory_.areas.check(e.addr, len, e.rights, &at);

		return fail(why, at);
	}
	if (range_within(e.addr - base, len, memory_given))
		return result::done;
	/* The first byte out of range. */
	return fail(e.rights == softop::may_read ? fault_reason::src_unmapped : fault_reason::dst_unmapped,
		    e.addr - base < memory_given ? base + memory_given : e.addr);
}

bool executor::check(const end &e, u64 len)
{
	std::lock_guard guard(memory_.lock);

	return check_locked(e, len) == result::done;
}

softop::result executor::moved(int err, u64 address)
{
	return fail(!err ? fault_reason::none : err == -ENODEV ? fault_reason::lost : fault_reason::transfer, address);
}

/* Device memory → mapped host memory. */
softop::result executor::pull(u64 addr, u64 iova, u64 len)
{
	return moved(s_.dma.to_host(offset(addr), iova, len), addr);
}

/* Mapped host memory → device memory. */
softop::result executor::push(u64 iova, u64 addr, u64 len)
{
	return moved(s_.dma.to_device(iova, offset(addr), len), addr);
}

/* Both endpoints are host memory: copy through an unused part of device memory. */
softop::result executor::pass_through(const end &dst, const end &src, u64 len, u64 *done)
{
	const u64 at = load_relaxed(&s_.memory_unused) ? 0 : memory_given;
	const u64 n = *done = std::min(len, memory_usable - at);
	const result in = moved(s_.dma.to_device(src.addr, at, n), src.addr);

	return in != result::done ? in : moved(s_.dma.to_host(at, dst.addr, n), dst.addr);
}

/* At most one transfer. Checked again for each: the memory may have been unmapped meanwhile. */
softop::result executor::transfer(const end &dst, const end &src, u64 len, u64 *done)
{
	const u64 n = *done = std::min(len, memory_usable);
	std::lock_guard guard(memory_.lock);

	if (check_locked(src, n) != result::done || check_locked(dst, n) != result::done)
		return result::fault;
	if (src.space == space::host && dst.space == space::host)
		return pass_through(dst, src, n, done);
	if (src.space == space::host)
		return push(src.addr, dst.addr, n);
	if (dst.space == space::host)
		return pull(src.addr, dst.addr, n);
	const result in = pull(src.addr, s_.page_iova, n);
	return in != result::done ? in : push(s_.page_iova, dst.addr, n);
}

softop::result executor::move(end dst, end src, u64 len, cache_hint)
{
	for (u64 n; len; len -= n, src.addr += n, dst.addr += n) {
		if (const result got = transfer(dst, src, len, &n); got != result::done)
			return got;
		if (!step(n, len == n) && len > n)
			return result::stopped;
	}
	return result::done;
}

/* Copy from and to a buffer of the driver; at most memory_usable bytes. */
softop::result executor::get_piece(const end &src, void *buf, u64 len)
{
	if (src.space == space::host)
		return host_backend::get_piece(src, buf, len);
	std::lock_guard guard(memory_.lock);
	if (check_locked(src, len) != result::done)
		return result::fault;
	const result got = pull(src.addr, s_.page_iova, len);
	if (got == result::done)
		memcpy(buf, s_.page, len);
	return got;
}

softop::result executor::put_piece(const end &dst, const void *buf, u64 len, bool whole)
{
	if (dst.space == space::host)
		return host_backend::put_piece(dst, buf, len, whole);
	std::lock_guard guard(memory_.lock);
	if (check_locked(dst, len) != result::done)
		return result::fault;
	memcpy(s_.page, buf, len);
	return push(s_.page_iova, dst.addr, len);
}

softop::result edu_channel::execute(const dma::request &r, fault_reason *why, u64 *at)
{
	executor e(*this, owner_.state());
	const softop::result got = softop::run(e, r);

	*why = e.reason();
	*at = e.address();
	return got;
}

} // namespace usdma::edu
