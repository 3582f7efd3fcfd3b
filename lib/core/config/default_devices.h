/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <string>
#include <vector>

namespace usdma::core {

/* Default devices: supported devices bound to vfio-pci, else four software devices of 4 GiB. Else an errno. */
int default_devices(std::vector<std::string> *out, const char *vfio_pci = "/sys/bus/pci/drivers/vfio-pci");

} // namespace usdma::core
