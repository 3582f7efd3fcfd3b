/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model's PCI configuration space: what reads return, which bits a write changes (PCI 3.0 §6, MSI §6.8.1, MSI-X
 * §6.8.2; PCI Power Management 1.2 §3.2; PCI Express 3.0 §7.8; address translation: PCI Express 5.0 §10.5, §7.8.8).
 */
#pragma once

#include "driver/base/types.h"

#include <cstddef>

namespace usdma::sim {

struct pci_layout {
	u16 vendor = 0, device = 0;
	u32 class_code = 0;
	u8 revision = 0;
	u8 registers = 0;        /* the BAR whose registers act when they are accessed */
	bool has_msi = false;    /* instead of MSI-X */
	bool translates = false; /* has ATS, page requests and PASID */
	struct {
		u64 size = 0;  /* a power of two; 0: none */
		u32 flags = 0; /* bits 3:0 of the register; bar_64: takes the next one, too */
	} bar[6];
	u32 vectors = 0;
	u32 msix_bar = 0, msix_table = 0, msix_pba = 0;
};
/* With -ftrivial-auto-var-init, g++ 12 clears padding behind an array of structures at wrong addresses. */
static_assert(offsetof(pci_layout, msix_pba) + sizeof(u32) == sizeof(pci_layout));
inline constexpr u32 bar_64 = 4, bar_prefetch = 8;

class pci_config {
public:
	/* As PCI Express has it; the extended part is empty without pci_layout::translates. */
	static constexpr u32 size = 4096;

	/* Side effect of a write. */
	enum class effect : u8 { none, reset /* function reset: the caller resets the registers */ };

	void init(const pci_layout &l);
	/* busy: the function has accesses in flight (device status, transactions pending). */
	void read(u32 offset, u8 *buf, u32 len, bool busy) const;
	/* On effect::reset this space has been reset already. */
	effect write(u32 offset, const u8 *buf, u32 len);
	/* The function may access memory: bus mastering is on, and the power state is D0. */
	bool may_reach_memory() const;
	/* The client has enabled them. */
	bool has_page_requests() const;
	bool has_pasid() const;

private:
	void put(u32 offset, u64 value, unsigned bytes, u64 writable = 0);
	void put_bars(const pci_layout &l);
	void put_interrupts(const pci_layout &l);
	void put_translation();
	unsigned power_state() const;

	u8 space_[size] = {};
	u8 writable_[size] = {};
};

} // namespace usdma::sim
