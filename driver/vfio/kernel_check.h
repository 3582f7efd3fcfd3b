/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a device cannot be had from the kernel, said so that the reader knows what to do. */
#pragma once

#include "driver/pci/sysfs.h"
#include "driver/vfio/kernel.h"

namespace usdma::vfio {

/* What can be told before any file of VFIO is opened.  0: try. */
int kernel_precheck(const pci::function &f, const kernel_options &opt);
/* open() of a file under /dev failed, errno says how. */
int open_error(const std::string &path, const kernel_options &opt);
/* -EPERM with the parameter (of vfio_iommu_type1 or iommufd) that accepts it. */
int unsafe_interrupts_error(const std::string &name, const char *parameter);
/* -EXDEV with those members of the group that are at other drivers. */
int not_viable_error(const pci::address &addr, int group, const kernel_options &opt);
/* Members of the group at drivers that are not VFIO's: "0000:00:1f.3 (snd_hda_intel)", … */
std::string foreign_members(int group, const kernel_options &opt);

} // namespace usdma::vfio
