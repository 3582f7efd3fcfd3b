/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reference sdma engine's programming interface, specified in docs/hardware.md. Shared by the driver
 * (driver/engines/sdma) and the software model (driver/sim). All fields little-endian.
 */
#pragma once

#include "driver/base/bits.h"
#include "driver/base/types.h"
#include "driver/dma/channel.h"
#include "driver/dma/request.h"

#include <cstddef>

namespace usdma::sdma {

/* PCI IDs. The vendor ID is private, not assigned by PCI-SIG. */
inline constexpr u16 pci_vendor = 0x5553, pci_device = 0x0d3a;
inline constexpr u32 pci_class = 0x080100; /* base system peripheral, DMA controller */
inline constexpr u8 pci_revision = 1;

/* ---- BAR0: registers ------------------------------------------------------------------------------- */

inline constexpr u64 bar0_size = 16 * MiB;
inline constexpr u32 max_channels = 1024;

/* Global page, offset 0: trapped accesses only (never mapped). */
enum : u32 {
	reg_id = 0x00,         /* RO 32: id_value */
	reg_version = 0x04,    /* RO 32: major << 16 | minor */
	reg_caps = 0x08,       /* RO 64: hw_cap_* */
	reg_channels = 0x10,   /* RO 32: channels */
	reg_engines = 0x14,    /* RO 32: engines; channel i is run by engine i % engines */
	reg_max_len = 0x18,    /* RO 64: bytes that one descriptor may move */
	reg_mem_size = 0x20,   /* RO 64: bytes of device memory behind BAR2 */
	reg_mem_base = 0x28,   /* the address of the first byte of device memory in descriptors */
	reg_ctrl = 0x30,       /* RW 32: ctrl_* */
	reg_status = 0x34,     /* RO 32: bit 0 ready */
	reg_clock = 0x38,      /* RO 64: device clock in ns, as TIMESTAMP stores it */
	reg_ring_order = 0x40, /* RO 32: largest log2(ring size) << 8 | smallest */
	reg_vectors = 0x44,    /* RO 32: MSI-X vectors */
};
inline constexpr u32 id_value = 0x414d4453; /* "SDMA" */
inline constexpr u32 version_major = 1, version_minor = 1;
enum : u64 {
	hw_cap_sleep = 1,
	hw_cap_memory = 2,
	hw_cap_heartbeat = 4,
	hw_cap_sleep_ordered = 8,
	hw_cap_memory_zeroed = 16,
	hw_cap_memory_cached = 32,
	hw_cap_completion = 64,
	hw_cap_wait_takes = 128
};
enum : u32 { ctrl_enable = 1, ctrl_reset = 2 /* self-clearing: all channels off, registers at their reset values */ };
enum : u32 { status_ready = 1 /* no reset is in flight, no channel is stopping */ };

/* Channel control pages: one per channel, a page apart; trapped accesses only. */
inline constexpr u64 chan_ctrl_base = 0x10000, chan_stride = 0x1000;
enum : u32 {
	chan_ring_base = 0x00,  /* RW 64: IOVA of the ring, 64-byte aligned; writable while the channel is off */
	chan_ring_order = 0x08, /* RW 32: log2 of the number of descriptors */
	chan_vectors = 0x0c,    /* RW 32: waiter vector | service vector << 16 */
	chan_record = 0x10,     /* RW 64: IOVA of the status block, 64-byte aligned */
	chan_first_seq = 0x18,  /* RW 64: completed starts here; the first descriptor has this + 1 */
	chan_coalesce = 0x20,   /* RW 32: service interrupt: count | microseconds << 16; count 0 and 1: each */
	chan_command = 0x24,    /* WO 32: chan_cmd_* */
	chan_state = 0x28,      /* RO 32: chan_state_* */
	chan_wake = 0x2c,       /* any value wakes a sleeping engine; may be an ioeventfd */
	chan_head = 0x30,       /* RO 64: last sequence number begun */
	chan_debug = 0x38,      /* chan_debug_*, for diagnostics */
	chan_completion = 0x3c, /* RW 32: completion vector (hw_cap_completion) */
};
/*
 * disable: no new request begins once the write returns; the channel is off, and accesses no memory, once it is
 * not stopping.
 */
enum : u32 { chan_cmd_enable = 1, chan_cmd_disable = 2, chan_cmd_stop = 3, chan_cmd_resume = 4 };
enum : u32 { chan_debug_waiting = 1, chan_debug_listed = 2, chan_debug_bell = 4 };
enum : u32 {
	chan_state_off = 0,
	chan_state_running = 1,
	chan_state_halted = 2,
	chan_state_error = 3,    /* bad configuration */
	chan_state_stopping = 4, /* disabled; accesses are in flight */
};

/* Channel doorbell pages: one per channel, a page apart; mappable. */
inline constexpr u64 chan_doorbell_base = 0x800000;
enum : u32 {
	doorbell_tail = 0x00, /* RW 64: last sequence number posted */
	doorbell_arm = 0x40,  /* RW 64: interrupt slot 0 (waiter) once completed >= this; each value written raises at
				 most once, and  again after a resume */
	doorbell_arm_service = 0x80,    /* RW 64: the same for slot 1 */
	doorbell_arm_completion = 0xc0, /* RW 64: slot 2: not by a halt, and not again after a resume */
};
inline constexpr u64 arm_none = ~u64(0);
inline constexpr u32 doorbell_arm_stride = 0x40;
static_assert(doorbell_arm + dma::irq_service * doorbell_arm_stride == doorbell_arm_service);
static_assert(doorbell_arm + dma::irq_completion * doorbell_arm_stride == doorbell_arm_completion);

constexpr u64 chan_ctrl(u32 ch)
{
	return chan_ctrl_base + ch * chan_stride;
}
constexpr u64 chan_doorbell(u32 ch)
{
	return chan_doorbell_base + ch * chan_stride;
}
static_assert(chan_ctrl(max_channels) <= chan_doorbell_base);
static_assert(chan_doorbell(max_channels) <= bar0_size);

/* ---- status block in host memory ------------------------------------------------------------------- */

/* Two cache lines, written by the device. */
struct alignas(64) status_block {
	dma::completion_record record; /* line 0 */
	u32 asleep;                    /* line 1: dma::asleep_* while the engine sleeps (hw_cap_sleep) */
	u32 cpu;                       /* 1 + the CPU on which the engine runs, or last ran; 0: none or unknown */
	u32 reserved[14];
};
static_assert(sizeof(status_block) == 128);
static_assert(offsetof(status_block, asleep) == 64);
static_assert(offsetof(dma::completion_record, state) == 8);
static_assert(offsetof(dma::completion_record, fault_seq) == 16);

/* ---- descriptor ------------------------------------------------------------------------------------ */

/*
 * Descriptor n (its sequence number) is in slot n modulo ring size.
 *
 * tag is the low half of the descriptor's sequence number and is written last: a descriptor is complete when
 * its tag is the one expected in its slot. An engine that is awake may run a descriptor as soon as its tag is
 * valid, before the doorbell covers it; one that the doorbell covers and whose tag is wrong is a fault
 * (bad_tag).
 */
struct alignas(64) descriptor {
	u32 tag;
	u8 op; /* dma::opcode */
	u8 flags;
	u8 spaces;
	u8 arg;
	u32 height;
	u32 reserved; /* zero */
	u64 src, dst, len;
	u64 a, b;
	u64 cookie;
};
static_assert(sizeof(descriptor) == 64);
static_assert(offsetof(descriptor, op) == 4);
static_assert(offsetof(descriptor, height) == 8);
static_assert(offsetof(descriptor, src) == 16);
static_assert(offsetof(descriptor, cookie) == 56);

using dma::indirect_block;

} // namespace usdma::sdma
