/* SPDX-License-Identifier: BSD-3-Clause */
/* The software device inside this process: server and engines on threads of their own, joined by a socketpair. */
#pragma once

#include "driver/dma/registry.h"

#include <string_view>

namespace usdma::sim {

/*
 * spec: "sim[:key=value]…" (driver/sim/config.h lists the keys).  Starts the
 * model and returns the client's end, a vfio-user device with backend "sim".
 * Closing the device joins the threads and frees the device's memory.
 */
int embedded_open(std::string_view spec, const dma::open_options &opt, std::unique_ptr<vfio::device> *out);

} // namespace usdma::sim
