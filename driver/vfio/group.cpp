/* SPDX-License-Identifier: BSD-3-Clause */
/* VFIO groups and their containers. */
#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/base/log.h"
#include "driver/pci/sysfs.h"
#include "driver/vfio/kernel_check.h"
#include "driver/vfio/type1.h"

#include <algorithm>
#include <fcntl.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>

namespace usdma::vfio {

namespace {

/* Groups and containers that are open in this process. */
struct registry {
	struct open_group {
		std::string path;
		std::weak_ptr<vfio_group> group;
	};
	std::mutex lock;
	std::vector<open_group> groups;
	std::vector<std::weak_ptr<type1_space>> spaces;
};

registry &opened()
{
	static registry r;

	return r;
}

} // namespace

static int check_viable(int fd, const pci::address &addr, int group, const kernel_options &opt)
{
	vfio_group_status s{};

	s.argsz = sizeof(s);
	if (ioctl(fd, VFIO_GROUP_GET_STATUS, &s))
		return fail_errno("query VFIO group %d", group);
	if (!(s.flags & VFIO_GROUP_FLAGS_VIABLE))
		return not_viable_error(addr, group, opt);
	return 0;
}

static int open_container(const kernel_options &opt, unique_fd *out)
{
	const std::string path = opt.dev + "/vfio/vfio";
	unique_fd fd(fd_above_stdio(open(path.c_str(), O_RDWR | O_CLOEXEC)));

	if (!fd.valid())
		return open_error(path, opt);
	if (ioctl(fd.get(), VFIO_GET_API_VERSION) != VFIO_API_VERSION)
		return fail(EPROTO, "%s has an unsupported VFIO API version", path.c_str());
	if (ioctl(fd.get(), VFIO_CHECK_EXTENSION, long(VFIO_TYPE1v2_IOMMU)) <= 0)
		return fail(EOPNOTSUPP, "this kernel's VFIO has no type1 IOMMU: modprobe vfio_iommu_type1");
	*out = std::move(fd);
	return 0;
}

static int set_iommu_error(int group)
{
	if (errno == EPERM)
		return unsafe_interrupts_error("group " + std::to_string(group), "vfio_iommu_type1");
	return fail_errno("cannot set the IOMMU of group %d's container", group);
}

/* Creates a container with this group in it. */
static int new_container(int group_fd, int group, const kernel_options &opt, unique_fd *out)
{
	unique_fd fd;
	int raw;
	const int err = open_container(opt, &fd);

	if (err)
		return err;
	raw = fd.get();
	if (ioctl(group_fd, VFIO_GROUP_SET_CONTAINER, &raw))
		return fail_errno("cannot add VFIO group %d to a container", group);
	if (ioctl(fd.get(), VFIO_SET_IOMMU, long(VFIO_TYPE1v2_IOMMU)))
		return set_iommu_error(group);
	*out = std::move(fd);
	return 0;
}

/* Adds the group to an open container if the kernel permits it (same IOMMU, no conflicting reserved range). */
static std::shared_ptr<type1_space> join_container(int group_fd)
{
	for (const auto &weak : opened().spaces) {
		std::shared_ptr<type1_space> space = weak.lock();
		const int fd = space ? space->fd() : -1;

		if (space && ioctl(group_fd, VFIO_GROUP_SET_CONTAINER, &fd) == 0)
			return space;
	}
	return nullptr;
}

static int find_space(int group_fd, int group, const kernel_options &opt, std::shared_ptr<dma_space> *out)
{
	std::shared_ptr<type1_space> space = opt.isolated ? nullptr : join_container(group_fd);
	unique_fd fd;

	if (!space) {
		const int err = new_container(group_fd, group, opt, &fd);

		if (err)
			return err;
		space = try_shared<type1_space>(std::move(fd));
		/* An isolated device's is not listed, so no other device joins it. */
		if (!space || (!opt.isolated && !try_push(opened().spaces, space)))
			return no_memory("a container of VFIO groups");
	}
	*out = std::move(space);
	return 0;
}

static std::shared_ptr<vfio_group> find_open(const std::string &path)
{
	registry &r = opened();

	std::erase_if(r.groups, [](const auto &g) { return g.group.expired(); });
	std::erase_if(r.spaces, [](const auto &s) { return s.expired(); });
	for (const auto &g : r.groups) {
		if (g.path == path)
			return g.group.lock();
	}
	return nullptr;
}

/* All devices of a group are in one container and access the same memory. */
static int check_isolation(const vfio_group &open, const pci::address &addr, int group, const kernel_options &opt)
{
	if (!opt.isolated && !open.isolated())
		return 0;
	return fail(EXDEV,
		    "%s is in IOMMU group %d with an open device, and one of them is isolated: the machine cannot "
		    "separate "
		    "them; close that device first or open both without isolated=yes",
		    address_format(addr).c_str(), group);
}

int group_open(const pci::address &addr, int group, const kernel_options &opt, std::shared_ptr<vfio_group> *out)
{
	std::lock_guard guard(opened().lock);
	const std::string path = opt.dev + "/vfio/" + std::to_string(group);
	std::shared_ptr<dma_space> space;
	int err;

	*out = find_open(path);
	if (*out)
		return check_isolation(**out, addr, group, opt);
	unique_fd fd(fd_above_stdio(open(path.c_str(), O_RDWR | O_CLOEXEC)));

	if (!fd.valid())
		return open_error(path, opt);
	err = check_viable(fd.get(), addr, group, opt);
	if (!err)
		err = find_space(fd.get(), group, opt, &space);
	if (err)
		return err;
	*out = try_shared<vfio_group>(std::move(fd), std::move(space), opt.isolated);
	return *out && try_push(opened().groups, registry::open_group{path, *out}) ? 0 : no_memory("a VFIO group");
}

} // namespace usdma::vfio
