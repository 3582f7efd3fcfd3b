/* SPDX-License-Identifier: BSD-3-Clause */
/* What a machine's firmware does for a PCI function before a driver sees it, where there is no machine. */
#pragma once

#include "driver/vfio/device.h"

namespace usdma::vfio {

/*
 * Gives the memory BARs addresses and switches memory space on (PCI 3.0 §6.2.5,
 * §6.2.2), unless somebody has: a server that models the bus answers no register
 * before.  The addresses lead nowhere; registers are named by region and offset.
 */
int config_play_firmware(device &dev);

} // namespace usdma::vfio
