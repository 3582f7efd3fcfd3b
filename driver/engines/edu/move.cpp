/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses, and bytes from here to there: one transfer, or one piece by the CPU, under the lock at a time. */
#include "driver/base/barrier.h"
#include "driver/base/page_guard.h"
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
	const u64 base = s_.memory_base.load(std::memory_order_relaxed);
	outcome o;

	if (e.space == space::host) {
		o.reason = s_.areas.check(e.addr, len, e.rights, &o.address);
		return o;
	}
	if (range_within(e.addr - base, len, memory_given))
		return {};
	/* The first byte that is not there. */
	return {is_source(e.rights) ? fault_reason::src_unmapped : fault_reason::dst_unmapped,
		e.addr - base < memory_given ? base + memory_given : e.addr};
}

static outcome moved(int rc, u64 address)
{
	if (!rc)
		return {};
	return {rc == -ENODEV ? fault_reason::lost : fault_reason::transfer, address};
}

/* Device memory → mapped host memory. */
outcome executor::pull(u64 addr, u64 iova, u64 len)
{
	return moved(s_.unit.to_host(offset(addr), iova, len), addr);
}

/* Mapped host memory → device memory. */
outcome executor::push(u64 iova, u64 addr, u64 len)
{
	return moved(s_.unit.to_device(iova, offset(addr), len), addr);
}

/* Neither end is the device's memory: in and out again, through the part of it that is unused. */
outcome executor::pass_through(const end &dst, const end &src, u64 len, u64 *done)
{
	const u64 at = s_.memory_unused.load(std::memory_order_relaxed) ? 0 : memory_given;
	const u64 n = *done = std::min(len, memory_usable - at);

	if (outcome o = moved(s_.unit.to_device(src.addr, at, n), src.addr); !o)
		return o;
	return moved(s_.unit.to_host(at, dst.addr, n), dst.addr);
}

/* As much as goes in one transfer. */
outcome executor::transfer(const end &dst, const end &src, u64 len, u64 *done)
{
	const u64 n = *done = std::min(len, memory_usable);
	std::lock_guard guard(s_.lock);

	/* Again, for this step: what the request named may have been unmapped meanwhile. */
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

/* An aligned word is one access, and others may write it meanwhile; nullptr: it is none. */
static u64 *as_word(const area_list::piece &p, u64 addr, u64 len)
{
	return len == sizeof(u64) && p.len == len && addr % len == 0 ? reinterpret_cast<u64 *>(p.host) : nullptr;
}

/* False: the memory is gone. */
static bool load_piece(const area_list::piece &p, const u64 *at, u8 *to)
{
	const void *bad;

	return page_guarded(
		[&] {
			const u64 word = at ? load_acquire(at) : 0;

			memcpy(to, at ? reinterpret_cast<const u8 *>(&word) : p.host, p.len);
		},
		&bad);
}

/* Release: who waits for this word, on the host or in another channel, sees what was copied before. */
static bool store_piece(const area_list::piece &p, u64 *at, const u8 *from)
{
	const void *bad;

	return page_guarded(
		[&] {
			u64 word;

			if (!at) {
				memcpy(p.host, from, p.len);
				return;
			}
			memcpy(&word, from, sizeof(word));
			store_release(at, word);
		},
		&bad);
}

/* Out of and into the driver's own hands; at most memory_usable bytes. */
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
	area_list::piece p;
	for (auto *to = static_cast<u8 *>(buf); len; to += p.len, src.addr += p.len, len -= p.len) {
		s_.areas.locate(src.addr, len, src.rights, &p);
		if (!load_piece(p, as_word(p, src.addr, len), to))
			return {fault_reason::transfer, src.addr};
	}
	return {};
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
	area_list::piece p;
	for (auto *from = static_cast<const u8 *>(buf); len; from += p.len, dst.addr += p.len, len -= p.len) {
		s_.areas.locate(dst.addr, len, dst.rights, &p);
		if (!store_piece(p, as_word(p, dst.addr, len), from))
			return {fault_reason::transfer, dst.addr};
	}
	return {};
}

} // namespace usdma::edu
