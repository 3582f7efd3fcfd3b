/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's I/OAT driver on our model (dpdk_preload.h). */
#include "tests/foreign/dpdk_preload.h"

namespace usdma::preload {

static reg reg_of(unsigned, u64 at)
{
	static constexpr reg wide[] = {{0x04, 4}, {0x0c, 2}, {0x0e, 2}, {0x10, 4}, {0x80, 2}, {0x86, 2},
				       {0x88, 8}, {0x90, 8}, {0x98, 8}, {0xa8, 4}, {0xac, 4}};

	for (const reg &w : wide)
		if (at - w.at < w.size)
			return w;
	return {at, 1};
}

const target the_target = {"dmadev_ioat", "sim:model=ioat", {{vfio::region_bar0, 4096}, {}}, reg_of};

} // namespace usdma::preload
