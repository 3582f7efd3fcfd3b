/* SPDX-License-Identifier: BSD-3-Clause */
/* PCI setup that a machine's firmware does before a driver runs, for servers without a machine. */
#pragma once

#include "driver/vfio/device.h"

namespace usdma::vfio {

/*
 * Assigns addresses to memory BARs and enables memory space (PCI 3.0 §6.2.5, §6.2.2), unless already enabled: a
 * server that models the bus ignores register accesses before. The addresses are not used; registers are
 * accessed by region and offset.
 */
int config_assign_bars(device &dev);

} // namespace usdma::vfio
