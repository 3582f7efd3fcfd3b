/* SPDX-License-Identifier: BSD-3-Clause */
/* What libusdma has of the reference engine. Its driver is in libusdma-sim, as all such devices are software. */
#include "driver/dma/registry.h"
#include "driver/hw/sdma_regs.h"

namespace usdma::sdma {

static constexpr dma::pci_id ids[] = {
#include "driver/engines/sdma/ids.inc"
};

static constexpr dma::named_register registers[] = {
	{"ID", vfio::region_bar0, 4, reg_id},           {"VERSION", vfio::region_bar0, 4, reg_version},
	{"CAPS", vfio::region_bar0, 8, reg_caps},       {"CHANNELS", vfio::region_bar0, 4, reg_channels},
	{"ENGINES", vfio::region_bar0, 4, reg_engines}, {"MAX_LEN", vfio::region_bar0, 8, reg_max_len},
	{"STATUS", vfio::region_bar0, 4, reg_status},   {"VECTORS", vfio::region_bar0, 4, reg_vectors},
};

extern const dma::driver driver = {"sdma", ids, dma::probe_software<&dma::software_parts::sdma>, registers};

} // namespace usdma::sdma
