/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Areas mapped for the device. It does not report access to an unmapped address (its transfer completes
 * normally), so the driver checks first.
 */
#pragma once

#include "driver/base/grow.h"
#include "driver/dma/request.h"
#include "driver/vfio/device.h"

#include <map>

namespace usdma::edu {

/* Not thread-safe: the engine's lock protects it. */
class area_list {
public:
	/* False: out of memory. */
	[[nodiscard]] bool add(const vfio::dma_area &area) { return try_emplace(areas_, area.iova, area) != nullptr; }
	void remove(u64 iova) { areas_.erase(iova); }
	void clear() { areas_.clear(); }

	struct piece {
		u8 *host;
		u64 len;
	};
	/* The bytes at addr within one area, at most len. right: dma_read for a source, otherwise a destination. */
	dma::fault_reason translate(u64 addr, u64 len, u32 right, piece *out) const;
	/* Checks all of [addr, addr + len); on a fault *at is the first bad address. */
	dma::fault_reason check(u64 addr, u64 len, u32 right, u64 *at) const;

private:
	std::map<u64, vfio::dma_area> areas_;
};

} // namespace usdma::edu
