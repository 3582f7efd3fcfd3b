/* SPDX-License-Identifier: BSD-3-Clause */
/* The cdev backend: each device has its own file, bound to one iommufd and one I/O address space for all. */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/vfio/kernel.h"
#include "driver/vfio/kernel_space.h"

#include <memory>

namespace usdma::vfio {

class iommufd_space : public dma_space {
public:
	iommufd_space(unique_fd fd, u32 ioas) : fd_(std::move(fd)), ioas_(ioas) {}

	int fd() const { return fd_.get(); }
	u32 ioas() const { return ioas_; }
	int limits(address_limits *out) override;
	const char *backend() const override { return "iommufd"; }

protected:
	int kernel_map(const dma_area &area) override;
	int kernel_unmap(u64 iova, u64 size) override;

private:
	unique_fd fd_;
	u32 ioas_;
};

/* Opens the device and attaches it to an address space, a shared one if the kernel permits it. */
int iommufd_open(const pci::address &addr, int group, const std::string &cdev, const kernel_options &opt,
		 unique_fd *device, std::shared_ptr<dma_space> *space);

} // namespace usdma::vfio
