/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's DSA driver (idxd) on our model (dpdk_preload.h). */
#include "tests/foreign/dpdk_preload.h"

#include "driver/hw/dsa_regs.h"

namespace usdma::preload {

/* Capabilities and groups are of 64 bits, the others and the queues of 32; a portal takes a descriptor. */
static u32 width(unsigned region, u64 at)
{
	if (region == vfio::region_bar2)
		return at % sizeof(dsa::work) ? 4 : sizeof(dsa::work);
	const bool wide = at < dsa::off_gencfg || (at >= dsa::off_swerror && at < 0x800);

	return wide && at % 8 == 0 ? 8 : at % 4 == 0 ? 4 : 1;
}

const target the_target = {"dmadev_idxd",
			   "sim:model=dsa",
			   {{vfio::region_bar0, 64 * KiB}, {vfio::region_bar2, 8 * dsa::portals_step}},
			   width,
			   true};

} // namespace usdma::preload
