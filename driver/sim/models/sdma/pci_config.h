/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model's PCI configuration space: what reads return, which bits a write changes (PCI 3.0 §6, MSI-X §6.8.2;
 * PCI Power Management 1.2 §3.2; PCI Express 3.0 §7.8).
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::sim {

class pci_config {
public:
	/* As PCI Express has it; the extended part is empty. */
	static constexpr u32 size = 4096;

	/* Side effect of a write. */
	enum class effect : u8 { none, reset /* function reset: the caller resets the registers */ };

	/* Sizes are powers of two; bar2 0: there is none. */
	void init(u64 bar0_size, u64 bar2_size, u64 bar4_size, u32 vectors, u32 pba_offset);
	/* busy: the function has accesses in flight (device status, transactions pending). */
	void read(u32 offset, u8 *buf, u32 len, bool busy) const;
	/* On effect::reset this space has been reset already. */
	effect write(u32 offset, const u8 *buf, u32 len);
	/* The function may access memory: bus mastering is on, and the power state is D0. */
	bool may_reach_memory() const;

private:
	void put(u32 offset, u64 value, unsigned bytes, u64 writable = 0);
	unsigned power_state() const;

	u8 space_[size] = {};
	u8 writable_[size] = {};
};

} // namespace usdma::sim
