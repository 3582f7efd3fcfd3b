/* SPDX-License-Identifier: BSD-3-Clause */
/* Selects the backend and opens a device. */
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/pci/sysfs.h"
#include "driver/vfio/iommufd.h"
#include "driver/vfio/kernel_check.h"
#include "driver/vfio/kernel_device.h"
#include "driver/vfio/retry.h"
#include "driver/vfio/type1.h"

#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace usdma::vfio {

namespace {

/* An open device file, before a kernel_device is created. */
struct opened_device {
	unique_fd fd;
	std::shared_ptr<dma_space> space;
	std::shared_ptr<void> group;
};

} // namespace

static int get_device(int group, const char *name)
{
	return retry_locked([=] { return fd_above_stdio(ioctl(group, VFIO_GROUP_GET_DEVICE_FD, name)); });
}

static int open_by_group(const pci::function &f, const kernel_options &opt, opened_device *out)
{
	const std::string name = address_format(f.addr);
	std::shared_ptr<vfio_group> group;
	const int err = group_open(f.addr, f.iommu_group, opt, &group);

	if (err)
		return err;
	out->fd.reset(get_device(group->fd(), name.c_str()));
	if (!out->fd.valid() && errno == ENODEV)
		return fail(ENOTCONN, "%s is not bound to vfio-pci (any more): usdmactl bind %s", name.c_str(),
			    name.c_str());
	/* With iommufd's emulation of the container, the device is checked only here. */
	if (!out->fd.valid() && errno == EPERM)
		return unsafe_interrupts_error(name, "iommufd");
	if (!out->fd.valid())
		return fail_errno("get %s from its VFIO group %d", name.c_str(), f.iommu_group);
	out->space = group->space();
	out->group = group;
	return 0;
}

static bool usable(const std::string &path)
{
	return access(path.c_str(), R_OK | W_OK) == 0;
}

kernel_backend kernel_choose(const pci::function &f, const kernel_options &opt, std::vector<std::string> *files)
{
	const std::string cdev = pci::vfio_cdev(opt.sys, f.addr), vfio = opt.dev + "/vfio/";
	std::vector<std::string> by_group = {vfio + "vfio", vfio + std::to_string(f.iommu_group)};
	std::vector<std::string> by_cdev = {opt.dev + "/iommu", vfio + "devices/" + cdev};
	const bool first = usable(by_cdev[0]), second = !cdev.empty() && usable(by_cdev[1]);
	bool use_cdev = opt.backend == kernel_backend::iommufd;

	if (opt.backend == kernel_backend::automatic && !cdev.empty()) {
		const bool group_there = access(by_group[1].c_str(), F_OK) == 0;
		const bool use_group = usable(by_group[0]) && usable(by_group[1]);

		use_cdev = (first && second) || (!use_group && (first || second || !group_there));
	}
	*files = std::move(use_cdev ? by_cdev : by_group);
	return use_cdev ? kernel_backend::iommufd : kernel_backend::group;
}

static int open_device(const pci::address &addr, const kernel_options &opt, std::unique_ptr<device> *out)
{
	std::vector<std::string> files;
	device_claim claim;
	opened_device o;
	pci::function f;
	int err = pci::read_function(opt.sys, addr, &f);

	if (!err)
		err = kernel_precheck(f, opt);
	if (!err)
		err = claim.take(addr);
	if (err)
		return err;
	if (kernel_choose(f, opt, &files) == kernel_backend::iommufd)
		err = iommufd_open(addr, f.iommu_group, pci::vfio_cdev(opt.sys, addr), opt, &o.fd, &o.space);
	else
		err = open_by_group(f, opt, &o);
	if (err)
		return err;
	auto dev = try_unique<kernel_device>(f, std::move(claim), std::move(o.fd), std::move(o.space),
					     std::move(o.group));

	err = dev ? dev->start() : no_memory("a device");
	if (err)
		return err;
	log_info("%s: opened by %s", dev->name(), dev->backend());
	*out = std::move(dev);
	return 0;
}

int kernel_open(const pci::address &addr, const kernel_options &opt, std::unique_ptr<device> *out)
{
	return within_memory("a device", [&] { return open_device(addr, opt, out); });
}

} // namespace usdma::vfio
