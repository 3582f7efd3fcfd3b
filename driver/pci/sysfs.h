/* SPDX-License-Identifier: BSD-3-Clause */
/* PCI functions in sysfs. `root` is "/sys", except in tests. */
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
	int iommu_group = -1;        /* -1: not behind an IOMMU */
	bool noiommu = false;        /* bound to VFIO in noiommu mode, without address translation */
	std::string driver;          /* "" : none */
	std::string driver_override; /* "" : none */
	std::string power_state;     /* "D0", "D3hot", …; "" : unknown */
	std::array<resource, 6> bars{};
};

/* All functions, sorted by address. -ENOENT: no PCI bus. */
int list(const std::string &root, std::vector<function> *out);
/* -ENXIO: no function at this address. */
int read_function(const std::string &root, const address &a, function *out);
/* The members of an IOMMU group, by address. */
int group_members(const std::string &root, int group, std::vector<address> *out);
/* Users of a function in the system: its network interfaces, block devices, …; empty: none found. */
std::vector<std::string> users(const std::string &root, const address &a);
/* The name of its character device in /dev/vfio/devices ("vfio0"); "": none (kernels before 6.6, or not bound). */
std::string vfio_cdev(const std::string &root, const address &a);
/* Whether a driver (a module for the PCI bus) is loaded. */
bool driver_loaded(const std::string &root, const std::string &driver);
/* IOMMU groups, without VFIO's own groups of noiommu mode. */
std::vector<int> iommu_groups(const std::string &root);
/* Whether the kernel uses an IOMMU. */
bool iommu_present(const std::string &root);
/*
 * Whether a function without a group may get one when a driver binds to it: on arm64 Linux 6.12 reads the firmware's
 * description of its IOMMU only then, 7.3 earlier.
 */
bool iommu_group_pending(const std::string &root, const function &f);
/* The part of config space that sysfs provides: 64 bytes for unprivileged users, 256 or 4096 for root. */
int read_config(const std::string &root, const address &a, std::vector<u8> *out);

/*
 * Binds to a driver by driver_override, whatever its ID table contains; the current driver is unbound first.
 * Does not check whether the function is in use: see users(). -ENXIO, -ENOENT (driver not loaded), -EACCES,
 * -ETIMEDOUT (the driver did not bind).
 */
int bind(const std::string &root, const address &a, const std::string &driver);
/* Unbinds the function and clears the override; then the kernel selects a driver, or `driver` is bound if given. */
int unbind(const std::string &root, const address &a, const std::string &driver = "");

struct capability {
	u16 id = 0;
	u16 offset = 0;
	u8 version = 0;
	bool extended = false;
};

enum : u16 { cap_power = 0x01, cap_msi = 0x05, cap_express = 0x10, cap_msix = 0x11 };

/*
 * Parses the capability lists in `config`. The device is not trusted: -EPROTO for a list that loops or points
 * outside.
 */
int capabilities(std::span<const u8> config, std::vector<capability> *out);

} // namespace usdma::pci
