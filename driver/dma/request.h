/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request to a DMA channel, independent of the engine. A channel accepts each of these operations; the driver
 * runs those that the hardware lacks (engine_limits::ops) by softop.h.
 */
#pragma once

#include "driver/base/types.h"

#include <cstddef>
#include <cstring>

#pragma GCC visibility push(default)
namespace usdma::dma {

enum class opcode : u8 {
	nop = 0,
	copy = 1,          /* dst[0, len) = src[0, len) */
	copy_2d = 2,       /* height rows of len bytes; a = source pitch, b = destination pitch */
	fill = 3,          /* dst[0, len) = pattern a, arg bytes wide (1, 4, 8); len a multiple of arg */
	copy_indirect = 4, /* arg: indirect_mode */
	write = 5,         /* 64-bit a → dst (8-aligned) */
	wait = 6,      /* until the 64-bit word at src compares with a; arg: wait_arg; height = limit in ms, 0 none */
	reduce = 7,    /* dst[i] = op(dst[i], src[i]) over len bytes; arg = reduce_arg(type, op) */
	timestamp = 8, /* device clock in ns (64 bits) → dst (8-aligned) */
	op_count
};

/* Bit of an operation in a set. */
constexpr u32 op_bit(opcode op)
{
	return 1u << u8(op);
}
inline constexpr u32 all_ops = op_bit(opcode::op_count) - 1;

enum class space : u8 {
	host = 0,   /* address is an IOVA (host memory, or a peer's BAR mapped there) */
	device = 1, /* address in the engine's own memory, relative to engine::set_memory_base */
};

enum request_flags : u8 {
	flag_fence = 1,     /* starts after all earlier requests of the channel have completed */
	flag_interrupt = 2, /* raises the channel's service interrupt on completion */
	flag_complete = 4,  /* writes the completion record on completion, not with a later request's */
	flag_cache = 8,     /* hint: the destination is read next, so keep it in the caches */
};
/* Valid bits of a request; all others are reserved. */
inline constexpr u8 valid_flags = flag_fence | flag_interrupt | flag_complete | flag_cache;
inline constexpr u8 valid_spaces = 0x11;

enum class indirect_mode : u8 {
	descriptor =
		0, /* src: 32-byte block { u32 0, 0, len_high, len_low; u64 src, dst } read when the request runs */
	cells = 1, /* src, dst: 8-byte cells with the base addresses; a, b = source and destination offset; len */
};
/* The block that indirect_mode::descriptor reads: ACL's memcpy descriptor (acl-api.md §1.4). */
struct indirect_block {
	u32 reserved[2];
	u32 len_high;
	u32 len;
	u64 src, dst; /* device memory addresses (mem_base …) */
};
static_assert(sizeof(indirect_block) == 32);
static_assert(offsetof(indirect_block, len) == 12);
/* Flag beside the mode: the addresses read are host memory, for devices whose memory is host memory. */
inline constexpr u8 indirect_host = 2;

/* Like ACL's value wait (acl-api.md §2.13); v is the word, x the value. */
enum class compare : u8 {
	geq = 0,  /* int64(v - x) >= 0 */
	eq = 1,   /* v == x */
	and_ = 2, /* (v & x) != 0 */
	nor = 3,  /* ~(v | x) != 0 */
};

/* Bits of a WAIT's arg beside the comparison. */
enum wait_bits : u8 {
	wait_compare = 0xf,
	wait_take = 0x10,     /* then the word is set to 0; with cap_wait_takes by a compare-and-swap */
	wait_reported = 0x20, /* only WRITEs of this device change the word, or who does wakes the channel afterwards */
};

constexpr compare wait_comparison(u8 arg)
{
	return compare(arg & wait_compare);
}

constexpr bool compares(compare how, u64 v, u64 x)
{
	switch (how) {
	case compare::geq:
		return s64(v - x) >= 0;
	case compare::eq:
		return v == x;
	case compare::and_:
		return (v & x) != 0;
	case compare::nor:
		return ~(v | x) != 0;
	}
	return false;
}

enum class reduce_op : u8 { sum = 0, max = 1, min = 2, equal = 3 /* 1 where equal, else 0 */, prod = 4 };
enum class element : u8 { i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, count };

constexpr u8 reduce_arg(element type, reduce_op op)
{
	return u8(u8(type) | u8(op) << 4);
}
constexpr element reduce_type(u8 arg)
{
	return element(arg & 0xf);
}
constexpr reduce_op reduce_operation(u8 arg)
{
	return reduce_op(arg >> 4);
}
constexpr size_t element_size(element e)
{
	constexpr u8 size[] = {1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};

	return e < element::count ? size[size_t(e)] : 0;
}

struct request {
	opcode op = opcode::nop;
	u8 flags = 0;
	u8 spaces = 0; /* space of src in bits 0-3, of dst in bits 4-7 */
	u8 arg = 0;
	u32 height = 0;
	u64 src = 0, dst = 0, len = 0;
	u64 a = 0, b = 0;
	u64 cookie = 0; /* chosen by the submitter; returned with a fault. cookie_owner() selects requests to cancel */
};

/* The submitter's part of a cookie; the other bits are the submitter's number for the operation. */
inline constexpr unsigned cookie_owner_bits = 17;
constexpr u64 cookie_owner(u64 cookie)
{
	return cookie & ((u64(1) << cookie_owner_bits) - 1);
}

/*
 * Overwrites *r with a copy request. Fields that engines load as one word are stored as one: a load that spans
 * several recent stores cannot be forwarded and waits until they reach the cache.
 */
inline void set_copy(request *r, u8 spaces, u64 src, u64 dst, u64 len, u64 cookie, u8 flags = 0)
{
	const u64 head = u64(opcode::copy) | u64(flags) << 8 | u64(spaces) << 16;

	static_assert(offsetof(request, flags) == 1 && offsetof(request, spaces) == 2 &&
		      offsetof(request, height) == 4);
	/* A fortified memcpy() into an array of requests is a call. */
	__builtin_memcpy(static_cast<void *>(r), &head, sizeof(head));
	r->src = src;
	r->dst = dst;
	r->len = len;
	r->a = r->b = 0;
	r->cookie = cookie;
}

/* Host memory as a device addresses it. */
struct iova_range {
	u64 first, size;
};

/* The request may access it; true for addresses that are read only when it runs, if they may be host memory. */
bool may_access(const request &r, const iova_range &where);

constexpr u8 spaces(space src, space dst)
{
	return u8(u8(src) | u8(dst) << 4);
}
constexpr space src_space(u8 s)
{
	return space(s & 0xf);
}
constexpr space dst_space(u8 s)
{
	return space(s >> 4);
}

/* Why a request failed.  Numbers are the device's (docs/hardware.md). */
enum class fault_reason : u32 {
	none = 0,
	bad_op = 1,       /* unknown op, reserved bits set, bad argument */
	bad_length = 2,   /* zero, too long, or not a multiple of the element */
	src_unmapped = 3, /* source not (wholly) mapped or outside the device's memory */
	dst_unmapped = 4,
	src_denied = 5, /* mapped without the access right */
	dst_denied = 6,
	unaligned = 7,
	timeout = 8,   /* the time limit of a wait expired */
	bad_tag = 9,   /* the descriptor in the ring has an unexpected tag */
	transfer = 10, /* bus or peer error during the transfer */
	stopped = 11,  /* stopped on request; no error */
	injected = 12, /* a fault injected by a test */
	lost = 13,     /* device lost */
	reset = 14,    /* hung, or pending, when its channel or device was reset (set by the driver) */
	count
};

const char *fault_name(fault_reason reason);
/* The errno reported to callers. */
int fault_errno(fault_reason reason);

} // namespace usdma::dma
#pragma GCC visibility pop
