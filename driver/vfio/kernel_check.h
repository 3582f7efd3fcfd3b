/* SPDX-License-Identifier: BSD-3-Clause */
/* Error texts for devices that cannot be opened by the kernel's VFIO, with the remedy. */
#pragma once

#include "driver/pci/sysfs.h"
#include "driver/vfio/kernel.h"

namespace usdma::vfio {

/* Checks before any VFIO file is opened. 0: no problem found. */
int kernel_precheck(const pci::function &f, const kernel_options &opt);
/* Reports a failed open() of a file in /dev, by errno. */
int open_error(const std::string &path, const kernel_options &opt);
/* -EPERM; names the parameter (of vfio_iommu_type1 or iommufd) that permits it. */
int unsafe_interrupts_error(const std::string &name, const char *parameter);
/* -EXDEV; names the members of the group that are bound to other drivers. */
int not_viable_error(const pci::address &addr, int group, const kernel_options &opt);
/* Members of the group that are bound to non-VFIO drivers: "0000:00:1f.3 (snd_hda_intel)", … */
std::string foreign_members(int group, const kernel_options &opt);

} // namespace usdma::vfio
