/* SPDX-License-Identifier: BSD-3-Clause */
/* iommufd (Documentation/userspace-api/iommufd.rst) and VFIO's device files. */
#include "driver/vfio/iommufd.h"

#include "driver/base/fd.h"
#include "driver/base/grow.h"
#include "driver/vfio/iommufd_abi.h"
#include "driver/vfio/kernel_check.h"
#include "driver/vfio/retry.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace usdma::vfio {

namespace {

struct open_spaces {
	std::mutex lock;
	std::vector<std::weak_ptr<iommufd_space>> spaces;
};

open_spaces &iommufd_spaces()
{
	static open_spaces r;

	return r;
}

} // namespace

int iommufd_space::limits(address_limits *out)
{
	std::vector<abi::iova_range> r;
	abi::ioas_iova_ranges q{};

	*out = {};
	if (!try_resize(r, 64))
		return no_memory("the IOMMU's ranges");
	while (true) {
		q = {sizeof(q), ioas_, u32(r.size()), 0, reinterpret_cast<uintptr_t>(r.data()), 0};
		if (ioctl(fd_.get(), abi::ioctl_ioas_iova_ranges, &q) == 0)
			break;
		if (errno != EMSGSIZE || q.num_iovas <= r.size() || q.num_iovas > 65536)
			return fail_errno("query the I/O address space's ranges");
		if (!try_resize(r, q.num_iovas))
			return no_memory("the IOMMU's ranges");
	}
	for (const abi::iova_range &i : std::span(r).first(std::min(size_t(q.num_iovas), r.size())))
		if (!try_push(out->usable, range{i.start, i.last}))
			return no_memory("the IOMMU's ranges");
	std::sort(out->usable.begin(), out->usable.end(),
		  [](const range &a, const range &b) { return a.start < b.start; });
	if (is_pow2(q.out_iova_alignment))
		out->page_size = std::max(q.out_iova_alignment, address_limits().page_size);
	return 0;
}

int iommufd_space::kernel_map(const dma_area &area)
{
	abi::ioas_map m{};

	m.size = sizeof(m);
	m.flags = abi::map_fixed | (area.prot & dma_write ? u32(abi::map_writeable) : 0) |
		  (area.prot & dma_read ? u32(abi::map_readable) : 0);
	m.ioas_id = ioas_;
	m.user_va = reinterpret_cast<uintptr_t>(area.vaddr);
	m.length = area.size;
	m.iova = area.iova;
	if (ioctl(fd_.get(), abi::ioctl_ioas_map, &m))
		return dma_map_error(errno, area, mapped(), "");
	return 0;
}

int iommufd_space::kernel_unmap(u64 iova, u64 size)
{
	abi::ioas_unmap m = {sizeof(m), ioas_, iova, size};

	if (ioctl(fd_.get(), abi::ioctl_ioas_unmap, &m))
		return fail_errno("unmap %llu bytes at IOVA %#llx", static_cast<unsigned long long>(size),
				  static_cast<unsigned long long>(iova));
	return 0;
}

/* The kernel returns EINVAL, not EBUSY, if another process has bound the device (vfio_df_ioctl_bind_iommufd there). */
static int bind_error(const pci::address &addr, int group, const std::string &path, const kernel_options &opt)
{
	const int err = errno;

	if (!foreign_members(group, opt).empty())
		return not_viable_error(addr, group, opt);
	if (err == EINVAL)
		return fail(EBUSY, "%s is in use by another process: fuser -v %s", address_format(addr).c_str(),
			    path.c_str());
	if (err == EBUSY)
		return fail(EBUSY,
			    "%s, or another device of its IOMMU group %d, is in use by another process: fuser -v %s "
			    "%s/vfio/%d",
			    address_format(addr).c_str(), group, path.c_str(), opt.dev.c_str(), group);
	if (err == EPERM)
		return unsafe_interrupts_error(address_format(addr), "iommufd");
	errno = err;
	return fail_errno("bind %s to iommufd", address_format(addr).c_str());
}

static int bind_attach(int device, const iommufd_space &space, const pci::address &addr, int group,
		       const std::string &path, const kernel_options &opt)
{
	abi::device_bind b = {sizeof(b), 0, space.fd(), 0};
	abi::device_attach a = {sizeof(a), 0, space.ioas()};

	if (retry_locked([&] { return ioctl(device, abi::ioctl_device_bind, &b); }))
		return bind_error(addr, group, path, opt);
	if (ioctl(device, abi::ioctl_device_attach, &a))
		return fail_errno("attach %s to an I/O address space", address_format(addr).c_str());
	return 0;
}

static int new_space(const kernel_options &opt, std::shared_ptr<iommufd_space> *out)
{
	const std::string path = opt.dev + "/iommu";
	unique_fd fd(fd_above_stdio(open(path.c_str(), O_RDWR | O_CLOEXEC)));
	abi::ioas_alloc a = {sizeof(a), 0, 0};

	if (!fd.valid() && errno == ENOENT)
		return fail(ENOENT, "no %s: modprobe iommufd (Linux 6.6 or newer)", path.c_str());
	if (!fd.valid())
		return open_error(path, opt);
	if (ioctl(fd.get(), abi::ioctl_ioas_alloc, &a))
		return fail_errno("allocate an I/O address space");
	*out = try_shared<iommufd_space>(std::move(fd), a.out_ioas_id);
	return *out ? 0 : no_memory("an I/O address space");
}

static int open_cdev(const std::string &path, const kernel_options &opt, unique_fd *out)
{
	out->reset(fd_above_stdio(open(path.c_str(), O_RDWR | O_CLOEXEC)));
	return out->valid() ? 0 : open_error(path, opt);
}

/* A device file can be bound only once: after a failed attach it must be reopened. */
int iommufd_open(const pci::address &addr, int group, const std::string &cdev, const kernel_options &opt,
		 unique_fd *device, std::shared_ptr<dma_space> *space)
{
	std::lock_guard guard(iommufd_spaces().lock);
	const std::string path = opt.dev + "/vfio/devices/" + cdev;
	auto &spaces = iommufd_spaces().spaces;
	std::shared_ptr<iommufd_space> s;
	int err;

	if (cdev.empty())
		return fail(
			ENOENT,
			"the kernel has no device file for %s (needs Linux 6.6 with VFIO_DEVICE_CDEV): use the group "
			"path",
			address_format(addr).c_str());
	std::erase_if(spaces, [](const auto &w) { return w.expired(); });
	for (const auto &weak : spaces) {
		if (opt.isolated)
			break;
		s = weak.lock();
		err = open_cdev(path, opt, device);
		if (err)
			return err;
		if (s && bind_attach(device->get(), *s, addr, group, path, opt) == 0) {
			*space = s;
			return 0;
		}
		device->reset();
	}
	if (!try_reserve(spaces, spaces.size() + 1))
		return no_memory("the list of I/O address spaces");
	err = open_cdev(path, opt, device);
	if (!err)
		err = new_space(opt, &s);
	if (!err)
		err = bind_attach(device->get(), *s, addr, group, path, opt);
	if (err)
		return err;
	/* An isolated device's is not listed, so no other device joins it. */
	if (!opt.isolated)
		push_reserved(spaces, std::weak_ptr(s));
	*space = s;
	return 0;
}

} // namespace usdma::vfio
