/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/dma/registry.h"

namespace usdma::sim {

/* For the table of transports. */
extern const dma::transport sim_transport;

} // namespace usdma::sim
