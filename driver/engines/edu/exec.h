/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What requests do.  The device itself only moves bytes between its memory and
 * mapped host memory: all copies are made of that.  What computes or looks at
 * values is done here, by the CPU in host memory, and through a page that device
 * and driver share in the device's.
 * The rules for arguments and faults are docs/hardware.md's.
 */
#pragma once

#include "driver/engines/edu/areas.h"
#include "driver/engines/edu/fair_lock.h"
#include "driver/engines/edu/unit.h"

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

class executor {
public:
	executor(shared_state &state, progress &p) : s_(state), progress_(p) {}

	/* fault_reason::stopped: left off in the middle; may be run again from its start. */
	outcome run(const dma::request &r);

private:
	struct end {
		dma::space space;
		u64 addr;
		u32 right; /* vfio::dma_read: a source */
	};
	static end source(dma::space sp, u64 addr) { return {sp, addr, vfio::dma_read}; }
	static end target(dma::space sp, u64 addr) { return {sp, addr, vfio::dma_write}; }

	outcome copy(const dma::request &r);
	outcome copy_2d(const dma::request &r);
	outcome fill(const dma::request &r);
	outcome indirect(const dma::request &r);
	outcome write(const dma::request &r, u64 value);
	outcome wait(const dma::request &r);
	outcome reduce(const dma::request &r);

	outcome check(const end &e, u64 len);
	outcome check_locked(const end &e, u64 len);
	outcome move(end dst, end src, u64 len);
	outcome step(const end &dst, const end &src, u64 len, u64 *done);
	outcome pass_through(const end &dst, const end &src, u64 len, u64 *done);
	outcome get(end src, void *buf, u64 len);
	outcome put(end dst, const void *buf, u64 len);
	outcome get_word(const end &src, u64 *out);
	outcome pull(u64 addr, u64 iova, u64 len);
	outcome push(u64 iova, u64 addr, u64 len);
	u64 offset(u64 addr) const { return addr - s_.memory_base.load(std::memory_order_relaxed); }

	shared_state &s_;
	progress &progress_;
};

} // namespace usdma::edu
