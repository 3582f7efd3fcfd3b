/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The host memory mapped for a device, for drivers that access it by the CPU as well: to check addresses before a
 * device that does not, to name the address of a fault that the device reports without one, and to run the operations
 * that the hardware lacks.
 */
#pragma once

#include "driver/base/grow.h"
#include "driver/base/mapping.h"
#include "driver/dma/fair_lock.h"
#include "driver/dma/softop.h"
#include "driver/vfio/device.h"

#include <map>
#include <mutex>
#include <vector>

#pragma GCC visibility push(default) /* for libusdma-sim, too */
namespace usdma::dma {

/* Not thread-safe: the driver's lock protects it, also while memory is accessed, so that an unmap waits. */
class area_list {
public:
	/* False: out of memory. */
	[[nodiscard]] bool add(const vfio::dma_area &area) { return try_emplace(areas_, area.iova, area) != nullptr; }
	void remove(u64 iova) { areas_.erase(iova); }
	void clear() { areas_.clear(); }
	/* Takes an area out, and puts it back. */
	using node = std::map<u64, vfio::dma_area>::node_type;
	node take(u64 iova) { return areas_.extract(iova); }
	void put_back(node n) { areas_.insert(std::move(n)); }

	struct piece {
		u8 *host;
		u64 len;
	};
	/* The bytes at addr within one area, at most len. right: dma_read for a source, otherwise a destination. */
	fault_reason translate(u64 addr, u64 len, u32 right, piece *out) const;
	/* Checks all of [addr, addr + len); on a fault *at is the first bad address. */
	fault_reason check(u64 addr, u64 len, u32 right, u64 *at) const;
	/*
	 * Copies from and to checked memory; an aligned word in one access, released or acquired. transfer: the
	 * program has truncated or unmapped the memory at *at.
	 */
	fault_reason get(u64 addr, void *buf, u64 len, u32 right, u64 *at) const;
	fault_reason put(u64 addr, const void *buf, u64 len, u32 right, u64 *at) const;

private:
	std::map<u64, vfio::dma_area> areas_;
};

/* The mapped memory of an engine that has none of its own, and its lock. */
struct host_memory {
	fair_lock lock; /* protects what follows; held during each access */
	area_list areas;
	std::vector<mapping> stuck; /* rings that a device that did not obey may still access */
	bool closed = false;        /* the device was disabled: no more access */
	u64 next_own = 0;           /* see own_memory_map() */
};

/* softop's access to it. A driver adds step(), wait_until() and pause(). */
class host_backend : public softop::backend {
public:
	fault_reason reason() const { return reason_; }
	u64 address() const { return address_; }

protected:
	explicit host_backend(host_memory &memory, const softop::bounds *limits = nullptr);
	~host_backend() = default;

	using result = softop::result;
	using end = softop::end;

	result fail(fault_reason reason, u64 address) override;
	bool check(const end &e, u64 len) override;
	bool translate(const end &e, u64 len, softop::piece *out) override;
	result get_piece(const end &src, void *buf, u64 len) override;
	result put_piece(const end &dst, const void *buf, u64 len, bool whole) override;
	u8 *buffer(unsigned which) override { return buffers_[which]; }
	result move(end dst, end src, u64 len, cache_hint hint) override;

	host_memory &memory_;

private:
	fault_reason move_piece(const end &dst, const end &src, u64 len, u64 *done, u64 *at);

	static constexpr u64 buffer_bytes = 16 * KiB;
	fault_reason reason_ = fault_reason::none;
	u64 address_ = 0;
	alignas(8) u8 buffers_[2][buffer_bytes];
};

} // namespace usdma::dma
#pragma GCC visibility pop
