/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HiSilicon's DMA engine of Kunpeng processors, HIP08 and HIP09: registers, entries and rules, for the driver
 * (driver/engines/hisi) and the model (driver/sim/models/hisi). All fields little-endian.
 *
 * There is no public specification. Each fact names its source:
 *   [L]  Linux 6.1, drivers/dma/hisi_dma.c
 *   [D]  DPDK 22.11, drivers/dma/hisilicon/hisi_dmadev.h and hisi_dmadev.c; 22.11.11 has HIP08 alone
 * "Model:" marks what neither says and the model had to choose; the driver does not depend on it.
 *
 * A queue has a ring of submissions (SQ) and one of completions (CQ). The client writes submissions, then their end to
 * SQ_TAIL; the device writes completions, and the client the next that it will read to CQ_HEAD. A completion is valid
 * if its bit is 1 in the first round of the ring, 0 in the second, and so on; it is that of all submissions up to its
 * index: several may have one ([D]).
 *
 * Quirks that public drivers work around, and what the driver here does:
 *   - Both chips have one id; the revision says which registers there are ([L] hisi_dma_get_reg_layout; [D]).
 *   - No register says how many queues there are: 30 in HIP08 and 4 in HIP09 ([L]; DPDK uses four of either).
 *   - The function of a HIP08 may be set up as the remote end of a link: MODE selects the local one ([L]
 *     hisi_dma_set_mode, [D] hisi_dma_init_gbl). In HIP09 the state of links is to be masked, of all 16 ports ([L]
 *     hisi_dma_init_hw).
 *   - RESET is written only when the queue is paused, disabled and not running. Then the pointers are written as 0,
 *     which the reset leaves, and pause is cleared, before the queue is idle ([L] hisi_dma_reset_or_disable_hw_chan,
 * [D] hisi_dma_reset_hw). Linux resets one that does not stop running, too.
 *   - After an error the queue goes on with the next submission, or stops, by bits of CTRL0 ([L] "Abort the DMA queue
 *     if error occurs"). Both drivers let it go on, and so does the driver here, until it has paused the queue.
 *   - An interrupt is raised for each completion that requests it, whether INT_STS was cleared or not: Linux clears it
 *     only before it unmasks ([L] hisi_dma_unmask_irq), at start. Here they are masked while there is no waiter.
 *   - A fence is needed for order: a submission with it begins when those before it have ended ([D] SQE_FENCE_FLAG,
 *     RTE_DMA_OP_FLAG_FENCE).
 *   - DPDK reports errors of HIP09 only ([D] hisi_dma_info_get). Here the state of the queue is read as well when it is
 *     stopped or does not go on.
 *   - FLR_DISABLE: [L] writes it behind the queues, [D] has it among the common registers. It is 0 after power-on, and
 *     left alone here.
 */
#pragma once

#include "driver/base/types.h"

#include <cstddef>

namespace usdma::hisi {

inline constexpr u16 pci_vendor = 0x19e5, pci_device = 0xa122; /* [L], [D] */
inline constexpr u32 pci_class = 0x088000;                     /* base system peripheral, other */
inline constexpr u8 revision_hip08 = 0x21, revision_hip09 = 0x30;
inline constexpr u32 cfg_revision = 8; /* config space, 8 bits */

/* What differs. A later revision is a HIP09 ([L], [D]). */
struct layout {
	const char *name;
	u32 queues, vectors; /* vectors: of MSI, the first ones are the queues' ([L]) */
	u32 queue_base;
	u32 ctrl0_abort;  /* [L] "abort the DMA queue if error occurs" */
	u32 ctrl0_remote; /* [L] SQ and CQ are at the remote end */
	u32 int_bits;     /* of INT_STS and INT_MSK; HIP08: errors, too */
	u32 err_bits;     /* of ERR_INT_STS and ERR_INT_MSK; 0: it has none */
};
inline constexpr layout hip08 = {"HIP08", 30, 32, 0, 1u << 2, 1u << 24, 0x7fff, 0};
inline constexpr layout hip09 = {"HIP09", 4, 4, 0x2000, 0xf0000000, 3u << 26, 1, 0x7fffe};

/* nullptr: unsupported. */
constexpr const layout *layout_of(u8 revision)
{
	return revision == revision_hip08 ? &hip08 : revision >= revision_hip09 ? &hip09 : nullptr;
}

/* ---- BAR2 ------------------------------------------------------------------------------------------ */

inline constexpr u64 bar2_size = 64 * KiB; /* Model: [D] dumps up to 0x2400 */

enum : u32 {
	hip08_mode = 0x217c, /* RW: mode_rc. Model: stored */
	hip09_port = 0x800,  /* RW, of each port: port_link_mask. Model: stored */
	hip09_port_step = 0x20,
	hip09_ports = 16,
	mode_rc = 1,
	port_link_mask = 1u << 16,
};

/* ---- registers of a queue, 32 bits each ------------------------------------------------------------ */

inline constexpr u32 queue_size = 0x100;

constexpr u32 queue_at(const layout &l, u32 index)
{
	return l.queue_base + index * queue_size;
}

enum : u32 {
	q_sq_base = 0x00,  /* RW 64, in two halves */
	q_sq_depth = 0x08, /* RW: entries - 1 */
	q_sq_tail = 0x0c,  /* RW: the entry after the last submission */
	q_cq_base = 0x10,
	q_cq_depth = 0x18,
	q_cq_head = 0x1c, /* RW: the next completion that the client will read */
	q_ctrl0 = 0x20,   /* RW: ctrl0_*, layout::ctrl0_abort */
	q_ctrl1 = 0x24,   /* RW: ctrl1_* */
	q_fsm = 0x30,     /* RO: fsm_*, bits 3:0 */
	q_sq_sts = 0x34,  /* RO [L] debugfs. Model: the next submission */
	q_cq_tail = 0x3c, /* RO [L] debugfs: the next completion that the device will write */
	q_int_sts = 0x40, /* W1C: int_done; HIP08: errors, too. Model: err_bit() */
	q_int_msk = 0x44, /* RW: 1 masks */
	hip08_err_num6 = 0x48,
	hip09_err_sts = 0x48, /* W1C. Model: err_bit() */
	hip09_err_msk = 0x4c, /* RW: 1 masks */
	q_err_num0 = 0x84,    /* RW: counters. Model: the first counts errors, the others stay as written */
	q_err_num2 = 0x8c,
	hip08_err_num5 = 0x98,
};
enum : u32 { ctrl0_enable = 1u << 0, ctrl0_pause = 1u << 4 };
enum : u32 {
	ctrl1_reset = 1u << 0, /* Model: reads as 0 when the reset is done */
	ctrl1_va = 1u << 2,    /* HIP09: addresses are translated. Model: without effect */
};
enum : u32 { int_done = 1 }; /* [L], [D]: the one bit of HIP09. Model: bit 0 in HIP08, too */
/* [L] names. Model: which one when, but for idle, run and "done" ([D]). */
enum : u32 {
	fsm_idle = 0, /* after a reset */
	fsm_run = 1,
	fsm_done = 2, /* all submissions are completed [D] */
	fsm_pause = 3,
	fsm_halt = 4,  /* a completion could not be written */
	fsm_abort = 5, /* an error, with ctrl0_abort: until a reset */
	fsm_wait = 6,  /* for space in the CQ */
	fsm_mask = 0xf,
};

/* ---- entries --------------------------------------------------------------------------------------- */

struct alignas(32) submission {
	u32 control; /* sqe_* */
	u32 attributes[2];
	u32 len;
	u64 src, dst;
};
static_assert(sizeof(submission) == 32);
enum : u32 {
	sqe_copy = 4, /* bits 3:0: memory to memory */
	sqe_op_mask = 0xf,
	sqe_interrupt = 1u << 8, /* [L] LOCAL_IRQ_EN */
	sqe_fence = 1u << 10,    /* [D] */
};

struct alignas(16) completion {
	u64 reserved;
	u64 word; /* cqe_*, 8 bytes that are written at once. Model: the first 8 are not written */
};
static_assert(sizeof(completion) == 16);
inline constexpr u64 cqe_index_mask = 0xffff, cqe_valid = u64(1) << 48;
inline constexpr u32 cqe_status_shift = 49;
/* [D] Which ones of reads and writes the model reports follows from their names. */
enum : u32 {
	st_success = 0,
	st_opcode = 0x1,
	st_length = 0x2,
	st_user_abort = 0x4,
	st_remote_read = 0x10,
	st_read = 0x20,
	st_write = 0x40,
	st_poison = 0x80,
	st_sqe_read = 0x100,
	st_sqe_poison = 0x200,
	st_remote_poison = 0x400,
	st_link = 0x800,
};
/* Model: the interrupt bit of a status. */
constexpr u32 err_bit(u32 status)
{
	return status << 1;
}
inline constexpr u32 least_depth = 32, most_depth = 8192; /* [D] */

} // namespace usdma::hisi
