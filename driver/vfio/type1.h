/* SPDX-License-Identifier: BSD-3-Clause */
/* The group path: group files and type1 containers. */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/vfio/kernel.h"
#include "driver/vfio/kernel_space.h"

#include <memory>
#include <span>

namespace usdma::vfio {

/* A container with a type1 IOMMU; several groups may be in it. */
class type1_space : public dma_space {
public:
	explicit type1_space(unique_fd fd) : fd_(std::move(fd)) {}

	int fd() const { return fd_.get(); }
	int limits(address_limits *out) override;
	const char *backend() const override { return "type1"; }

protected:
	int kernel_map(const dma_area &area) override;
	int kernel_unmap(u64 iova, u64 size) override;

	unique_fd fd_;
};

/*
 * The bytes that VFIO_IOMMU_GET_INFO gave.  -EPROTO: a capability list that loops or leaves raw. available: ~0
 * where not told.
 */
int type1_parse_info(std::span<const u8> raw, address_limits *out, u64 *available);

/* An open group in its container.  A process can open a group once, so its devices share this. */
class vfio_group {
public:
	vfio_group(unique_fd fd, std::shared_ptr<dma_space> space, bool isolated)
		: space_(std::move(space)), fd_(std::move(fd)), isolated_(isolated)
	{
	}

	int fd() const { return fd_.get(); }
	const std::shared_ptr<dma_space> &space() const { return space_; }
	/* For one device alone. */
	bool isolated() const { return isolated_; }

private:
	std::shared_ptr<dma_space> space_; /* goes after the group's file */
	unique_fd fd_;
	bool isolated_;
};

/* Opens the device's group, or takes the one that is open, and a container that takes it. */
int group_open(const pci::address &addr, int group, const kernel_options &opt, std::shared_ptr<vfio_group> *out);

} // namespace usdma::vfio
