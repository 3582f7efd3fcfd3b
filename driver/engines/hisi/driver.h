/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/dma/registry.h"

namespace usdma::hisi {

extern const dma::driver driver;

} // namespace usdma::hisi
