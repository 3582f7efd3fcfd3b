/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing devices. Called by the table of devices only, serialized. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

int device_open(unsigned slot, device **out);
/* Called with no reference left and an invalidated handle. */
void device_close(device *dev);

} // namespace usdma::core
