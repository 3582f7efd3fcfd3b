/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * AMD's PTDMA ("pass-through DMA", 1022:1498): registers, descriptors and rules, for the driver (driver/engines/ptdma)
 * and the model (driver/sim/models/ptdma). All fields little-endian. There is no public specification. The source:
 *   Linux, drivers/dma/ptdma/ (later drivers/dma/amd/ptdma/): ptdma.h, ptdma-dev.c, ptdma-pci.c, ptdma-dmaengine.c,
 *   ptdma-debugfs.c. A name here is a macro of ptdma.h, or a function or table of the others.
 * "Model:" marks what it does not say and the model had to choose; the driver does not depend on it.
 *
 * There is one queue: a ring of descriptors in memory, with pointers in registers. Linux gives it one descriptor at a
 * time, writes the tail and sets RUN for each (pt_core_execute_cmd), and takes a completion or an error in the
 * interrupt's status for that of the descriptor, whether it polls or was interrupted (pt_check_status_trans). What
 * the queue does with several, where the head is while it runs and after an error, and what it has begun when RUN is
 * cleared: no line of Linux depends on it, and nothing here does.
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::ptdma {

inline constexpr u16 pci_vendor = 0x1022, pci_device = 0x1498; /* pt_pci_table */
inline constexpr u32 pci_class = 0x108000;                     /* Model: encryption, other */
inline constexpr u32 queue_count = 1; /* MAX_HW_QUEUES; vector 0 is its own, pt_get_msix_irqs */
/* The driver's choice: Linux passes any length of 32 bits, and the model takes it. */
inline constexpr u64 max_bytes = MiB;
inline constexpr u32 address_bits = 48; /* pt_pci_probe; struct dword3 and dword5 have 16 bits of the upper half */

/* ---- BAR2 (dev_vdata) ---------------------------------------------------------------------------------- */

inline constexpr u64 bar_size = 64 * KiB;                    /* Model */
inline constexpr u32 msix_table = 0x8000, msix_pba = 0xc000; /* Model */
inline constexpr u64 used_bar = 0x7000;                      /* what is used of it */

enum : u32 {
	reg_priority = 0x0, /* CMD_QUEUE_PRIO_OFFSET */
	reg_request = 0x4,  /* CMD_REQID_CONFIG_OFFSET */
	reg_timeout = 0x8,  /* CMD_TIMEOUT_OFFSET; 0: none */
	reg_version = 0x10, /* RO: CMD_PT_VERSION; pt_debugfs_info_show alone reads it */
	reg_config = 0x1120,
	reg_clock = 0x6004, /* CMD_CLK_GATE_CTL_OFFSET */
};
enum : u32 {
	version_queues_shift = 15,                      /* RI_NVQM_SHIFT; below it, in bits 5:0, the version */
	version_value = 1u << version_queues_shift | 5, /* Model */
};
/* What Linux writes (pt_core_init), in this order: config, priority, timeout, clock, request. */
enum : u32 {
	config_vhb = 1, /* CMD_CONFIG_VHB_EN. Model: nothing runs without it */
	priority_value = 6,
	timeout_value = 0,
	clock_value = 0x1001, /* CMD_CLK_GATE_CONFIG */
	request_value = 0,
};

/* Of the queue, 32 bits each. */
enum : u32 {
	q_control = 0x1000,    /* CMD_Q_CONTROL_BASE */
	q_tail = 0x1004,       /* lower half of the address behind the last descriptor that is to run */
	q_head = 0x1008,       /* … of the next one that runs */
	q_int_enable = 0x100c, /* int_* */
	q_int_status =
		0x1010,    /* RW1C: int_*; set whether enabled or not, as pt_tx_status polls it without interrupts */
	q_status = 0x1100, /* RO: the error, if int_error is set. Linux reads it before it clears that. Model: 0 else */
	q_int_detail = 0x1104, /* CMD_Q_INT_STATUS_BASE: Linux reads it and drops the value */
};
enum : u32 {
	control_run =
		1, /* CMD_Q_RUN: set again for each descriptor. Model: 0 again when the queue is empty, or failed */
	control_halt = 2,
	control_size_shift = 3, /* CMD_Q_SIZE, 5 bits: a ring has 2^(value + 1) descriptors, QUEUE_SIZE_VAL */
	control_size_mask = 0x1f,
	control_high_shift = 16, /* bits 47:32 of the ring's address, pt_core_init */
};
/* An error: SUPPORTED_INTERRUPTS has these two. Model: int_error without int_done. */
enum : u32 { int_done = 1, int_error = 2, int_all = int_done | int_error };

/*
 * The queue stops at an error: to go on, Linux writes the tail to q_head (pt_do_cmd_complete), so what is in the ring
 * does not run. Model: head stays at the descriptor that failed, which would run again.
 *
 * CMD_Q_ERROR has 6 bits. pt_error_codes has names with a number each, and is indexed by the value, which is not that
 * number from the second on. These are the numbers of the names; the driver depends on 6 to 9 alone, and only for the
 * reason that it reports.
 */
enum : u32 {
	error_mask = 0x3f,
	error_none = 0,
	error_engine = 1,
	error_function_type = 3,
	error_function_reserved = 8,
	error_length = 9,
	error_memory_select = 12,
	error_read = 19,  /* IDMA0, AXI slave error: in */
	error_write = 38, /* ODMA0, AXI slave error: out. Model: a descriptor that cannot be read is error_fetch */
	error_fetch = 20, /* Model */
	error_parity = 43,
};

/* ---- descriptors ----------------------------------------------------------------------------------- */

inline constexpr u32 ring_entries = 32;    /* CMD_Q_LEN: the only size that Linux uses */
inline constexpr u32 ring_align = 4 * KiB; /* pt_core_init: a page will do for up to 128. Model: its size */
inline constexpr u32 ring_size_value = 4;  /* of ring_entries */

/* struct ptdma_desc */
struct alignas(32) descriptor {
	u32 control; /* desc_* */
	u32 len;
	u32 src_low, src_high; /* bits 47:32 in bits 15:0; above them desc_memory */
	u32 dst_low, dst_high;
	u32 reserved, reserved_too;
};
static_assert(sizeof(descriptor) == 32);
enum : u32 {
	desc_interrupt = 2,   /* DWORD0_IOC. Model: without it int_done is not set */
	desc_copy = 0x500012, /* CMD_DESC_DW0_VAL: engine 5, pass-through; its function 0; DWORD0_IOC; bit 4 */
	desc_engine_mask = 0xf00000,
	desc_high_mask = 0xffff,
	desc_memory_mask = 0x30000, /* 0: the system's memory, the only one that Linux uses */
};

} // namespace usdma::ptdma
