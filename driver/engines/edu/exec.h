/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes requests. The device only transfers between its memory and mapped host memory, and all copies
 * consist of such transfers. driver/dma/softop implements the other operations, by CPU in host memory, and
 * through a bounce page in device memory.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/dma/host_memory.h"
#include "driver/engines/edu/fair_lock.h"
#include "driver/engines/edu/edu_dma.h"

#include <memory>

namespace usdma::edu {

/* State shared by all channels of a device. */
struct shared_state {
	explicit shared_state(vfio::device &dev) : dma(dev) {}

	/* Held during one transfer, so that an unmap waits for a transfer that may use the area. */
	fair_lock lock;
	dma::area_list areas;
	edu_dma dma;
	u8 *page = nullptr; /* bounce page of memory_bytes; protected by lock */
	u64 page_iova = 0;
	u64 memory_base = 0; /* atomic, as the next */
	/* Device memory is not in use (set_memory_base): all of it may serve as bounce buffer. */
	bool memory_unused = true;
};

struct outcome {
	dma::fault_reason reason = dma::fault_reason::none;
	u64 address = 0;

	explicit operator bool() const { return reason == dma::fault_reason::none; }
};

/* Callbacks of a long request. */
class progress {
public:
	/* False: abort, the channel is stopping. made: bytes were copied since the last call. */
	virtual bool should_continue(bool made) = 0;
	/* Sleeps until the deadline or until the channel is stopping. */
	virtual void pause(deadline until) = 0;

protected:
	~progress() = default;
};

class executor final : dma::softop::backend {
public:
	executor(shared_state &state, progress &p);

	/* fault_reason::stopped: aborted in the middle; may be run again from its start. */
	outcome run(const dma::request &r);

private:
	using result = dma::softop::result;
	using end = dma::softop::end;

	result fail(dma::fault_reason reason, u64 address) override { return report({reason, address}); }
	bool check(const end &e, u64 len) override;
	bool translate(const end &e, u64 len, dma::softop::piece *out) override;
	result get_piece(const end &src, void *buf, u64 len) override;
	result put_piece(const end &dst, const void *buf, u64 len, bool whole) override;
	u8 *buffer(unsigned which) override { return buffers_[which]; }
	result move(end dst, end src, u64 len, cache_hint hint) override;
	bool step(u64, bool) override { return progress_.should_continue(true); }
	u64 wait_until(u32 limit_ms) override;
	result pause(u64 until_ns) override;

	result report(const outcome &o);
	outcome check_locked(const end &e, u64 len);
	outcome transfer(const end &dst, const end &src, u64 len, u64 *done);
	outcome pass_through(const end &dst, const end &src, u64 len, u64 *done);
	outcome get(end src, void *buf, u64 len);
	outcome put(end dst, const void *buf, u64 len);
	outcome pull(u64 addr, u64 iova, u64 len);
	outcome push(u64 iova, u64 addr, u64 len);
	u64 offset(u64 addr) const { return addr - load_relaxed(&s_.memory_base); }

	shared_state &s_;
	progress &progress_;
	outcome last_;    /* arguments of fail() */
	u64 poll_ns_ = 0; /* a wait's poll interval */
	alignas(8) u8 buffers_[2][memory_usable] = {};
};

} // namespace usdma::edu
