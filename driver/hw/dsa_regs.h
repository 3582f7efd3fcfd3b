/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel Data Streaming Accelerator (DSA) 1.0 and 2.0: registers, descriptors and rules, for the driver
 * (driver/engines/dsa) and the model (driver/sim/models/dsa). All fields little-endian.
 *
 * Each fact names its source; a number alone is a section of
 *   [A]  Intel Data Streaming Accelerator Architecture Specification, 341204-006US, revision 3.0, June 2025
 * and the public drivers are
 *   [L]  Linux, drivers/dma/idxd: registers.h, device.c, init.c, irq.c; include/uapi/linux/idxd.h
 *   [D]  DPDK, drivers/dma/idxd: idxd_pci.c, idxd_common.c
 *   [S]  SPDK, include/spdk/idxd_spec.h, lib/idxd/idxd_user.c
 *   [V]  Linux, tools/testing/selftests/vfio/lib/drivers/dsa/dsa.c
 *   [E]  Intel's emulation of the device, intel/linux-kernel-dcp, drivers/vfio/mdev/idxd/vdev.c
 * "Model:" marks what none of them says and the model had to choose; the driver does not depend on it.
 *
 * Rules that a driver must know:
 *   - Descriptors of a queue may run at the same time, and one that fails does not stop those after it (3.9). Order
 *     and a stop at the first failure exist within a batch, by the Fence flag (3.8).
 *   - A completion record is written for a success only on request (3.6), and its address must be mapped: a fault there
 *     is reported in SWERROR only, and the descriptor is dropped (5.8.1, codes 1a and 1b).
 *   - A dedicated queue has no flow control: a descriptor without a slot is dropped, with an error in SWERROR (5.3).
 *   - Anything but one write of 64 bytes to a portal is ignored (9.3): MOVDIR64B for dedicated queues, ENQCMD for
 * shared ones. These need a PASID (5.2), which ENQCMD takes from the process (8.1.1); VFIO gives none to a process.
 *   - Reads of portals return no state and flush nothing (9.3).
 *   - One administrative command at a time: a write while Active is set is discarded, with an error (9.2.12).
 *   - Disable, Drain, Abort and Reset WQ are refused for a queue that is not enabled ([L] registers.h, [E]).
 *   - Erratum 843306 (dmaengine list, 2025-10-01, "drain ATS translations when disabling WQ"): Disable WQ may leave
 *     wrong translations cached; [L] idxd_wq_disable() drains and resets instead. The driver here never disables.
 *   - Abort and reset do not stop an operation that has begun; a function-level reset does (3.15).
 *   - Turning bus mastering off while the device is enabled halts it (5.7).
 *   - A chip that reports Request Interrupt Handle in CMDCAP takes handles, not indexes, in descriptors (3.7).
 */
#pragma once

#include "driver/base/types.h"

#include <cstddef>

namespace usdma::dsa {

inline constexpr u16 vendor_intel = 0x8086;
inline constexpr u16 id_spr = 0x0b25, id_gnrd = 0x11fb, id_dmr = 0x1212; /* [L] pci_ids.h, registers.h */
inline constexpr u32 class_dsa = 0x088000;                               /* appendix C: other system peripheral */

/* ---- BAR0: general registers 9.2 ----------------------------------------------------------------------- */

enum : u32 {
	off_version = 0x00,   /* RO 32 9.2.1: major << 8 | minor */
	off_gencap = 0x10,    /* RO 64 9.2.2: gencap_* */
	off_wqcap = 0x20,     /* RO 64 9.2.3: wqcap_* */
	off_grpcap = 0x30,    /* RO 64 9.2.4: grpcap_* */
	off_engcap = 0x38,    /* RO 64 9.2.5: engines, bits 7:0 */
	off_opcap = 0x40,     /* RO 256 9.2.6: a bit for each operation */
	off_offsets = 0x60,   /* RO 128 9.2.7: GRPCFG, WQCFG, MSIXPERM, IMS, PERFMON times 0x100, 16 bits each */
	off_gencfg = 0x80,    /* RW 32 9.2.8: gencfg_*; read-only unless the device is disabled */
	off_genctrl = 0x88,   /* RW 32 9.2.9: genctrl_* */
	off_gensts = 0x90,    /* RO 32 9.2.10: device_state, reset type << 2 */
	off_intcause = 0x98,  /* W1C 32 9.2.11: cause_* */
	off_cmd = 0xa0,       /* WO 32 9.2.12: operand, command << 20, cmd_interrupt */
	off_cmdstatus = 0xa8, /* RO 32 9.2.13: cmd_error, result << 8, cmd_active */
	off_cmdcap = 0xb0,    /* RO 32 9.2.14: a bit for each command; with gencap_cmdcap only */
	off_swerror = 0xc0,   /* 256 9.2.15: swerr_*; valid and overflow are W1C */
};
inline constexpr u32 table_step = 0x100;

/* GENCAP 9.2.2 */
enum : u64 {
	gencap_block_on_fault = 1 << 0,
	gencap_overlap = 1 << 1, /* Memory Move copies overlapping buffers */
	gencap_cache = 1 << 2,   /* flag_cache1 */
	gencap_cmdcap = 1 << 4,
	gencap_readback = 1 << 8,    /* flag_cache2 */
	gencap_fault_info = 1 << 12, /* completion::fault_info */
	gencap_config = u64(1) << 31,
};
inline constexpr u32 gencap_xfer_shift = 16, gencap_batch_shift = 21; /* log2, 5 and 4 bits */

/* WQCAP 9.2.3: total size 15:0, number of queues 23:16, WQCFG has 32 << n bytes 27:24 */
enum : u64 {
	wqcap_shared = u64(1) << 48,
	wqcap_dedicated = u64(1) << 49,
	wqcap_priority = u64(1) << 51,
	wqcap_occupancy = u64(1) << 52,
	wqcap_opcfg = u64(1) << 54,
};
/* GRPCAP 9.2.4: groups 7:0, read buffers 15:8 */
enum : u64 { grpcap_buffer_control = 1 << 16, grpcap_buffer_limit = 1 << 17 };

enum : u32 { gencfg_limit = 0xff, gencfg_user_interrupts = 1 << 12 };
enum : u32 { genctrl_swerror = 1, genctrl_halt = 2 }; /* raise vector 0 */
enum class device_state : u8 { disabled = 0, enabled = 1, drain = 2, halt = 3 };
inline constexpr u32 needs_flr = 1; /* reset type 9.2.10 */
enum : u32 { cause_swerror = 1, cause_command = 2, cause_halt = 1 << 4 };

/* ---- commands 3.15, 9.2.12, 5.8.3 ------------------------------------------------------------------------ */

enum class command : u8 {
	enable_device = 1,
	disable_device = 2,
	drain_all = 3,
	abort_all = 4,
	reset_device = 5,
	enable_wq = 6,  /* operand: the queue */
	disable_wq = 7, /* this and the next three: a bit for each queue, and the queues' number / 16 << 16 */
	drain_wq = 8,
	abort_wq = 9,
	reset_wq = 10,
	drain_pasid = 11,
	abort_pasid = 12,
	request_handle = 13, /* this and the next: the index of a vector; cmd_ims: of the IMS */
	release_handle = 14,
};
enum : u32 { cmd_code_shift = 20, cmd_operand = 0xfffff, cmd_ims = 1 << 16, cmd_interrupt = 1u << 31 };
enum : u32 { cmd_active = 1u << 31, cmd_result_shift = 8, cmd_error_mask = 0xff };

enum class cmd_error : u8 {
	none = 0,
	unsupported = 0x01,
	wq_index = 0x02,
	halted = 0x05,
	/* Enable Device 5.1 */
	not_disabled = 0x10,
	bus_master = 0x12,
	wq_sizes = 0x14,
	group_half = 0x15, /* queues without engines, or the reverse */
	group_queues = 0x16,
	group_engines = 0x17,
	read_buffers = 0x18,
	/* Enable WQ 5.2 */
	not_enabled = 0x20,
	wq_not_disabled = 0x21,
	wq_size = 0x22,
	wq_priority = 0x23,
	wq_mode = 0x24,
	wq_block_on_fault = 0x25,
	wq_pasid = 0x26,
	wq_batch = 0x27,
	wq_xfer = 0x28,
	wq_opcfg = 0x2d,
	/* Disable Device; Disable, Drain, Abort, Reset WQ [L] */
	device_not_enabled = 0x31,
	wq_not_enabled = 0x32,
	/* handles */
	handle_index = 0x41,
};

/* ---- SWERROR 9.2.15 ---------------------------------------------------------------------------------- */

enum : u64 {
	swerr_valid = 1 << 0,
	swerr_overflow = 1 << 1,
	swerr_has_descriptor = 1 << 2,
	swerr_has_wq = 1 << 3,
	swerr_in_batch = 1 << 4,
	swerr_write = 1 << 5,
};
/* In the first word: error, queue, operation. Second: batch index 15:0, invalid flags 63:32. Third: address. */
inline constexpr u32 swerr_code_shift = 8, swerr_wq_shift = 16, swerr_op_shift = 32;
/* Codes beside those of a completion record 5.8.2 */
enum : u8 { swerr_config = 0x51, swerr_command = 0x52, swerr_no_space = 0x53 };

/* ---- tables 9.2.22 to 9.2.24 ----------------------------------------------------------------------------- */

inline constexpr u32 msixperm_step = 8; /* a register of 32 bits each */
enum : u32 { perm_ignore = 1 << 2, perm_pasid = 1 << 3 };

struct group_config {
	u64 queues[4];
	u64 engines;
	u64 flags; /* traffic classes of reads and writes 2:0, 5:3; read buffers reserved 15:8, allowed 27:20 */
	u64 reserved[2];
};
static_assert(sizeof(group_config) == 64);
/* [L] idxd_setup_groups, for version 2.0 and older: "for best performance on current generation". */
inline constexpr u64 group_tc_mask = 0x3f, group_tc_usual = 1 | 1 << 3;
inline constexpr u64 group_use_limit = 1 << 7;
inline constexpr u32 group_reserved_shift = 8, group_allowed_shift = 20;

/* WQCFG by words of 32 bits; the rest is OPCFG, if WQCAP has it */
enum : u32 { wq_word_size, wq_word_threshold, wq_word_mode, wq_word_limits, wq_word_state = 6, wq_word_opcfg = 8 };
inline constexpr u32 wq_opcfg_words = 8;
enum : u32 {
	wq_dedicated = 1 << 0,
	wq_block_on_fault = 1 << 1,
	wq_priority_shift = 4,
	wq_pasid_shift = 8,
	wq_pasid_enable = 1 << 28,
	wq_batch_shift = 5, /* in wq_word_limits; the transfer size is in bits 4:0 */
	wq_state_shift = 30,
};
enum class wq_state : u8 { disabled = 0, enabled = 1, busy = 2 };

/* ---- BAR2: portals 9.3 --------------------------------------------------------------------------------- */

/* Four pages for each queue: unlimited and limited, by MSI-X; the same by IMS ([L] idxd.h). */
inline constexpr u64 portal_page = 4096, portals_step = 4 * portal_page;
enum : u32 { portal_unlimited = 0, portal_limited = 1, portal_ims = 2 };

/* ---- descriptors 8.1 and 8.3 --------------------------------------------------------------------------------- */

enum class operation : u8 {
	noop = 0x00,
	batch = 0x01,
	drain = 0x02,
	move = 0x03,
	fill = 0x04,
	compare = 0x05,
	compare_pattern = 0x06,
	dualcast = 0x09,
	crc = 0x10,
	copy_crc = 0x11,
};

enum : u32 { /* 8.1.3 */
	     flag_fence = 1 << 0,
	     flag_block_on_fault = 1 << 1,
	     flag_record = 1 << 2,        /* the record's address is valid */
	     flag_record_always = 1 << 3, /* it is written for a success, too */
	     flag_interrupt = 1 << 4,
	     flag_check = 1 << 7,  /* the result decides on success */
	     flag_cache1 = 1 << 8, /* writes go to the cache */
	     flag_tc1 = 1 << 9,
	     flag_tc2 = 1 << 10,
	     flag_tc3 = 1 << 11,
	     flag_tc_record = 1 << 12,
	     flag_strict = 1 << 13,
	     flag_cache2 = 1 << 14,          /* destination readback */
	     flag_crc_seed_memory = 1 << 16, /* 8.3.12 */
	     flag_crc_raw = 1 << 17,         /* neither inversion nor reflection of seed and result */
	     flag_crc_data_msb = 1 << 18,    /* bit 7 of a byte is the first */
	     flag_drain_tc = 3 << 18,        /* 8.3.3: no implicit readback */
};

struct alignas(64) work {
	u32 pasid;           /* trusted fields; ignored in a dedicated queue 8.1.1 */
	u32 flags_operation; /* flags 23:0, operation 31:24 */
	u64 record;          /* 32-byte aligned */
	u64 src;             /* fill: the pattern; batch: the list, 64-byte aligned */
	u64 dst;             /* compare: the second source; compare pattern: the pattern */
	u32 size;            /* batch: descriptors */
	u16 handle;
	u16 reserved;
	u64 more[3]; /* compare: expected result; dualcast: second destination; CRC: seed, address of the seed */
};
static_assert(sizeof(work) == 64 && offsetof(work, size) == 32 && offsetof(work, more) == 40);

constexpr u32 op_and_flags(operation op, u32 flags)
{
	return u32(op) << 24 | flags;
}

enum class status : u8 { /* 5.8.1 */
			 none = 0,
			 success = 0x01,
			 false_predicate = 0x02,
			 page_fault = 0x03,
			 page_fault_blocked = 0x04, /* Block on Fault was set, and the page request was refused */
			 batch_failed = 0x05,
			 batch_page_fault = 0x06,
			 operation = 0x10,
			 flags = 0x11,
			 reserved = 0x12,
			 size = 0x13,
			 count = 0x14,
			 overlap = 0x16,
			 dualcast = 0x17,
			 list_alignment = 0x18,
			 handle = 0x19,
			 record_fault = 0x1a,
			 record_alignment = 0x1b,
			 alignment = 0x1c,
			 hardware = 0x20,
			 hardware_write = 0x21,
};
inline constexpr u8 status_mask = 0x3f, status_write = 0x80; /* 8.2.1: of a page fault */

struct alignas(32) completion { /* 8.2 */
	u8 status;              /* written last */
	u8 result;
	u8 fault_info; /* 8.2.3: operand << 1; with gencap_fault_info only */
	u8 unused;
	u32 bytes; /* batch: descriptors */
	u64 address;
	u32 detail; /* invalid flags; CRC */
	u32 more[3];
};
static_assert(sizeof(completion) == 32 && offsetof(completion, address) == 8 && offsetof(completion, detail) == 16);

/* CRC-32C (appendix A), bit-reversed. */
inline constexpr u32 crc_polynomial = 0x82f63b78;

} // namespace usdma::dsa
