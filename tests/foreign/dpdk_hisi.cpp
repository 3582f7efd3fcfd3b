/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's HiSilicon driver on our model (dpdk_preload.h). */
#include "tests/foreign/dpdk_preload.h"

#include "driver/hw/hisi_regs.h"

namespace usdma::preload {

static reg reg_of(unsigned, u64 at)
{
	return {align_down<u64>(at, 4), 4};
}

const target the_target = {"dma_hisilicon", "sim:model=hisi", {{vfio::region_bar2, hisi::bar2_size}, {}}, reg_of};

} // namespace usdma::preload

/* The driver reads the revision. */
extern "C" __attribute__((visibility("default"))) int rte_pci_read_config(const void *, void *buf, size_t len,
									  off_t offset)
{
	using namespace usdma;

	return preload::model->region_read(vfio::region_config, u64(offset), buf, len) ? -1 : int(len);
}
