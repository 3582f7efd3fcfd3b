/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/dma/registry.h"
#include "driver/sim/config.h"
#include "driver/sim/faults.h"

namespace usdma::sim {

/* For the table of transports. */
extern const dma::transport sim_transport;

/* embedded_open() with settings; wrong (nullptr: no faults) must outlive the device. */
int embedded_open_config(const config &cfg, faults *wrong, std::string_view name, std::unique_ptr<vfio::device> *out,
			 const dma::open_options &opt = {});

} // namespace usdma::sim
