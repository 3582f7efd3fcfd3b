/* SPDX-License-Identifier: BSD-3-Clause */
/* The transports, for driver/engines/table.cpp. */
#pragma once

#include "driver/dma/registry.h"

namespace usdma::dma {

extern const transport sim_transport;       /* sim[:…] */
extern const transport pci_transport;       /* DDDD:BB:DD.F */
extern const transport vfio_user_transport; /* vfio-user:PATH */

} // namespace usdma::dma
