/* SPDX-License-Identifier: BSD-3-Clause */
/* No translation: an IOVA is a physical address, and only memory whose physical address stays can be used. */
#pragma once

#include "driver/base/unique_fd.h"
#include "driver/vfio/kernel_space.h"

namespace usdma::vfio {

class noiommu_space : public dma_space {
public:
	explicit noiommu_space(unique_fd fd) : fd_(std::move(fd)) {}

	int limits(address_limits *out) override;
	const char *backend() const override { return "noiommu"; }
	bool translates() const override { return false; }

protected:
	int kernel_map(const dma_area &area) override;
	int kernel_unmap(u64, u64) override { return 0; }

private:
	unique_fd fd_; /* the container: holds the group open */
};

} // namespace usdma::vfio
