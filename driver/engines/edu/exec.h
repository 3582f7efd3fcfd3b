/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What requests are run with.  The device itself only moves bytes between its
 * memory and mapped host memory: all copies are made of that.  The rest is
 * driver/dma/softop's, by the CPU in host memory, and through a page that device
 * and driver share in the device's.
 */
#pragma once

#include "driver/dma/softop.h"
#include "driver/engines/edu/areas.h"
#include "driver/engines/edu/fair_lock.h"
#include "driver/engines/edu/dma_unit.h"

#include <atomic>
#include <memory>

namespace usdma::edu {

/* What all channels of a device share. */
struct shared_state {
	explicit shared_state(vfio::device &dev) : unit(dev) {}

	/* Held for one transfer at a time, so that an unmap waits for the transfer that may use the area. */
	fair_lock lock;
	area_list areas;
	dma_unit unit;
	u8 *page = nullptr; /* memory_bytes of it; under the lock */
	u64 page_iova = 0;
	std::atomic<u64> memory_base{0};
	/* Nobody has asked for the device's memory (set_memory_base): all of it may serve as passage. */
	std::atomic<bool> memory_unused{true};
};

struct outcome {
	dma::fault_reason reason = dma::fault_reason::none;
	u64 address = 0;

	explicit operator bool() const { return reason == dma::fault_reason::none; }
};

/* What a long request asks and tells meanwhile. */
class progress {
public:
	/* False: leave off, the channel is to stop. made: bytes have moved since the last call. */
	virtual bool go_on(bool made) = 0;
	/* Sleeps until the deadline or until the channel is to stop. */
	virtual void pause(deadline until) = 0;

protected:
	~progress() = default;
};

class executor final : dma::softop::backend {
public:
	executor(shared_state &state, progress &p);

	/* fault_reason::stopped: left off in the middle; may be run again from its start. */
	outcome run(const dma::request &r);

private:
	using result = dma::softop::result;
	using end = dma::softop::end;

	result fail(dma::fault_reason reason, u64 address) override { return report({reason, address}); }
	bool check(const end &e, u64 len) override;
	bool locate(const end &e, u64 len, dma::softop::piece *out) override;
	result get_piece(const end &src, void *buf, u64 len) override;
	result put_piece(const end &dst, const void *buf, u64 len, bool whole) override;
	u8 *buffer(unsigned which) override { return buffers_[which]; }
	result move(end dst, end src, u64 len, cache_hint hint) override;
	bool step(u64, bool) override { return progress_.go_on(true); }
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
	u64 offset(u64 addr) const { return addr - s_.memory_base.load(std::memory_order_relaxed); }

	shared_state &s_;
	progress &progress_;
	outcome last_;    /* what fail() was given */
	u64 look_ns_ = 0; /* until a wait's next look */
	alignas(8) u8 buffers_[2][memory_usable] = {};
};

} // namespace usdma::edu
