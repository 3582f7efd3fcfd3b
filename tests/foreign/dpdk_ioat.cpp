/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's I/OAT driver on our model (dpdk_preload.h). */
#include "tests/foreign/dpdk_preload.h"

namespace usdma::preload {

static u32 width(unsigned, u64 reg)
{
	static constexpr struct {
		u32 at, size;
	} wide[] = {{0x04, 4}, {0x0c, 2}, {0x0e, 2}, {0x10, 4}, {0x80, 2}, {0x86, 2},
		    {0x88, 8}, {0x90, 8}, {0x98, 8}, {0xa8, 4}, {0xac, 4}};

	for (const auto &w : wide)
		if (w.at == reg)
			return w.size;
	return 1;
}

const target the_target = {"dmadev_ioat", "sim:model=ioat", {{vfio::region_bar0, 4096}, {}}, width, false};

} // namespace usdma::preload
