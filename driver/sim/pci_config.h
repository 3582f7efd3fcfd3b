/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model's PCI configuration space: what reads give, which bits a write changes
 * (PCI 3.0 §6, MSI-X §6.8.2; PCI Power Management 1.2 §3.2; PCI Express 3.0 §7.8).
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::sim {

class pci_config {
public:
	/* A PCI Express function's; nothing stands in the extended part. */
	static constexpr u32 size = 4096;

	/* What a write asked for beyond the bits that it changed. */
	enum class effect : u8 { none, reset /* of the function: its registers are to have their start values */ };

	/* Sizes are powers of two; bar2 0: there is none. */
	void init(u64 bar0_size, u64 bar2_size, u64 bar4_size, u32 vectors, u32 pba_offset);
	/* busy: accesses of the function's are in flight (device status, transactions pending). */
	void read(u32 offset, u8 *buf, u32 len, bool busy) const;
	/* A reset has put this space back when it returns. */
	effect write(u32 offset, const u8 *buf, u32 len);
	/* Only then it reads and writes memory: bus mastering is on, and so is its power. */
	bool may_reach_memory() const;

private:
	void put(u32 offset, u64 value, unsigned bytes, u64 writable = 0);
	unsigned power_state() const;

	u8 space_[size] = {};
	u8 writable_[size] = {};
};

} // namespace usdma::sim
