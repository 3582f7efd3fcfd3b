/* SPDX-License-Identifier: BSD-3-Clause */
/* The model's PCI configuration space (PCI 3.0 §6, MSI-X §6.8.2): what reads give, and which bits a write changes. */
#pragma once

#include "driver/base/types.h"

namespace usdma::sim {

class pci_config {
public:
	static constexpr u32 size = 256;

	/* Sizes are powers of two; bar2 0: there is none. */
	void init(u64 bar0_size, u64 bar2_size, u64 bar4_size, u32 vectors, u32 pba_offset);
	void read(u32 offset, u8 *buf, u32 len) const;
	void write(u32 offset, const u8 *buf, u32 len);
	bool bus_master() const { return space_[4] & 4; }

private:
	void put(u32 offset, u64 value, unsigned bytes, u64 writable = 0);

	u8 space_[size] = {};
	u8 writable_[size] = {};
};

} // namespace usdma::sim
