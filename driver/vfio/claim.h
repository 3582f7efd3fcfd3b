/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device is opened once in a process.  The kernel keeps other processes out, but
 * gives the holder of a group a second file of the same device; two drivers would
 * then write the same registers, and each release what the other still uses.
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

	/* -EBUSY: this process has it already. */
	int take(const pci::address &addr);

private:
	pci::address addr_;
	bool held_ = false;
};

} // namespace usdma::vfio
