/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing as wholes.  Called by the table of devices alone, one at a time. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

int device_open(unsigned slot, device **out);
/* No reference is left, and the handle is dead. */
void device_close(device *dev);

} // namespace usdma::core
