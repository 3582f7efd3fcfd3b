/* SPDX-License-Identifier: BSD-3-Clause */
/* Which way a device is opened. */
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/pci/sysfs.h"
#include "driver/vfio/iommufd.h"
#include "driver/vfio/kernel_check.h"
#include "driver/vfio/kernel_device.h"
#include "driver/vfio/type1.h"

#include <linux/vfio.h>
#include <sys/ioctl.h>

namespace usdma::vfio {

namespace {

struct defaults {
	std::mutex lock;
	kernel_options opt;
};

defaults &the_defaults()
{
	static defaults d;

	return d;
}

/* An open device on its way to being one. */
struct opened_device {
	unique_fd fd;
	std::shared_ptr<dma_space> space;
	std::shared_ptr<void> keep;
};

} // namespace

static int open_by_group(const pci::function &f, const kernel_options &opt, opened_device *out)
{
	const std::string name = address_format(f.addr);
	std::shared_ptr<vfio_group> group;
	const int err = group_open(f.addr, f.iommu_group, opt, &group);

	if (err)
		return err;
	out->fd.reset(ioctl(group->fd(), VFIO_GROUP_GET_DEVICE_FD, name.c_str()));
	if (!out->fd.valid() && errno == ENODEV)
		return fail(ENOTCONN, "%s is not bound to vfio-pci (any more): usdmactl bind %s", name.c_str(), name.c_str());
	if (!out->fd.valid())
		return fail_errno("get %s from its VFIO group %d", name.c_str(), f.iommu_group);
	out->space = group->space();
	out->keep = group;
	return 0;
}

static bool wants_iommufd(const std::string &cdev, const kernel_options &opt)
{
	if (opt.way != kernel_way::automatic)
		return opt.way == kernel_way::iommufd;
	return !opt.noiommu && iommufd_usable(cdev, opt);
}

static int open_device(const pci::address &addr, const kernel_options &opt, std::unique_ptr<device> *out)
{
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
	const std::string cdev = pci::vfio_cdev(opt.sys, addr);

	if (wants_iommufd(cdev, opt))
		err = iommufd_open(addr, f.iommu_group, cdev, opt, &o.fd, &o.space);
	else
		err = open_by_group(f, opt, &o);
	if (err)
		return err;
	auto dev = try_unique<kernel_device>(f, std::move(claim), std::move(o.fd), std::move(o.space), std::move(o.keep));

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

void kernel_set_options(const kernel_options &opt)
{
	std::lock_guard guard(the_defaults().lock);

	the_defaults().opt = opt;
}

kernel_options kernel_get_options()
{
	std::lock_guard guard(the_defaults().lock);

	return the_defaults().opt;
}

} // namespace usdma::vfio
