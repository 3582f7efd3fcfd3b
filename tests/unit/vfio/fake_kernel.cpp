/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/vfio/fake_kernel.h"

#include "driver/vfio/iommufd_abi.h"

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/vfio.h>
#include <sys/syscall.h>
#include <unistd.h>

static usdma::test::fake_kernel *kernel;

extern "C" int ioctl(int fd, unsigned long request, ...) noexcept
{
	va_list args;

	va_start(args, request);
	void *const arg = va_arg(args, void *);
	va_end(args);
	if (!kernel || (_IOC_TYPE(request) != VFIO_TYPE && _IOC_TYPE(request) != ';'))
		return int(syscall(SYS_ioctl, fd, request, arg));
	const int got = kernel->answer(request, arg);
	if (got < 0)
		errno = -got;
	return got < 0 ? -1 : got;
}

namespace usdma::test {

using namespace usdma::vfio;

fake_kernel::fake_kernel(kernel_backend backend)
{
	opt.sys = files.sys();
	opt.dev = files.dev();
	opt.backend = backend;
	files.add("0000:00:04.0", 7, "vfio-pci");
	files.file(files.device("0000:00:04.0") + "/vfio-dev/vfio0/dev", "");
	for (const char *name : {"/iommu", "/vfio/vfio", "/vfio/7", "/vfio/devices/vfio0"})
		files.file(files.dev() + name, "");
	device.reset(::open((files.dev() + "/vfio/devices/vfio0").c_str(), O_RDWR | O_CLOEXEC));
	if (ftruncate(device.get(), bar_at + bar_size))
		abort();
	kernel = this;
}

fake_kernel::~fake_kernel()
{
	kernel = nullptr;
}

u16 fake_kernel::command() const
{
	u16 value = 0;

	return pread(device.get(), &value, sizeof(value), 4) == sizeof(value) ? value : u16(~0);
}

void fake_kernel::set_command(u16 value) const
{
	if (pwrite(device.get(), &value, sizeof(value), 4) != sizeof(value))
		abort();
}

/* BAR 0 is mappable but for its second page, where the MSI-X table is. */
int fake_kernel::region(void *arg) const
{
	struct {
		vfio_region_info info;
		vfio_info_cap_header head; /* vfio_region_info_cap_sparse_mmap, from here on */
		u32 areas, reserved;
		vfio_region_sparse_mmap_area area[2];
	} r = {};

	memcpy(&r.info, arg, sizeof(r.info));
	if (r.info.index != VFIO_PCI_CONFIG_REGION_INDEX && r.info.index != VFIO_PCI_BAR0_REGION_INDEX)
		return -EINVAL;
	r.info.flags = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
	r.info.size = bar_at;
	if (r.info.index == VFIO_PCI_BAR0_REGION_INDEX) {
		r.info.flags |= VFIO_REGION_INFO_FLAG_MMAP | VFIO_REGION_INFO_FLAG_CAPS;
		r.info.offset = bar_at;
		r.info.size = bar_size;
		r.info.cap_offset = sizeof(r.info);
		r.head = {VFIO_REGION_INFO_CAP_SPARSE_MMAP, 1, 0};
		r.areas = 2;
		r.area[0] = {0, 4096};
		r.area[1] = {8192, bar_size - 8192};
	}
	memcpy(arg, &r, r.info.argsz < sizeof(r) ? r.info.argsz : sizeof(r));
	return 0;
}

int fake_kernel::irqs(const void *arg)
{
	vfio_irq_set s;
	int fd = -1;

	memcpy(&s, arg, sizeof(s));
	if (s.count)
		memcpy(&fd, static_cast<const u8 *>(arg) + sizeof(s), sizeof(fd));
	if (s.index == VFIO_PCI_REQ_IRQ_INDEX)
		request_fd = fd;
	else if (s.count > most_vectors)
		return -ENOSPC;
	else
		vectors = s.count;
	return 0;
}

int fake_kernel::map(u64 iova, u64 size)
{
	if (const int err = std::exchange(map_errno, 0))
		return -err;
	mapped[iova] = size;
	return 0;
}

int fake_kernel::unmap(u64 iova, u64 *size)
{
	if (!mapped.count(iova))
		return -ENOENT;
	const u64 left = std::exchange(left_by_unmap, 0);
	*size = mapped[iova] - left;
	if (!left)
		mapped.erase(iova);
	return 0;
}

int fake_kernel::answer(unsigned long request, void *arg)
{
	switch (request) {
	case VFIO_CHECK_EXTENSION:
		return type1;
	case VFIO_GROUP_GET_DEVICE_FD:
		return dup(device.get());
	case VFIO_GROUP_GET_STATUS:
		static_cast<vfio_group_status *>(arg)->flags = VFIO_GROUP_FLAGS_VIABLE;
		return 0;
	case VFIO_DEVICE_GET_INFO: {
		auto *i = static_cast<vfio_device_info *>(arg);

		i->flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET;
		i->num_regions = VFIO_PCI_NUM_REGIONS;
		i->num_irqs = VFIO_PCI_NUM_IRQS;
		return 0;
	}
	case VFIO_DEVICE_GET_REGION_INFO:
		return region(arg);
	case VFIO_DEVICE_GET_IRQ_INFO: {
		auto *i = static_cast<vfio_irq_info *>(arg);

		i->flags = VFIO_IRQ_INFO_EVENTFD;
		i->count = i->index == VFIO_PCI_REQ_IRQ_INDEX ? 1 : i->index == VFIO_PCI_MSIX_IRQ_INDEX ? 4 : 0;
		return 0;
	}
	case VFIO_DEVICE_SET_IRQS:
		return irqs(arg);
	case VFIO_IOMMU_MAP_DMA: {
		const auto *m = static_cast<const vfio_iommu_type1_dma_map *>(arg);

		return map(m->iova, m->size);
	}
	case VFIO_IOMMU_UNMAP_DMA: {
		auto *m = static_cast<vfio_iommu_type1_dma_unmap *>(arg);
		u64 size = m->size;
		const int err = unmap(m->iova, &size);

		m->size = size;
		return err;
	}
	case abi::ioctl_ioas_iova_ranges: {
		auto *q = static_cast<abi::ioas_iova_ranges *>(arg);

		*reinterpret_cast<abi::iova_range *>(q->allowed_iovas) = {0, (u64(1) << 48) - 1};
		q->num_iovas = 1;
		q->out_iova_alignment = 4096;
		return 0;
	}
	case abi::ioctl_ioas_map: {
		const auto *m = static_cast<const abi::ioas_map *>(arg);

		return map(m->iova, m->length);
	}
	case abi::ioctl_ioas_unmap: {
		auto *m = static_cast<abi::ioas_unmap *>(arg);

		return unmap(m->iova, &m->length);
	}
	default: /* version, container, IOMMU, reset, binding; limits of a kernel before 5.4 */
		return 0;
	}
}

} // namespace usdma::test
