/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/vfio/kernel_device.h"

#include "driver/base/grow.h"
#include "driver/vfio/region.h"

#include <algorithm>
#include <cstring>
#include <endian.h>
#include <linux/vfio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

namespace usdma::vfio {

kernel_device::kernel_device(const pci::function &f, device_claim claim, unique_fd fd, std::shared_ptr<dma_space> space,
			     std::shared_ptr<void> keep)
	: claim_(std::move(claim)), name_(address_format(f.addr)), node_(f.numa_node), keep_(std::move(keep)),
	  space_(std::move(space)), fd_(std::move(fd))
{
}

/*
 * First the device stops being a master and raising interrupts, then what it could
 * reach is taken away; only after that may the owner's memory go.
 */
kernel_device::~kernel_device()
{
	watch_stop();
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
		return failed("ask the device");
	if (!(info.flags & VFIO_DEVICE_FLAGS_PCI) || info.num_regions <= region_config)
		return fail(ENOTSUP, "%s is not a PCI device to VFIO", name_.c_str());
	can_reset_ = info.flags & VFIO_DEVICE_FLAGS_RESET;
	num_regions_ = info.num_regions;
	num_irqs_ = info.num_irqs;
	bars_ = try_shared<bar_guard>();
	if (!bars_ || !try_resize(regions_, num_regions_) || !try_resize(vectors_, num_irqs_))
		return no_memory("a device's regions and interrupts");
	return watch_start();
}

int kernel_device::gone() const
{
	return fail(ENODEV, "%s is gone: unplugged, or being taken away by the kernel", name_.c_str());
}

/* A call on the device's file failed.  ENODEV there means one thing. */
int kernel_device::failed(const char *what)
{
	if (errno == ENODEV) {
		set_lost("the kernel answers ENODEV");
		return gone();
	}
	return fail_errno("%s: %s", name_.c_str(), what);
}

int kernel_device::ask_region(unsigned index, region_state *out)
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
		/* A region that this function does not have (VGA) is one of no bytes. */
		if (ioctl(fd_.get(), VFIO_DEVICE_GET_REGION_INFO, raw.data()))
			return errno == EINVAL ? 0 : failed("ask a region");
		memcpy(&info, raw.data(), sizeof(info));
		if (info.argsz <= raw.size())
			break;
		const size_t size = std::min(info.argsz, 65536u);
		many.reset(new (std::nothrow) u8[size]);
		if (!many)
			return no_memory("what a region is");
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

/* What is known of a region does not change any more. */
int kernel_device::know_region(unsigned index, const region_state **out)
{
	std::lock_guard guard(region_lock_);
	int err = 0;

	if (lost())
		return gone();
	if (index >= num_regions_)
		return fail(EINVAL, "region %u, %s has %u", index, name_.c_str(), num_regions_);
	region_state &r = regions_[index];

	if (!r.known)
		err = ask_region(index, &r);
	r.known = !err;
	*out = &r;
	return err;
}

int kernel_device::region(unsigned index, region_info *out)
{
	const region_state *r = nullptr;
	const int err = know_region(index, &r);

	if (err)
		return err;
	return try_assign(out, r->info) ? 0 : no_memory("what a region is");
}

int kernel_device::region_map(unsigned index, u64 offset, u64 size, mapping *out)
{
	const region_state *r = nullptr;
	int err = know_region(index, &r);

	if (err)
		return err;
	err = region_check_map(r->info, offset, size);
	return err ? err : bar_guard::map(bars_, fd_.get(), r->info.flags, r->fd_offset + offset, size, out);
}

int kernel_device::find_access(unsigned index, u64 offset, u64 len, u32 right, u64 *fd_offset)
{
	const region_state *r = nullptr;
	int err = know_region(index, &r);

	if (!err)
		err = region_check_access(r->info, index, offset, len, right);
	if (!err)
		*fd_offset = r->fd_offset + offset;
	return err;
}

int kernel_device::region_read(unsigned index, u64 offset, void *buf, size_t len)
{
	u8 *p = static_cast<u8 *>(buf);
	u64 at;
	const int err = find_access(index, offset, len, region_readable, &at);

	if (err)
		return err;
	while (len) {
		const ssize_t n = pread(fd_.get(), p, len, off_t(at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed("read a region");
		if (n == 0)
			return fail(EIO, "%s: region %u ends at %#llx", name_.c_str(), index,
				    static_cast<unsigned long long>(offset));
		p += n, at += u64(n), len -= size_t(n);
	}
	return 0;
}

int kernel_device::region_write(unsigned index, u64 offset, const void *buf, size_t len)
{
	const u8 *p = static_cast<const u8 *>(buf);
	u64 at;
	const int err = find_access(index, offset, len, region_writable, &at);

	if (err)
		return err;
	while (len) {
		const ssize_t n = pwrite(fd_.get(), p, len, off_t(at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed("write a region");
		if (n == 0)
			return fail(EIO, "%s: region %u ends at %#llx", name_.c_str(), index,
				    static_cast<unsigned long long>(offset));
		p += n, at += u64(n), len -= size_t(n);
	}
	return 0;
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
	return lost() ? gone() : space_->limits(out);
}

int kernel_device::dma_map(const dma_area &area)
{
	std::lock_guard guard(area_lock_);
	int err;

	if (lost())
		return gone();
	/* Once for each device: the space below would count a second time. */
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

/* Works on a lost device too: its memory is to be taken back. */
int kernel_device::dma_unmap(u64 iova, u64 size)
{
	std::lock_guard guard(area_lock_);
	int err;

	if (!areas_.count({iova, size}))
		return fail(ENOENT, "no DMA area %#llx+%#llx is mapped", static_cast<unsigned long long>(iova),
			    static_cast<unsigned long long>(size));
	if (lost() && !space_->sole(iova) && !bus_master_off())
		return fail(EBUSY, "%s is lost and may still reach its memory", name_.c_str());
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

/* Takes away what no other device of the same address space has mapped.  True: that was all. */
bool kernel_device::revoke_areas()
{
	std::lock_guard guard(area_lock_);

	for (auto it = areas_.begin(); it != areas_.end();)
		it = space_->sole(it->first) && !space_->unmap(it->first, it->second) ? areas_.erase(it) :
											std::next(it);
	return areas_.empty();
}

int kernel_device::answers()
{
	const int err = lost() ? gone() : config_answers(*this);

	if (err == -ENODEV && !lost())
		set_lost("all that is read from it is ones: unplugged, or its link is down");
	return err;
}

int kernel_device::reset()
{
	if (lost())
		return gone();
	if (!can_reset_)
		return fail(EOPNOTSUPP, "%s cannot be reset by itself (no function-level reset, and others on its bus)",
			    name_.c_str());
	return ioctl(fd_.get(), VFIO_DEVICE_RESET) ? failed("reset") : 0;
}

/*
 * Straight to the file: a device that the kernel wants back counts as lost, yet it
 * still is there and may still write.  PCI 3.0 §6.2.2: command register, bit 2.
 * The read behind the write returns only after the write has reached the device.
 */
bool kernel_device::bus_master_off()
{
	static constexpr u16 master = 4;
	region_state r;
	u16 command;
	u64 at;

	if (ask_region(region_config, &r))
		return false;
	at = r.fd_offset + 4;
	if (pread(fd_.get(), &command, 2, off_t(at)) != 2)
		return false;
	command = htole16(u16(le16toh(command) & ~master));
	if (pwrite(fd_.get(), &command, 2, off_t(at)) != 2 || pread(fd_.get(), &command, 2, off_t(at)) != 2)
		return false;
	/* One that answers with all ones is not there, and masters nothing. */
	return !(le16toh(command) & master) || command_of_nobody(le16toh(command));
}

/*
 * Not a bus master: its engine writes nothing.  Else what the IOMMU let it reach is taken away, which holds even
 * a device that does not obey; unless another device of the same address space still has it mapped.
 */
int kernel_device::quiesce()
{
	if (bus_master_off())
		return 0;
	return revoke_areas() ? 0 : -EAGAIN;
}

} // namespace usdma::vfio
