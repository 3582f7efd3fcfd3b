/* SPDX-License-Identifier: BSD-3-Clause */
/* Which engines and transports there are: a new one is a line here. */
#include "driver/dma/registry.h"

namespace usdma::dma {

const std::span<const driver *const> drivers;
const std::span<const transport *const> transports;

} // namespace usdma::dma
