/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/kernel_check.h"

#include "driver/base/error.h"

#include <unistd.h>

namespace usdma::vfio {

/* vfio-pci and its device-specific variants ("mlx5_vfio_pci"). */
static bool is_vfio_driver(const std::string &name)
{
	return name.find("vfio") != name.npos;
}

/* Drivers that do no DMA of their own: a group with these is viable (drivers/vfio in the kernel). */
static bool is_harmless_driver(const std::string &name)
{
	return name.empty() || is_vfio_driver(name) || name == "pci-stub" || name == "pcieport";
}

std::string foreign_members(int group, const kernel_options &opt)
{
	std::vector<pci::address> members;
	std::string text;
	pci::function f;

	if (pci::group_members(opt.sys, group, &members))
		return text;
	for (const pci::address &a : members) {
		if (pci::read_function(opt.sys, a, &f) || is_harmless_driver(f.driver))
			continue;
		text += (text.empty() ? "" : ", ") + address_format(a) + " (" + f.driver + ")";
	}
	return text;
}

int not_viable_error(const pci::address &addr, int group, const kernel_options &opt)
{
	const std::string foreign = foreign_members(group, opt);

	return fail(EXDEV,
		    "%s shares IOMMU group %d with devices bound to other drivers: %s; bind those to vfio-pci too "
		    "(usdmactl bind …), or unbind them, or move the device to another slot",
		    address_format(addr).c_str(), group, foreign.empty() ? "unknown" : foreign.c_str());
}

static int no_iommu_error(const std::string &name, const pci::function &f, const kernel_options &opt)
{
	if (f.noiommu)
		return fail(
			EOPNOTSUPP,
			"%s is bound in VFIO's noiommu mode, in which it could write any memory of the machine: usdma "
			"does not support that; boot with an IOMMU (see usdmactl doctor)",
			name.c_str());
	if (pci::iommu_present(opt.sys))
		return fail(EOPNOTSUPP,
			    "%s is not behind the machine's IOMMU: it cannot be used with VFIO in this slot",
			    name.c_str());
	return fail(EOPNOTSUPP,
		    "%s: no IOMMU: switch VT-d (Intel) or AMD-Vi on in the firmware and boot with intel_iommu=on "
		    "iommu=pt (Intel) on the kernel's command line",
		    name.c_str());
}

static int not_bound_error(const std::string &name, const pci::function &f, const kernel_options &opt)
{
	if (!pci::driver_loaded(opt.sys, "vfio-pci"))
		return fail(ENOENT, "%s: the driver vfio-pci is not loaded: modprobe vfio-pci", name.c_str());
	if (f.driver.empty())
		return fail(ENOTCONN, "%s is bound to no driver: usdmactl bind %s", name.c_str(), name.c_str());
	return fail(ENOTCONN, "%s is bound to driver %s, not to vfio-pci: usdmactl bind %s", name.c_str(),
		    f.driver.c_str(), name.c_str());
}

int unsafe_interrupts_error(const std::string &name, const char *parameter)
{
	return fail(
		EPERM,
		"%s: this machine cannot remap interrupts, so that a device may forge them; to permit that: echo 1 > "
		"/sys/module/%s/parameters/allow_unsafe_interrupts",
		name.c_str(), parameter);
}

int kernel_precheck(const pci::function &f, const kernel_options &opt)
{
	const std::string name = address_format(f.addr);

	if (f.iommu_group < 0)
		return no_iommu_error(name, f, opt);
	if (!is_vfio_driver(f.driver))
		return not_bound_error(name, f, opt);
	return 0;
}

int open_error(const std::string &path, const kernel_options &opt)
{
	const int err = errno;
	const std::string vfio = opt.dev + "/vfio/vfio";

	/* A kernel without groups lacks this file, but has device files. */
	if (err == ENOENT && access(vfio.c_str(), F_OK) && path.find("/devices/") == path.npos)
		return fail(ENOENT, "no %s: load VFIO (modprobe vfio-pci)", vfio.c_str());
	if (err == ENOENT)
		return fail(ENOENT, "no %s: is this a container without that device file? (docker run --device %s)",
			    path.c_str(), path.c_str());
	if (err == EACCES || err == EPERM)
		return fail(EACCES,
			    "no permission on %s: as root, chown it to the user who runs this, or a udev rule: "
			    "SUBSYSTEM==\"vfio\", GROUP=\"…\", MODE=\"0660\"",
			    path.c_str());
	if (err == EBUSY)
		return fail(EBUSY, "%s is in use by another process: fuser -v %s", path.c_str(), path.c_str());
	errno = err;
	return fail_errno("open %s", path.c_str());
}

} // namespace usdma::vfio
