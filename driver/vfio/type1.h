/* SPDX-License-Identifier: BSD-3-Clause */
/* The group backend: group files and type1 containers. */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/vfio/kernel.h"
#include "driver/vfio/kernel_space.h"

#include <memory>
#include <span>

namespace usdma::vfio {

/* A container with a type1 IOMMU; it may contain several groups. */
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
 * Parses the result of VFIO_IOMMU_GET_INFO. -EPROTO: a capability list that loops or exceeds raw. *available:
 * remaining mappings, ~0 if not reported.
 */
int type1_parse_info(std::span<const u8> raw, address_limits *out, u64 *available);

/* An open group in its container. A process can open a group only once, so the group's devices share this. */
class vfio_group {
public:
	vfio_group(unique_fd fd, std::shared_ptr<dma_space> space, bool isolated)
		: space_(std::move(space)), fd_(std::move(fd)), isolated_(isolated)
	{
	}

	int fd() const { return fd_.get(); }
	const std::shared_ptr<dma_space> &space() const { return space_; }
	/* The group's only device is an isolated one. */
	bool isolated() const { return isolated_; }

private:
	std::shared_ptr<dma_space> space_; /* destroyed after the group's file is closed */
	unique_fd fd_;
	bool isolated_;
};

/* Opens the device's group, or reuses the open one, and adds it to a container that accepts it. */
int group_open(const pci::address &addr, int group, const kernel_options &opt, std::shared_ptr<vfio_group> *out);

} // namespace usdma::vfio
