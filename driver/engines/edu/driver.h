/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/dma/registry.h"

namespace usdma::edu {

extern const dma::driver driver;

} // namespace usdma::edu
