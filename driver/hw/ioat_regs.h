/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Intel I/OAT (CBDMA, "QuickData Technology") 3.2 and 3.3: registers, descriptors and rules, for the driver
 * (driver/engines/ioat) and the model (driver/sim/models/ioat). All fields little-endian.
 *
 * Intel has published no complete specification. Each fact names its source:
 *   [L]  Linux, drivers/dma/ioat: registers.h, hw.h, dma.c, prep.c, init.c
 *   [D]  DPDK, drivers/dma/ioat: ioat_hw_defs.h, ioat_dmadev.c
 *   [K]  Linux, drivers/vfio/pci/vfio_pci_intrs.c, vfio_msi_set_vector_signal
 *   [S]  SPDK, lib/ioat/ioat.c, include/spdk/ioat_spec.h
 *   [V]  Linux, tools/testing/selftests/vfio/lib/drivers/ioat/ioat.c
 *   [E7] Xeon E7 v2 datasheet, volume 2, sections 14.4 and 14.5
 *   [EU] Xeon E7 v2 specification update, January 2015
 *   [C5] Xeon C5500/C3500 datasheet, volume 1, page 310
 * "Model:" marks what none of them says and the model had to choose; the driver does not depend on it.
 *
 * Quirks that public drivers work around, and what the driver here does:
 *   - A null descriptor of size 0 is an error ([L] dma.h: NULL_DESC_BUFFER_SIZE): its size is 1.
 *   - CHANCMP and CHAINADDR do not take one write of 64 bits on some chips ([L] init.c, ioat_alloc_chan_resources): two
 *     of 32, low half first.
 *   - SUSPEND and RESET take time: poll CHANSTS and CHANCMD ([L] ioat_quiesce, ioat_reset_sync; [S]; [D]). A channel is
 *     suspended before it is reset, for at most 100 ms ([L] ioat_reset_hw).
 *   - After a reset the completed address is 0, which is not a completion ([L] __cleanup).
 *   - CHANERR is cleared before RESET, and on versions before 3.3 also CHANERR_INT in config space
 *     ([L] ioat_reset_hw; [S]). Other sources clear it on any version ([V]); the driver does as Linux.
 *   - Atom S1200 and Broadwell-DE (0c5x, 6f5x): RESET clears the MSI-X table, and the driver saves and restores it
 *     ([L] ioat_reset_hw, "errata workaround"). vfio-pci does not let a user write the table, but writes the entry when
 *     the vector's eventfd is set ([K]): that is done after each reset of a channel.
 *   - Skylake reports a version above 3.2, but is to be used as 3.2 ([L] ioat_pci_probe).
 *   - XOR and PQ are reported by Xeons, but unusable there ([L] ioat3_dma_probe); suspending a channel that runs them
 *     can corrupt the transfers of others ([EU] CF5). The driver uses neither.
 *   - Completion writes of XOR and PQ may pass those of copies ([L] prep.c): end with a null descriptor.
 *   - The device prefetches descriptors ([L] CHWPREFLMT, DRSCTL; [C5] "deep pipelining"): one that was counted by
 *     DMACOUNT is not changed before the channel is suspended, and then the chain is started anew.
 *   - CHANCMP is written again when a channel is restarted ([L] ioat_restart_channel).
 *   - Older parts have 40 address bits ([C5]); those in the table of ids are used with 64-bit masks ([L]).
 *   - Relaxed ordering is turned off in the device control register ([L] ioat3_dma_probe): a request's number must not
 *     pass its data.
 *   - CHANCTRL has a bit that reserves the channel by being read ([E7] 14.5.12): released by writing it as 0 ([D]).
 */
#pragma once

#include "driver/base/types.h"

#include <cstddef>

namespace usdma::ioat {

inline constexpr u16 pci_vendor = 0x8086;
inline constexpr u32 pci_class = 0x088000; /* base system peripheral, other */

/* ---- config space ---------------------------------------------------------------------------------- */

enum : u32 {
	cfg_dmauncerrsts = 0x148, /* W1C 32 [L] IOAT_PCI_DMAUNCERRSTS_OFFSET */
	cfg_chanerr_int = 0x180,  /* W1C 32 [L] IOAT_PCI_CHANERR_INT_OFFSET */
	cfg_chanerrmsk_int = 0x184,
};

/* ---- BAR0: general registers [L] registers.h, [S] spdk_ioat_registers --------------------------------- */

inline constexpr u64 bar0_size = 16 * KiB;                   /* [E7]: the MSI-X PBA is at 12 KiB */
inline constexpr u32 msix_table = 0x2000, msix_pba = 0x3000; /* [E7] 14.4.19, 14.4.20; a vector per channel [L] */

enum : u32 {
	reg_chancnt = 0x00,    /* RO 8: channels, bits 4:0 */
	reg_xfercap = 0x01,    /* RO 8: log2 of the bytes of one descriptor, bits 4:0; 0: 4 GiB [S] */
	reg_genctrl = 0x02,    /* RW 8 */
	reg_intrctrl = 0x03,   /* RW 8: intr_* */
	reg_attnstatus = 0x04, /* RO 32: bit i: channel i has raised the shared interrupt. Model: cleared by reading */
	reg_version = 0x08,    /* RO 8: major << 4 | minor */
	reg_intrdelay = 0x0c,  /* RW 16: microseconds, bits 13:0; bit 15: supported */
	reg_status = 0x0e,     /* RO 16 */
	reg_dmacap = 0x10,     /* RO 32: cap_* */
};
enum : u8 {
	intr_master = 1,  /* RW: enables the shared interrupt */
	intr_status = 2,  /* RO: a bit of ATTNSTATUS is set */
	intr_raised = 4,  /* RO: both */
	intr_vectors = 8, /* RW: each channel raises its own MSI-X vector, whatever intr_master says [V] */
};
enum : u8 { version_3_0 = 0x30, version_3_2 = 0x32, version_3_3 = 0x33, version_3_4 = 0x34 };
enum : u32 {
	cap_page_break = 1u << 0,
	cap_dca = 1u << 4,
	cap_fill = 1u << 6,
	cap_xor = 1u << 8,
	cap_pq = 1u << 9,
	cap_dwbes = 1u << 13,    /* writes validation errors back to the descriptor */
	cap_raid16ss = 1u << 17, /* 3.3: PQ of up to 16 sources */
	cap_prefetch = 1u << 23, /* 3.4 */
};
inline constexpr u32 max_channels = 4;                     /* [L] IOAT_MAX_CHANS; one since Sandy Bridge [E7] */
inline constexpr u32 min_xfercap = 12, usual_xfercap = 20; /* 4 KiB is the least [S]; 1 MiB [C5] */

/* ---- BAR0: registers of a channel ------------------------------------------------------------------ */

constexpr u32 chan_base(u32 index)
{
	return 0x80 * (index + 1);
}
inline constexpr u32 chan_size = 0x80;

enum : u32 {
	chan_ctrl = 0x00,     /* RW 16: ctrl_* */
	chan_comp = 0x02,     /* RO 16: compatible with version 2 of the registers: 2 */
	chan_cmd = 0x04,      /* RW 8: cmd_*; cmd_reset reads as 1 until the reset is done */
	chan_dmacount = 0x06, /* RW 16: descriptors to run since CHAINADDR was written, modulo 2^16 */
	chan_sts = 0x08,      /* RO 64: address of the last completed descriptor | sts_* */
	chan_chainaddr =
		0x10,     /* RW 64: the first descriptor. Writing it starts the counts at 0: the channel is armed [D] */
	chan_cmp = 0x18,  /* RW 64: where CHANSTS is written on completion; 8-byte aligned [S] */
	chan_cdar = 0x20, /* RO 64: address of the current descriptor */
	chan_err = 0x28,  /* W1C 32: err_* */
	chan_errmask = 0x2c, /* RW 32: errors that do not halt. Model: only err_xor_p and err_xor_q may be masked */
	chan_dcactrl = 0x30, /* RW 32 */
};
enum : u16 {
	/*
	 * "Interrupt Disable" [E7]: set by the device when it raises an interrupt, cleared by writing 1. So it raises
	 * one interrupt for each such write.
	 */
	ctrl_int_rearm = 0x0001,
	ctrl_err_completion = 0x0004, /* an error is written to CHANCMP */
	ctrl_any_err_abort = 0x0008,
	ctrl_err_int = 0x0010, /* an error raises an interrupt */
	ctrl_in_use = 0x0100,  /* set by reading it */
	ctrl_dca = 0x0200,
};
enum : u8 { cmd_suspend = 0x04, cmd_resume = 0x10, cmd_reset = 0x20 };
enum : u64 {
	sts_active = 0,
	sts_idle = 1, /* all counted descriptors are done */
	sts_suspended = 2,
	sts_halted = 3, /* by an error or a reset */
	sts_armed = 4,  /* CHAINADDR was written */
	sts_mask = 7,
	sts_address = ~u64(0x3f),
};
/*
 * [L] names and texts. A request that an IOMMU refuses is answered as unsupported, which is an error of the data, not
 * of the address: the address itself is legal.
 */
enum : u32 {
	err_src_address = 1u << 0,
	err_dst_address = 1u << 1,
	err_next_address = 1u << 2, /* the next descriptor cannot be read */
	err_descriptor = 1u << 3,   /* it is not aligned */
	err_chain_address = 1u << 4,
	err_command = 1u << 5,
	err_chipset_integrity = 1u << 6,
	err_dma_integrity = 1u << 7,
	err_read_data = 1u << 8,
	err_write_data = 1u << 9,
	err_control = 1u << 10, /* unknown operation, or a combination of bits that is invalid */
	err_length = 1u << 11,  /* 0, or above XFERCAP */
	err_completion_address = 1u << 12,
	err_interrupt = 1u << 13,
	err_soft = 1u << 14,
	err_unaffiliated = 1u << 15,
	err_xor_p = 1u << 16, /* validation of P, or of XOR, failed */
	err_xor_q = 1u << 17,
	err_count = 1u << 18,
};

/* ---- descriptors, 64 bytes, 64-byte aligned [L] hw.h ------------------------------------------------------ */

enum : u32 {
	desc_interrupt = 1u << 0,
	desc_completion = 1u << 3, /* writes CHANSTS to CHANCMP */
	desc_fence = 1u << 4,      /* this one and all before it end before the next one begins [D] */
	desc_null = 1u << 5,       /* moves nothing (copy only) */
	desc_sources_shift = 5,    /* XOR, PQ: sources - 2, bits 7:5 */
	desc_p_disable = 1u << 11,
	desc_q_disable = 1u << 12,
	desc_write_back = 1u << 15, /* cap_dwbes: PQ_VAL stores its errors in size, as wb_*. Model: not there */
	desc_op_shift = 24,
};
enum : u8 { op_copy = 0x00, op_fill = 0x01, op_xor = 0x87, op_xor_val = 0x88, op_pq = 0x89, op_pq_val = 0x8a };

enum : u32 { wb_p = 1u << 25, wb_q = 1u << 26, wb_written = 1u << 31 };

struct alignas(64) descriptor {
	u32 size;
	u32 control;
	u64 src; /* fill: the pattern, 8 bytes */
	u64 dst; /* PQ: P */
	u64 next;
	u64 more[4]; /* copy: unused, the last two are software's; XOR, PQ: sources and the like */
};
static_assert(sizeof(descriptor) == 64 && offsetof(descriptor, next) == 24);

/*
 * A second descriptor of XOR with 6 to 8 sources, or of PQ with 4 to 8: the next in the chain, which DMACOUNT counts
 * too. The completed address is that of the first ([L] __cleanup).
 */
struct alignas(64) extension {
	u64 src[3]; /* XOR: 6 to 8; PQ: 4 to 6 */
	u64 next;
	u64 more[4]; /* PQ: sources 7 and 8 */
};
static_assert(sizeof(extension) == 64);

} // namespace usdma::ioat
