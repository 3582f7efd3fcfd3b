/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device is opened only once per process. The kernel excludes other processes, but gives the holder of a
 * group a second file of the same device; two drivers would then write the same registers, and each reset what
 * the other uses.
 */
#pragma once

#include "driver/pci/address.h"

namespace usdma::vfio {

class device_claim {
public:
	device_claim() = default;
	~device_claim();
	device_claim(const device_claim &) = delete;
	device_claim &operator=(const device_claim &) = delete;
	device_claim(device_claim &&other) noexcept : addr_(other.addr_), held_(other.held_) { other.held_ = false; }
	device_claim &operator=(device_claim &&other) = delete;

	/* -EBUSY: already open in this process. */
	int take(const pci::address &addr);

private:
	pci::address addr_;
	bool held_ = false;
};

} // namespace usdma::vfio
