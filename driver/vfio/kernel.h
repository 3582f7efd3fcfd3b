/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that the kernel's VFIO drives, by one of two ways: the group's file with
 * a type1 container (Linux 5.10 and newer), or the device's own file with iommufd
 * (6.6 and newer).
 *
 * Opening fails with a number of its own for each cause, and a text with the cure:
 *   -ENXIO       no such PCI device
 *   -EOPNOTSUPP  no IOMMU has the device (none in the machine, switched off, or VFIO's noiommu mode)
 *   -ENOENT      VFIO is not loaded, or not in this container
 *   -ENOTCONN    the device is bound to no driver, or not to a VFIO one
 *   -EACCES      no permission on the group's or device's file
 *   -EBUSY       another process has it, or this one has it open already
 *   -EPERM       the machine cannot remap interrupts, the kernel wants it said that this is accepted
 *   -EXDEV       the group is not viable: other devices of it are at other drivers; or one of two open ones is isolated
 * and dma_map with -ENOMEM (memlock), -ENOSPC (number of mappings), -EEXIST
 * (overlap), -ERANGE (an IOVA that the IOMMU does not translate), -EFAULT (memory
 * that cannot be pinned).
 *
 * When the device is to be unplugged (request interrupt) or is gone, lost() turns
 * true, lost_fd() readable, each eventfd given to irq_set is written once, and the
 * mapped BARs are replaced, at their addresses, by memory of all ones: what the
 * bus answers for an absent device.  So an access after removal does not kill the
 * process.  What is left is the moment between the kernel's taking a BAR away
 * without asking first (a reset through sysfs by someone else, a function that
 * falls to D3) and the replacement; in it an access gets SIGBUS.  No handler is
 * installed: signals belong to the program.
 */
#pragma once

#include "driver/pci/sysfs.h"
#include "driver/vfio/device.h"

namespace usdma::vfio {

enum class kernel_way { automatic, group, iommufd };

struct kernel_options {
	kernel_way way = kernel_way::automatic; /* automatic: iommufd where the kernel has it, else group */
	std::string sys = "/sys";               /* others in tests */
	std::string dev = "/dev";
	bool isolated = false; /* an address space that no other device is in */
};

/*
 * Which way automatic goes for this process, and the files in /dev that it takes,
 * the common one first.  Where none can be opened: the way that somebody began to
 * give permissions for, or that this kernel has.
 */
kernel_way kernel_choose(const pci::function &f, const kernel_options &opt, std::vector<std::string> *files);

int kernel_open(const pci::address &addr, const kernel_options &opt, std::unique_ptr<device> *out);

} // namespace usdma::vfio
