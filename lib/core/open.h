/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing devices. Called by the table of devices only, for one slot one at a time. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

int device_open(unsigned slot, device **out);
/* Called with no reference left and an invalidated handle. Returns an error of work that no call has reported. */
int device_close(device *dev);

} // namespace usdma::core
