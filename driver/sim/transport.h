/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/dma/registry.h"

namespace usdma::sim {

extern const dma::transport client_transport; /* vfio-user:PATH */

} // namespace usdma::sim

/*
 * The transports of software devices, in this process and in others. What libusdma looks up in libusdma-sim
 * (lib/native/libraries.cpp).
 */
extern "C" [[gnu::visibility("default")]] const usdma::dma::software_transports *usdma_simulator();
