/* SPDX-License-Identifier: BSD-3-Clause */
/* Address translation and data movement. */
#include "driver/base/barrier.h"
#include "driver/base/clock.h"
#include "driver/base/huge_pages.h"
#include "driver/sim/models/sdma/engine.h"
#include "driver/vfio/device.h"

#include <algorithm>
#include <poll.h>

namespace usdma::sim {

using dma::fault_reason;
using dma::space;

/* Timeout of a reply from the client. */
static constexpr u64 remote_ms = 3000;
/* At most half of a page of 2 MiB may stay unused. */
static constexpr u64 collapse_from = page_huge / 2;
static constexpr u64 coarse_pause_ns = 200 * ns_per_us;

engine::result engine::fault(fault_reason reason, u64 address)
{
	fault_reason_ = reason;
	fault_address_ = address;
	return result::fault;
}

static bool is_source(u32 right)
{
	return right == vfio::dma_read;
}

/* Looks up the area of the address and checks its rights; on failure sets the fault. */
bool engine::find_mapped(const end &e, window *w)
{
	if (!m_.space.find(e.addr, w)) {
		fault(is_source(e.right) ? fault_reason::src_unmapped : fault_reason::dst_unmapped, e.addr);
		return false;
	}
	if ((w->prot & e.right) != e.right) {
		fault(is_source(e.right) ? fault_reason::src_denied : fault_reason::dst_denied, e.addr);
		return false;
	}
	if (is_dead(w->piece)) {
		fault(fault_reason::transfer, e.addr);
		return false;
	}
	return true;
}

/* Checks all of [addr, addr + len) before a byte is accessed. */
bool engine::check_mapping(const end &e, u64 len)
{
	const fault_reason unmapped = is_source(e.right) ? fault_reason::src_unmapped : fault_reason::dst_unmapped;
	end at = e;

	if (e.space == space::device) {
		const u64 off = e.addr - mem_base_;

		if (range_within(off, len, m_.mem_size))
			return true;
		/* The first byte beyond the memory. */
		fault(unmapped, off < m_.mem_size ? mem_base_ + m_.mem_size : e.addr);
		return false;
	}
	if (len > ~u64(0) - e.addr) {
		fault(unmapped, e.addr);
		return false;
	}
	while (len) {
		window w;

		if (!find_mapped(at, &w))
			return false;
		const u64 here = w.size - (at.addr - w.base), n = here < len ? here : len;

		at.addr += n;
		len -= n;
	}
	return true;
}

/*
 * Before the first long copy in each 2 MiB of device memory: in pages of 4 KiB copies are slower by TLB misses, and the
 * first by a fault for each.
 */
static void collapse_once(const machine &m, u64 off)
{
	const u64 i = off / page_huge, bit = u64(1) << (i % 64);
	u64 *const word = &m.collapsed[i / 64];

	if (likely(load_relaxed(word) & bit) || fetch_or_acq_rel(word, bit) & bit)
		return;
	collapse_pages(m.mem + i * page_huge, std::min(page_huge, m.mem_size - i * page_huge));
}

/* Translates the next bytes; out has the length of the contiguous piece. */
bool engine::translate(const end &e, u64 left, piece *out)
{
	if (e.space == space::device) {
		if (!check_mapping(e, left))
			return false;
		if (unlikely(left >= collapse_from) && m_.collapsed)
			collapse_once(m_, e.addr - mem_base_);
		*out = {m_.mem + (e.addr - mem_base_), left};
		return true;
	}
	window &w = *e.cached;
	if (e.addr - w.base >= w.size || is_dead(w.piece)) {
		note_death(w);
		if (!find_mapped(e, &w)) {
			w = window();
			return false;
		}
	}
	const u64 off = e.addr - w.base, here = w.size - off;

	*out = {w.host ? w.host + off : nullptr, here < left ? here : left};
	return true;
}

/* Looks up the cached window of a host end; leaves errors to the slow path. */
void engine::fill_window(const end &e)
{
	window &w = *e.cached;

	if (e.space == space::host && e.addr - w.base >= w.size &&
	    (!m_.space.find(e.addr, &w) || (w.prot & e.right) != e.right || is_dead(w.piece)))
		w = window();
}

/* Both ranges have been checked; translate() detects what was unmapped since. */
engine::result engine::move(hw_channel &ch, end dst, end src, u64 len, cache_hint hint)
{
	const u64 total = len;
	copy_fn copy = nullptr;

	while (len) {
		piece s, t;

		if (!translate(src, len, &s) || !translate(dst, len, &t))
			return result::fault;
		u64 n = s.len < t.len ? s.len : t.len;
		n = n < slice ? n : slice;
		if (likely(s.host && t.host)) {
			if (!copy)
				copy = copy_pick(m_.tuning, total, s.host, n, hint);
			copy(t.host, s.host, n);
		} else {
			n = n < bounce_size ? n : bounce_size;
			const result r = move_remote(ch, dst, t, src, s, n);
			if (r != result::done)
				return r;
		}
		src.addr += n;
		dst.addr += n;
		len -= n;
		moved_ += n;
		if (len && !checkpoint(ch))
			return result::stopped;
	}
	return result::done;
}

/* Moves one piece, at most a bounce buffer long, of which messages access one end or both. */
engine::result engine::move_remote(hw_channel &ch, const end &dst, const piece &t, const end &src, const piece &s,
				   u64 len)
{
	u8 *buf = bounce(0);
	piece now;
	result r;

	if (!buf)
		return fault(fault_reason::transfer, src.addr);
	if (s.host) {
		memcpy(buf, s.host, len);
	} else {
		r = remote(ch, false, src.addr, buf, len);
		if (r != result::done)
			return r;
	}
	if (!t.host)
		return remote(ch, true, dst.addr, buf, len);
	/* Time has passed since dst was looked up. */
	if (!translate(dst, len, &now))
		return result::fault;
	if (!now.host || now.len < len)
		return fault(fault_reason::dst_unmapped, dst.addr);
	memcpy(now.host, buf, len);
	return result::done;
}

u8 *engine::bounce(unsigned which)
{
	if (!bounce_)
		bounce_.reset(new (std::nothrow) u8[2 * bounce_size]);
	return bounce_ ? bounce_.get() + which * bounce_size : nullptr;
}

/*
 * Waits for the client's reply to remote_: 0 or -errno; -ETIMEDOUT: none. Outside a pass, so that areas can be
 * unmapped and commands executed meanwhile; what these abort ends when the client has replied. whole: a stop does
 * not abort the access.
 */
s32 engine::wait_reply(hw_channel &ch, u64 until, bool whole)
{
	access_channel_ = &ch;
	for (u64 now = now_ns(); load_acquire(&remote_.result) == 1 && now < until && !thread_.quits();
	     now = now_ns()) {
		const u64 left = until - now;

		reader_.leave();
		wait_wake(left < 50 * ns_per_ms ? left : 50 * ns_per_ms);
		reader_.enter();
		if ((!checkpoint(ch) || (ch.stop_due && !whole)) && m_.remote->take_back(&remote_))
			break;
	}
	access_channel_ = nullptr;
	m_.remote->end(&remote_);
	if (ch.state == sdma::chan_state_stopping)
		wind_up(ch);
	const s32 said = load_acquire(&remote_.result);
	return said == 1 ? -ETIMEDOUT : said;
}

/* whole: a stop takes effect after all of it. */
engine::result engine::remote(hw_channel &ch, bool write, u64 addr, void *buf, u64 len, bool whole)
{
	const u64 until = now_ns() + remote_ms * ns_per_ms;
	u32 done = 0;

	while (m_.remote && done < len) {
		const u64 left = len - done;

		remote_ = {write, addr + done, static_cast<u8 *>(buf) + done, 0, wake_.get(), 1};
		remote_.len = left < m_.remote->max_len() ? u32(left) : m_.remote->max_len();
		const s32 err = m_.remote->begin(&remote_) ? -ENODEV : wait_reply(ch, until, whole);
		if (ch.stop_due && ch.state == sdma::chan_state_running && !whole) {
			halt(ch, fault_reason::stopped, 0, 0);
			return result::stopped;
		}
		if (ch.state != sdma::chan_state_running || thread_.quits())
			return result::stopped;
		if (err)
			return fault(fault_reason::transfer, addr + done);
		done += remote_.len;
	}
	if (done != len)
		return fault(fault_reason::transfer, addr);
	return write ? result::done : verify_read(ch, addr, static_cast<const u8 *>(buf), len);
}

/*
 * A client with 32-bit counts may send its data shifted by four bytes (server::reply_data). Reads the first
 * nonzero byte again alone: such a client would send it as zero.
 */
engine::result engine::verify_read(hw_channel &ch, u64 addr, const u8 *got, u64 len)
{
	const remote_port *const port = m_.remote;
	u8 again = 0;
	u64 at = 0;

	if (!port || port->counts_valid())
		return result::done;
	while (at < len && !got[at])
		at++;
	if (at == len)
		return result::done;
	const result r = remote(ch, false, addr + at, &again, 1);
	return r == result::done && !port->counts_valid() ? fault(fault_reason::transfer, addr) : r;
}

/* Waits until at_ns; false: the channel no longer runs. */
bool engine::pause_until(hw_channel &ch, u64 at_ns)
{
	for (u64 now = now_ns(); now < at_ns; now = now_ns()) {
		const u64 left = at_ns - now;

		if (left > coarse_pause_ns) {
			reader_.leave();
			wait_wake(left - coarse_pause_ns / 2 < ns_per_ms ? left - coarse_pause_ns / 2 : ns_per_ms);
			reader_.enter();
		} else {
			cpu_relax();
		}
		if (!checkpoint(ch))
			return false;
	}
	return true;
}

} // namespace usdma::sim
