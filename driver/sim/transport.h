/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/dma/registry.h"

namespace usdma::sim {

extern const dma::transport client_transport; /* vfio-user:PATH */

} // namespace usdma::sim

/* Drivers: driver/engines. */
namespace usdma::sdma {
int probe(std::unique_ptr<vfio::device> &dev, std::unique_ptr<dma::engine> *out);
}
namespace usdma::edu {
int probe(std::unique_ptr<vfio::device> &dev, std::unique_ptr<dma::engine> *out);
}

/* What libusdma looks up in libusdma-sim (lib/native/libraries.cpp). */
extern "C" [[gnu::visibility("default")]] const usdma::dma::software_parts *usdma_simulator();
