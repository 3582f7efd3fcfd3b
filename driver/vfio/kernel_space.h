/* SPDX-License-Identifier: BSD-3-Clause */
/* An address space shared by devices in the kernel: a type1 container, or an I/O address space of iommufd. */
#pragma once

#include "driver/base/barrier.h"
#include "driver/vfio/device.h"

#include <map>
#include <mutex>

namespace usdma::vfio {

class dma_space {
public:
	virtual ~dma_space() = default;

	/* An area that is mapped again (for another device) is counted, not mapped twice. */
	int map(const dma_area &area);
	int unmap(u64 iova, u64 size);
	/* Exactly one device has mapped the area at iova: unmapping it removes it from the IOMMU. */
	bool sole(u64 iova);
	/* The kernel's current limits: devices that join may narrow them. */
	virtual int limits(address_limits *out) = 0;
	virtual const char *backend() const = 0;

protected:
	virtual int kernel_map(const dma_area &area) = 0;
	virtual int kernel_unmap(u64 iova, u64 size) = 0;
	size_t mapped() const { return load_relaxed(&count_); }

private:
	struct entry {
		dma_area area;
		unsigned users;
	};

	int explain(const dma_area &area);
	const entry *find_overlap(const dma_area &area) const;

	std::mutex lock_;
	std::map<u64, entry> areas_;
	size_t count_ = 0; /* size of areas_, readable without the lock; atomic */
};

/* Reports a failed map ioctl, with numbers: ENOMEM is memlock, ENOSPC the kernel's limit on mappings. */
int dma_map_error(int err, const dma_area &area, size_t mapped, const char *max_hint);
u64 pinned_kib();

} // namespace usdma::vfio
