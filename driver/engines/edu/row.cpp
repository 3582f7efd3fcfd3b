/* SPDX-License-Identifier: BSD-3-Clause */
/* What libusdma has of QEMU's edu. Its driver is in libusdma-sim. */
#include "driver/dma/registry.h"
#include "driver/engines/edu/edu_hw.h"

namespace usdma::edu {

static constexpr dma::pci_id ids[] = {
#include "driver/engines/edu/ids.inc"
};

static constexpr dma::named_register registers[] = {
	{"identification", vfio::region_bar0, 4, reg_id},
	{"interrupt status", vfio::region_bar0, 4, reg_irq_status},
	{"DMA command", vfio::region_bar0, 8, reg_dma_cmd},
};

extern const dma::driver driver = {"edu", ids, dma::probe_software<&dma::software_parts::edu>, registers};

} // namespace usdma::edu
