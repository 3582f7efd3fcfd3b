/* SPDX-License-Identifier: BSD-3-Clause */
/* PCI functions as the kernel shows them in sysfs.  `root` is "/sys" but in tests. */
#pragma once

#include "driver/pci/address.h"

#include <array>
#include <span>
#include <vector>

namespace usdma::pci {

struct resource {
	u64 start = 0, size = 0,
	    flags = 0; /* flags: linux/ioport.h; 0x200 memory, 0x2000 prefetchable, 0x100000 64-bit */
};

struct function {
	address addr;
	u16 vendor = 0, device = 0, subsystem_vendor = 0, subsystem_device = 0;
	u32 class_code = 0; /* base, sub, interface: 24 bits */
	u8 revision = 0;
	int numa_node = -1;
	int iommu_group = -1;        /* -1: no IOMMU has it */
	bool noiommu = false;        /* VFIO has it all the same, in a group that nothing translates for */
	std::string driver;          /* "" : none */
	std::string driver_override; /* "" : none */
	std::string power_state;     /* "D0", "D3hot", …; "" : not told */
	std::array<resource, 6> bars{};
};

/* All functions, by address.  -ENOENT: no PCI here. */
int list(const std::string &root, std::vector<function> *out);
/* -ENXIO: there is none at this address. */
int read_function(const std::string &root, const address &a, function *out);
/* The members of an IOMMU group, by address. */
int group_members(const std::string &root, int group, std::vector<address> *out);
/* What of the system uses a function now: its network interfaces, block devices, …; empty: nothing known. */
std::vector<std::string> users(const std::string &root, const address &a);
/* Its character device's name under /dev/vfio/devices ("vfio0"); "": the kernel has none (before 6.6, or not bound). */
std::string vfio_cdev(const std::string &root, const address &a);
/* Whether a driver (a module for the PCI bus) is loaded. */
bool driver_loaded(const std::string &root, const std::string &driver);
/* The groups of devices that an IOMMU translates for: VFIO's own of noiommu mode are none. */
std::vector<int> iommu_groups(const std::string &root);
/* Whether the kernel runs an IOMMU at all. */
bool iommu_present(const std::string &root);
/* The head of config space that sysfs gives: 64 bytes for a plain user, 256 or 4096 for root. */
int read_config(const std::string &root, const address &a, std::vector<u8> *out);

/*
 * Binds to a driver by driver_override, whatever its id table says; the driver
 * that had it lets go first.  Does not ask whether the function is in use: see
 * users().  -ENXIO, -ENOENT (driver not loaded), -EACCES, -ETIMEDOUT (the driver
 * did not take it).
 */
int bind(const std::string &root, const address &a, const std::string &driver);
/* Takes the function from its driver and drops the override; then lets the kernel choose, or `driver` where given. */
int unbind(const std::string &root, const address &a, const std::string &driver = "");

struct capability {
	u16 id = 0;
	u16 offset = 0;
	u8 version = 0;
	bool extended = false;
};

enum : u16 { cap_power = 0x01, cap_msi = 0x05, cap_express = 0x10, cap_msix = 0x11 };

/*
 * The capability lists of a config space, as far as `config` goes.  The device is
 * not trusted: -EPROTO for a list that loops or points outside.
 */
int capabilities(std::span<const u8> config, std::vector<capability> *out);

} // namespace usdma::pci
