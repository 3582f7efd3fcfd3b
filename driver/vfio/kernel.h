/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices of the kernel's VFIO, by one of two backends: the group file with a type1 container (Linux 5.10 and
 * newer), or the device file with iommufd (6.6 and newer).
 *
 * Opening fails with a distinct error for each cause, and a text with the remedy:
 *   -ENXIO       no such PCI device
 *   -EOPNOTSUPP  the device is not behind an IOMMU (none in the machine, disabled, or VFIO's noiommu mode)
 *   -ENOENT      VFIO is not loaded, or not in this container
 *   -ENOTCONN    the device is bound to no driver, or to one other than VFIO's
 *   -EACCES      no permission on the group's or device's file
 *   -EBUSY       open in another process, or already in this one
 *   -EPERM       the machine cannot remap interrupts, and the kernel requires an explicit opt-in
 *   -EXDEV       the group is not viable: members are bound to other drivers; or one of two open members is isolated
 * and dma_map with -ENOMEM (memlock), -ENOSPC (number of mappings), -EEXIST
 * (overlap), -ERANGE (an IOVA outside the IOMMU's ranges), -EFAULT (memory that cannot be pinned).
 *
 * When the device is about to be unplugged (request interrupt) or lost, lost() becomes
 * true, lost_fd() readable, each eventfd of irq_set is signalled once, and mapped BARs
 * are replaced, at their addresses, by memory of all ones, as the bus returns for an
 * absent device.  So an access after removal does not kill the process.  A window
 * remains if the kernel revokes a BAR without a request (a reset through sysfs, a
 * transition to D3): until the replacement an access raises SIGBUS.  No handler is
 * installed: signals belong to the program.
 */
#pragma once

#include "driver/pci/sysfs.h"
#include "driver/vfio/device.h"

namespace usdma::vfio {

enum class kernel_backend { automatic, group, iommufd };

struct kernel_options {
	kernel_backend backend =
		kernel_backend::automatic; /* automatic: iommufd if the kernel supports it, otherwise group */
	std::string sys = "/sys";          /* other paths in tests */
	std::string dev = "/dev";
	bool isolated = false; /* an address space of its own */
};

/*
 * The backend that automatic selects for this process, and the files in /dev that it needs, the shared one
 * first. If neither backend's can be opened: the one for which some permissions exist, or that this kernel
 * supports.
 */
kernel_backend kernel_choose(const pci::function &f, const kernel_options &opt, std::vector<std::string> *files);

int kernel_open(const pci::address &addr, const kernel_options &opt, std::unique_ptr<device> *out);

} // namespace usdma::vfio
