/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/dma/host_memory.h"

#include "driver/base/barrier.h"
#include "driver/base/page_guard.h"

#include <algorithm>
#include <cstring>

namespace usdma::dma {

static fault_reason unmapped(u32 right)
{
	return right == vfio::dma_read ? fault_reason::src_unmapped : fault_reason::dst_unmapped;
}

static fault_reason denied(u32 right)
{
	return right == vfio::dma_read ? fault_reason::src_denied : fault_reason::dst_denied;
}

fault_reason area_list::translate(u64 addr, u64 len, u32 right, piece *out) const
{
	auto it = areas_.upper_bound(addr);

	if (it == areas_.begin())
		return unmapped(right);
	const vfio::dma_area &a = (--it)->second;
	const u64 offset = addr - a.iova;
	if (offset >= a.size)
		return unmapped(right);
	if ((a.prot & right) != right)
		return denied(right);
	*out = {static_cast<u8 *>(a.vaddr) + offset, std::min(len, a.size - offset)};
	return fault_reason::none;
}

fault_reason area_list::check(u64 addr, u64 len, u32 right, u64 *at) const
{
	piece p;

	*at = addr;
	if (len > ~u64(0) - addr)
		return unmapped(right);
	for (; len; *at += p.len, len -= p.len)
		if (const fault_reason why = translate(*at, len, right, &p); why != fault_reason::none)
			return why;
	return fault_reason::none;
}

/* An aligned word is accessed atomically, as others may write it concurrently; nullptr: not an aligned word. */
static u64 *as_word(const area_list::piece &p, u64 addr, u64 len)
{
	return len == sizeof(u64) && p.len == len && addr % len == 0 ? reinterpret_cast<u64 *>(p.host) : nullptr;
}

/* False: the memory is no longer accessible. */
static bool load_piece(const area_list::piece &p, const u64 *at, u8 *to)
{
	const void *bad;

	return page_guarded(
		{p.host, p.len}, {},
		[&] {
			const u64 word = at ? load_acquire(at) : 0;

			memcpy(to, at ? reinterpret_cast<const u8 *>(&word) : p.host, p.len);
		},
		&bad);
}

/* Release: a waiter on this word, on the host or in another channel, sees the data copied before. */
static bool store_piece(const area_list::piece &p, u64 *at, const u8 *from)
{
	const void *bad;

	return page_guarded(
		{p.host, p.len}, {},
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

fault_reason area_list::get(u64 addr, void *buf, u64 len, u32 right, u64 *at) const
{
	fault_reason why = check(addr, len, right, at);
	piece p;

	for (auto *to = static_cast<u8 *>(buf); len && why == fault_reason::none;
	     to += p.len, addr += p.len, len -= p.len) {
		*at = addr;
		why = translate(addr, len, right, &p);
		if (why == fault_reason::none && !load_piece(p, as_word(p, addr, len), to))
			why = fault_reason::transfer;
	}
	return why;
}

fault_reason area_list::put(u64 addr, const void *buf, u64 len, u32 right, u64 *at) const
{
	fault_reason why = check(addr, len, right, at);
	piece p;

	for (auto *from = static_cast<const u8 *>(buf); len && why == fault_reason::none;
	     from += p.len, addr += p.len, len -= p.len) {
		*at = addr;
		why = translate(addr, len, right, &p);
		if (why == fault_reason::none && !store_piece(p, as_word(p, addr, len), from))
			why = fault_reason::transfer;
	}
	return why;
}

/* ---- the backend ----------------------------------------------------------------------------------- */

/* A step is short enough for an unmap, or a stop, to wait for it. */
static constexpr u64 step_bytes = 256 * KiB;
static constexpr u32 step_rows = 64;
static constexpr softop::bounds host_bounds = {4 * GiB, step_bytes, step_rows, 16 * KiB};
static_assert(u32(softop::may_read) == vfio::dma_read && u32(softop::may_write) == vfio::dma_write);

host_backend::host_backend(host_memory &memory, const softop::bounds *limits)
	: backend(limits ? *limits : host_bounds), memory_(memory)
{
	static_assert(buffer_bytes == host_bounds.buffer);
}

softop::result host_backend::fail(fault_reason reason, u64 address)
{
	if (reason == fault_reason::none)
		return result::done;
	reason_ = reason;
	address_ = address;
	return result::fault;
}

bool host_backend::check(const end &e, u64 len)
{
	std::lock_guard guard(memory_.lock);
	u64 at = e.addr;

	if (memory_.closed)
		return fail(fault_reason::lost, at) == result::done;
	if (e.space == space::device)
		return fail(unmapped(e.rights), at) == result::done;
	const fault_reason why = memory_.areas.check(e.addr, len, e.rights, &at);
	return fail(why, at) == result::done;
}

/* Never accessible outside of the lock: it may be unmapped at any time. */
bool host_backend::translate(const end &, u64 len, softop::piece *out)
{
	*out = {nullptr, std::min(len, limits().buffer)};
	return true;
}

softop::result host_backend::get_piece(const end &src, void *buf, u64 len)
{
	std::lock_guard guard(memory_.lock);
	u64 at = src.addr;
	const fault_reason why = memory_.closed ? fault_reason::lost :
						  memory_.areas.get(src.addr, buf, len, src.rights, &at);

	return fail(why, at);
}

softop::result host_backend::put_piece(const end &dst, const void *buf, u64 len, bool)
{
	std::lock_guard guard(memory_.lock);
	u64 at = dst.addr;
	const fault_reason why = memory_.closed ? fault_reason::lost :
						  memory_.areas.put(dst.addr, buf, len, dst.rights, &at);

	return fail(why, at);
}

/* At most a step. Checked again for each: the memory may have been unmapped meanwhile. */
fault_reason host_backend::move_piece(const end &dst, const end &src, u64 len, u64 *done, u64 *at)
{
	std::lock_guard guard(memory_.lock);
	area_list::piece from, to;
	const void *bad = nullptr;

	*at = src.addr;
	if (memory_.closed)
		return fault_reason::lost;
	if (const fault_reason why = memory_.areas.translate(src.addr, len, src.rights, &from);
	    why != fault_reason::none)
		return why;
	if (const fault_reason why = memory_.areas.translate(dst.addr, len, dst.rights, &to);
	    why != fault_reason::none) {
		*at = dst.addr;
		return why;
	}
	const u64 n = *done = std::min({from.len, to.len, step_bytes});
	if (page_guarded(
		    {to.host, n}, {from.host, n}, [&] { memmove(to.host, from.host, n); }, &bad))
		return fault_reason::none;
	const u64 into = u64(static_cast<const u8 *>(bad) - from.host);
	*at = into < n ? src.addr + into : dst.addr;
	return fault_reason::transfer;
}

softop::result host_backend::move(end dst, end src, u64 len, cache_hint)
{
	for (u64 n = 0, at; len; len -= n, src.addr += n, dst.addr += n) {
		if (const fault_reason why = move_piece(dst, src, len, &n, &at); why != fault_reason::none)
			return fail(why, at);
		if (!step(n, len == n) && len > n)
			return result::stopped;
	}
	return result::done;
}

} // namespace usdma::dma
