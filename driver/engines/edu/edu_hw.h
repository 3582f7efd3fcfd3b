/* SPDX-License-Identifier: BSD-3-Clause */
/* QEMU's edu device, as described in QEMU's docs/specs/edu, and as releases before 8 behave where they differ. */
#pragma once

#include "driver/base/types.h"

namespace usdma::edu {

inline constexpr u16 pci_vendor = 0x1234, pci_device = 0x11e8;

/* BAR0, 1 MiB. Below 0x80 only accesses of 4 bytes, from there on 4 or 8. */
inline constexpr u64 bar0_size = 1 * MiB;
enum : u32 {
	reg_id = 0x00,         /* RO 32: major << 24 | minor << 16 | 0xed */
	reg_liveness = 0x04,   /* RW 32: reads as the inverse of what was written */
	reg_irq_status = 0x24, /* RO 32 */
	reg_irq_raise = 0x60,  /* WO 32 */
	reg_irq_ack = 0x64,    /* WO 32 */
	reg_dma_src = 0x80,    /* RW 64; the four are read-only while a transfer runs */
	reg_dma_dst = 0x88,    /* RW 64 */
	reg_dma_len = 0x90,    /* RW 64 */
	reg_dma_cmd = 0x98,    /* RW 64: dma_* */
};
inline constexpr u32 id_value = 0xed, id_mask = 0xffff;
enum : u64 { dma_run = 1, dma_to_host = 2, dma_interrupt = 4 };
inline constexpr u32 irq_dma = 0x100; /* in reg_irq_status: a transfer completed */

/* Device memory as addressed by the DMA registers. */
inline constexpr u64 memory_at = 0x40000, memory_bytes = 4096;
/*
 * Up to QEMU 7.2 the range check is off by one: a transfer of the last byte aborts the emulator. So the last
 * word is not used.
 */
inline constexpr u64 memory_usable = memory_bytes - 8;
/* Partition by the driver: bytes available to users; the rest is a bounce buffer for host-to-host copies. */
inline constexpr u64 memory_given = 3584;

/* Duration of a transfer, whatever its size. */
inline constexpr u64 transfer_ms = 100;
/* The driver's limit, not the device's: longer requests would take too long. */
inline constexpr u64 max_length = 64 * MiB;
/* The default address mask (dma_mask=). */
inline constexpr u64 default_mask = (u64(1) << 28) - 1;

} // namespace usdma::edu
