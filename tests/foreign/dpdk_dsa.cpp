/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's DSA driver (idxd) on our model (dpdk_preload.h). */
#include "tests/foreign/dpdk_preload.h"

#include "driver/hw/dsa_regs.h"

namespace usdma::preload {

/* Capability and group registers have 64 bits, the others and those of queues 32. */
static reg reg_of(unsigned region, u64 at)
{
	const bool wide = region == vfio::region_bar0 &&
			  (at < dsa::off_gencfg || (at >= dsa::off_swerror && at < 0x800));
	const u32 size = wide ? 8 : 4;

	return {align_down<u64>(at, size), size};
}

const target the_target = {"dmadev_idxd",
			   "sim:model=dsa",
			   {{vfio::region_bar0, 64 * KiB}, {vfio::region_bar2, 8 * dsa::portals_step}},
			   reg_of};

} // namespace usdma::preload
