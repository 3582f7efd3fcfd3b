/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/client_memory.h"

#include "driver/base/await_fds.h"
#include "driver/base/clock.h"
#include "driver/base/error.h"
#include "driver/base/page_guard.h"
#include "driver/sim/signal_fd.h"
#include "driver/vfio/device.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <poll.h>

namespace usdma::sim {

static constexpr u64 bounce_size = 64 * KiB;
/* Bytes between two passes: an unmap waits for the end of a pass. */
static constexpr u64 slice = 256 * KiB;
/* Timeout of a reply from the client. */
static constexpr u64 remote_ms = 3000;
static constexpr int reply_poll_ms = 50;

int client_memory::ready(int wake_fd, const u32 *quit)
{
	wake_fd_ = wake_fd;
	quit_ = quit;
	bounce_.reset(new (std::nothrow) u8[bounce_size]);
	return bounce_ ? space_.add_reader(&reader_) : fail(ENOMEM, "sim: no memory for an engine");
}

bool client_memory::translate(u64 iova, u64 len, u32 right, piece *out) const
{
	window w;

	if (!is_allowed() || !space_.find(iova, &w) || (w.prot & right) != right || is_dead(w.piece))
		return false;
	const u64 off = iova - w.base;
	*out = {w.host ? w.host + off : nullptr, std::min(len, w.size - off), w.piece};
	return true;
}

u64 client_memory::reach(u64 iova, u64 len, u32 right) const
{
	u64 done = 0;
	piece p;

	for (; done < len && translate(iova + done, len - done, right, &p); done += p.len)
		;
	return done;
}

/* An aligned word is accessed as one: the client may poll it. */
static bool is_word(const u8 *at, u64 len)
{
	return len == sizeof(u64) && reinterpret_cast<uintptr_t>(at) % sizeof(u64) == 0;
}

/* False: the memory was truncated, unmapped or protected meanwhile. */
static bool load(const u8 *from, void *buf, u64 len)
{
	const void *bad;

	return page_guarded(
		{from, len}, {},
		[&] {
			const u64 word = is_word(from, len) ? load_acquire(reinterpret_cast<const u64 *>(from)) : 0;

			memcpy(buf, is_word(from, len) ? reinterpret_cast<const u8 *>(&word) : from, len);
		},
		&bad);
}

/* Release: what was written before is visible to a reader of the word. */
static bool store(u8 *to, const void *buf, u64 len)
{
	const void *bad;

	return page_guarded(
		{to, len}, {},
		[&] {
			u64 word;

			if (!is_word(to, len)) {
				memcpy(to, buf, len);
				return;
			}
			memcpy(&word, buf, sizeof(word));
			store_release(reinterpret_cast<u64 *>(to), word);
		},
		&bad);
}

bool client_memory::read(u64 iova, void *buf, u64 len)
{
	piece p;

	for (auto *to = static_cast<u8 *>(buf); len; to += p.len, iova += p.len, len -= p.len) {
		if (!translate(iova, len, vfio::dma_read, &p))
			return false;
		if (p.host ? !load(p.host, to, p.len) || is_dead(p.file) : !remote(false, iova, to, p.len))
			return false;
	}
	return true;
}

bool client_memory::write(u64 iova, const void *buf, u64 len)
{
	piece p;

	for (auto *from = static_cast<const u8 *>(buf); len; from += p.len, iova += p.len, len -= p.len) {
		if (!translate(iova, len, vfio::dma_write, &p))
			return false;
		if (p.host ? !store(p.host, from, p.len) || is_dead(p.file) :
			     !remote(true, iova, const_cast<u8 *>(from), p.len))
			return false;
	}
	return true;
}

bool client_memory::copy_piece(const piece &to, const piece &from, u64 n, bool *at_source)
{
	const void *bad;

	if (is_word(to.host, n) && is_word(from.host, n)) {
		u64 word;

		*at_source = !load(from.host, &word, n);
		return !*at_source && store(to.host, &word, n) && !is_dead(to.file);
	}
	if (page_guarded(
		    {to.host, n}, {from.host, n}, [&] { copy_bytes(tuning_, to.host, from.host, n); }, &bad)) {
		*at_source = is_dead(from.file);
		return !*at_source && !is_dead(to.file);
	}
	*at_source = range_within(u64(static_cast<const u8 *>(bad) - from.host), 1, n);
	return false;
}

bool client_memory::copy(u64 dst, u64 src, u64 len, bool *at_source)
{
	for (u64 n; len; dst += n, src += n, len -= n) {
		piece from, to;

		*at_source = !translate(src, len, vfio::dma_read, &from);
		if (*at_source || !translate(dst, len, vfio::dma_write, &to))
			return false;
		n = std::min({from.len, to.len, slice});
		if (from.host && to.host) {
			if (!copy_piece(to, from, n, at_source))
				return false;
		} else {
			n = std::min(n, bounce_size);
			*at_source = !read(src, bounce_.get(), n);
			if (*at_source || !write(dst, bounce_.get(), n))
				return false;
		}
		reader_.pass();
	}
	return true;
}

/* ---- by messages ----------------------------------------------------------------------------------- */

/* 0; -errno; -ETIMEDOUT: no reply. Outside of a pass, so that areas can be unmapped meanwhile. */
s32 client_memory::wait_reply(u64 until)
{
	for (u64 now = now_ns(); load_acquire(&access_.result) == 1 && now < until && !load_acquire(quit_);
	     now = now_ns()) {
		pollfd p = {wake_fd_, POLLIN, 0};

		reader_.leave();
		if (await_fds(&p, 1, reply_poll_ms) == 1)
			eventfd_take(wake_fd_);
		reader_.enter();
	}
	port_->end(&access_);
	const s32 said = load_acquire(&access_.result);
	return said == 1 ? -ETIMEDOUT : said;
}

bool client_memory::remote(bool write, u64 iova, void *buf, u64 len)
{
	const u64 until = now_ns() + remote_ms * ns_per_ms;
	u32 done = 0;

	/* In the pass in which it begins: see cancel_unsent(). */
	for (; port_ && done < len && is_allowed(); done += access_.len) {
		access_ = {write, iova + done, static_cast<u8 *>(buf) + done, 0, wake_fd_, 1};
		access_.len = u32(std::min<u64>(len - done, port_->max_len()));
		if (port_->begin(&access_) || wait_reply(until))
			return false;
	}
	return done == len && (write || verify_read(iova, static_cast<const u8 *>(buf), len));
}

/* No other thread changes access_ now, as no access begins; the engine's thread may be waiting for its result. */
void client_memory::cancel_unsent()
{
	if (!port_ || !port_->take_back(&access_))
		return;
	store_release(&access_.result, -ECANCELED);
	eventfd_add(wake_fd_);
}

/*
 * A client with 32-bit counts may send its data shifted by four bytes (server::reply_data). Reads the first nonzero
 * byte again alone: such a client would send it as zero.
 */
bool client_memory::verify_read(u64 iova, const u8 *got, u64 len)
{
	u8 again = 0;
	u64 at = 0;

	if (port_->counts_valid())
		return true;
	while (at < len && !got[at])
		at++;
	return at == len || (remote(false, iova + at, &again, 1) && port_->counts_valid());
}

} // namespace usdma::sim
