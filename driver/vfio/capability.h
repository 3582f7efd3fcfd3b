/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/vfio/device.h"

namespace usdma::vfio {

/* The offset of a capability (PCI 3.0 §6.7); 0: the function has none. */
int config_capability(device &dev, u8 id, unsigned *out);

} // namespace usdma::vfio
