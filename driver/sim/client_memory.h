/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's memory as the engine accesses it: mapped here, or by messages to the client. */
#pragma once

#include "driver/copy/copy.h"
#include "driver/sim/dma_space.h"
#include "driver/sim/remote.h"

#include <memory>

namespace usdma::sim {

/* Used by the engine's thread, in a pass. Each access translates the address again, so nothing is cached. */
class client_memory {
public:
	client_memory(dma_space &space, const copy_tuning &tuning)
		: space_(space), tuning_(tuning), reader_(space.needs_fences())
	{
	}

	/* Before the thread runs: its wake-up eventfd, and a flag that aborts waits. */
	int ready(int wake_fd, const u32 *quit);
	/* Any thread: whether memory may be accessed at all (bus mastering). Not within a pass that has begun. */
	void allow(bool on) { store_release(&allowed_, u32(on)); }
	/* The server's thread, once passes in which it was allowed have ended: an access that was not sent is
	 * cancelled. */
	void cancel_unsent();
	bool is_allowed() const { return load_acquire(&allowed_); }
	void connect(remote_port *port) { port_ = port; }
	dma_reader &reader() { return reader_; }

	/*
	 * False: not allowed, not mapped, without the right, dead, or the client did not answer. Eight aligned bytes
	 * are one access.
	 */
	bool read(u64 iova, void *buf, u64 len);
	bool write(u64 iova, const void *buf, u64 len);
	/* The first bytes of the range that may be accessed so. */
	u64 reach(u64 iova, u64 len, u32 right) const;
	/* *at_source: reading failed, not writing. */
	bool copy(u64 dst, u64 src, u64 len, bool *at_source);

private:
	struct piece {
		u8 *host; /* nullptr: by messages */
		u64 len;
		const file_piece *file;
	};
	bool translate(u64 iova, u64 len, u32 right, piece *out) const;
	bool copy_piece(const piece &to, const piece &from, u64 n, bool *at_source);
	bool remote(bool write, u64 iova, void *buf, u64 len);
	bool verify_read(u64 iova, const u8 *got, u64 len);
	s32 wait_reply(u64 until);

	dma_space &space_;
	const copy_tuning &tuning_;
	dma_reader reader_;
	remote_port *port_ = nullptr;
	remote_access access_;
	std::unique_ptr<u8[]> bounce_;
	int wake_fd_ = -1;
	const u32 *quit_ = nullptr;
	u32 allowed_ = 0; /* atomic */
};

} // namespace usdma::sim
