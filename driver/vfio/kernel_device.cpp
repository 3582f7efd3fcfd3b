/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/kernel_device.h"

#include "driver/base/cancel.h"
#include "driver/base/grow.h"
#include "driver/vfio/region.h"
#include "driver/vfio/retry.h"

#include <algorithm>
#include <cstring>
#include <endian.h>
#include <linux/vfio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

namespace usdma::vfio {

kernel_device::kernel_device(const pci::function &f, device_claim claim, unique_fd fd, std::shared_ptr<dma_space> space,
			     std::shared_ptr<void> group)
	: claim_(std::move(claim)), name_(address_format(f.addr)), node_(f.numa_node), group_(std::move(group)),
	  space_(std::move(space)), fd_(std::move(fd))
{
}

/*
 * The device stops bus mastering and raising interrupts before its mappings are removed; only then may the
 * owner free the memory.
 */
kernel_device::~kernel_device()
{
	monitor_stop();
	if (num_regions_) {
		bus_master_off();
		irqs_off();
	}
	release_areas();
}

int kernel_device::start()
{
	vfio_device_info info{};

	info.argsz = sizeof(info);
	if (ioctl(fd_.get(), VFIO_DEVICE_GET_INFO, &info))
		return failed("query the device");
	if (!(info.flags & VFIO_DEVICE_FLAGS_PCI) || info.num_regions <= region_config)
		return fail(ENOTSUP, "%s is not a PCI device to VFIO", name_.c_str());
	can_reset_ = info.flags & VFIO_DEVICE_FLAGS_RESET;
	num_regions_ = info.num_regions;
	num_irqs_ = info.num_irqs;
	bars_ = try_shared<bar_guard>();
	if (!bars_ || !try_resize(regions_, num_regions_) || !try_resize(vectors_, num_irqs_))
		return no_memory("a device's regions and interrupts");
	return monitor_start();
}

int kernel_device::lost_error() const
{
	return fail(ENODEV, "%s is lost: unplugged, or revoked by the kernel", name_.c_str());
}

/* Reports a failed call on the device's file. ENODEV: the device is lost. */
int kernel_device::failed(const char *what)
{
	if (errno == ENODEV) {
		mark_lost("the kernel returned ENODEV");
		return lost_error();
	}
	return fail_errno("%s: %s", name_.c_str(), what);
}

int kernel_device::query_region(unsigned index, region_state *out)
{
	alignas(8) u8 few[1024];
	std::unique_ptr<u8[]> many;
	std::span<u8> raw = few;
	vfio_region_info info{};

	for (int tries = 0; tries < 3; tries++) {
		std::fill(raw.begin(), raw.end(), u8(0));
		info = {};
		info.argsz = u32(raw.size());
		info.index = index;
		memcpy(raw.data(), &info, sizeof(info));
		/* A region that this function lacks (VGA) has size 0. */
		if (ioctl(fd_.get(), VFIO_DEVICE_GET_REGION_INFO, raw.data()))
			return errno == EINVAL ? 0 : failed("query a region");
		memcpy(&info, raw.data(), sizeof(info));
		if (info.argsz <= raw.size())
			break;
		const size_t size = std::min(info.argsz, 65536u);
		many.reset(new (std::nothrow) u8[size]);
		if (!many)
			return no_memory("a region's description");
		raw = {many.get(), size};
	}
	static_assert(VFIO_REGION_INFO_FLAG_READ == region_readable && VFIO_REGION_INFO_FLAG_WRITE == region_writable &&
		      VFIO_REGION_INFO_FLAG_MMAP == region_mappable);
	out->info.size = info.size;
	out->info.flags = info.flags & (region_readable | region_writable | region_mappable);
	out->fd_offset = info.offset;
	if (!(info.flags & VFIO_REGION_INFO_FLAG_CAPS))
		return 0;
	return region_parse_caps(raw, info.cap_offset, info.size, &out->info.mappable);
}

/* Region properties do not change: queried once. */
int kernel_device::get_region(unsigned index, const region_state **out)
{
	std::lock_guard guard(region_lock_);
	int err = 0;

	if (lost())
		return lost_error();
	if (index >= num_regions_)
		return fail(EINVAL, "region %u, %s has %u", index, name_.c_str(), num_regions_);
	region_state &r = regions_[index];

	if (!r.queried)
		err = query_region(index, &r);
	r.queried = !err;
	*out = &r;
	return err;
}

int kernel_device::region(unsigned index, region_info *out)
{
	const region_state *r = nullptr;
	const int err = get_region(index, &r);

	if (err)
		return err;
	return try_assign(out, r->info) ? 0 : no_memory("a region's description");
}

int kernel_device::region_map(unsigned index, u64 offset, u64 size, mapping *out)
{
	const region_state *r = nullptr;
	int err = get_region(index, &r);

	if (err)
		return err;
	err = region_check_map(r->info, offset, size);
	return err ? err : bar_guard::map(bars_, fd_.get(), r->info.flags, r->fd_offset + offset, size, out);
}

int kernel_device::find_access(unsigned index, u64 offset, u64 len, u32 right, u64 *fd_offset)
{
	const region_state *r = nullptr;
	int err = get_region(index, &r);

	if (!err)
		err = region_check_access(r->info, index, offset, len, right);
	if (!err)
		*fd_offset = r->fd_offset + offset;
	return err;
}

/* move(fd, p, len, at): as pread(2). */
template <class F>
int kernel_device::access(unsigned index, u64 offset, u8 *p, size_t len, u32 right, const char *what, const F &move)
{
	const no_cancel scope;
	u64 at;
	const int err = find_access(index, offset, len, right, &at);

	if (err)
		return err;
	while (len) {
		const ssize_t n = move(fd_.get(), p, len, off_t(at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(what);
		if (n == 0)
			return fail(EIO, "%s: region %u ends at %#llx", name_.c_str(), index,
				    static_cast<unsigned long long>(offset));
		p += n, at += u64(n), len -= size_t(n);
	}
	return 0;
}

int kernel_device::region_read(unsigned index, u64 offset, void *buf, size_t len)
{
	return access(index, offset, static_cast<u8 *>(buf), len, region_readable, "read a region", pread);
}

int kernel_device::region_write(unsigned index, u64 offset, const void *buf, size_t len)
{
	u8 *const p = static_cast<u8 *>(const_cast<void *>(buf)); /* only read */

	return access(index, offset, p, len, region_writable, "write a region", pwrite);
}

int kernel_device::region_fd(unsigned, u64 *fd_offset)
{
	*fd_offset = 0;
	return -1;
}

int kernel_device::region_doorbell_fd(unsigned, u64)
{
	return -1;
}

int kernel_device::limits(address_limits *out)
{
	return lost() ? lost_error() : space_->limits(out);
}

int kernel_device::dma_map(const dma_area &area)
{
	std::lock_guard guard(area_lock_);
	int err;

	if (lost())
		return lost_error();
	/* Once per device: the address space would count a second mapping. */
	if (areas_.count({area.iova, area.size}))
		return fail(EEXIST, "DMA area %#llx+%#llx is mapped", static_cast<unsigned long long>(area.iova),
			    static_cast<unsigned long long>(area.size));
	if (!try_insert(areas_, areas_.end(), std::pair{area.iova, area.size}))
		return no_memory("the list of DMA areas");
	err = space_->map(area);
	if (err)
		areas_.erase({area.iova, area.size});
	return err;
}

/* Also works on a lost device: its memory must be reclaimed. */
int kernel_device::dma_unmap(u64 iova, u64 size)
{
	std::lock_guard guard(area_lock_);
	int err;

	if (!areas_.count({iova, size}))
		return fail(ENOENT, "no DMA area %#llx+%#llx is mapped", static_cast<unsigned long long>(iova),
			    static_cast<unsigned long long>(size));
	if (lost() && !space_->sole(iova) && !bus_master_off())
		return fail(EBUSY, "%s is lost and may still access its memory", name_.c_str());
	err = space_->unmap(iova, size);
	if (!err)
		areas_.erase({iova, size});
	return err;
}

void kernel_device::release_areas()
{
	std::lock_guard guard(area_lock_);

	for (const auto &[iova, size] : areas_)
		space_->unmap(iova, size);
	areas_.clear();
}

/*
 * Unmaps areas that no other device of the address space has mapped. True: these were all. Held while an area is
 * pinned, for seconds: not waited for.
 */
bool kernel_device::revoke_areas()
{
	std::unique_lock guard(area_lock_, std::try_to_lock);

	if (!guard.owns_lock())
		return false;
	for (auto it = areas_.begin(); it != areas_.end();)
		it = space_->sole(it->first) && !space_->unmap(it->first, it->second) ? areas_.erase(it) :
											std::next(it);
	return areas_.empty();
}

int kernel_device::answers()
{
	const int err = lost() ? lost_error() : config_answers(*this);

	if (err == -ENODEV && !lost())
		mark_lost("all reads return ones: unplugged, or its link is down");
	return err;
}

int kernel_device::reset()
{
	if (lost())
		return lost_error();
	if (!can_reset_)
		return fail(EOPNOTSUPP,
			    "%s cannot be reset by itself (no function-level reset, and other functions on its bus)",
			    name_.c_str());
	return retry_locked([&] { return ioctl(fd_.get(), VFIO_DEVICE_RESET); }) ? failed("reset") : 0;
}

/*
 * Accesses the file directly: a device that the kernel requests back is marked lost, yet is still present and may
 * write. PCI 3.0 §6.2.2: command register, bit 2. The read after the write ensures that it has reached the
 * device.
 */
bool kernel_device::bus_master_off()
{
	static constexpr u16 master = 4;
	region_state r;
	u16 command;
	u64 at;

	if (query_region(region_config, &r))
		return false;
	at = r.fd_offset + 4;
	if (pread(fd_.get(), &command, 2, off_t(at)) != 2)
		return false;
	command = htole16(u16(le16toh(command) & ~master));
	if (pwrite(fd_.get(), &command, 2, off_t(at)) != 2 || pread(fd_.get(), &command, 2, off_t(at)) != 2)
		return false;
	/* One that reads as all ones is absent, and is no bus master. */
	return !(le16toh(command) & master) || command_is_unknown(le16toh(command));
}

/*
 * Once bus mastering is off, the device writes nothing. Otherwise its IOMMU mappings are removed, which stops
 * even a device that does not obey, unless another device of the address space still has them mapped.
 */
int kernel_device::quiesce()
{
	if (bus_master_off())
		return 0;
	return revoke_areas() ? 0 : -EAGAIN;
}

} // namespace usdma::vfio
