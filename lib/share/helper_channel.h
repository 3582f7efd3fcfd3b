/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program and its usdma-net say to each other. Requests go by a socket (SOCK_SEQPACKET), a message each. Results
 * come through shared memory: a request has a slot, with a part of the memory for the data that it moves. The helper
 * writes the result, then the state, then rings; who waits for any slot sleeps on the number of rings.
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::core {

inline constexpr u32 helper_version = 3; /* of all that is in this file */
inline constexpr u32 helper_slots = 32;
inline constexpr u64 helper_part = MiB, helper_head = 64 * KiB;
inline constexpr u64 helper_memory = helper_head + helper_slots * helper_part;
inline constexpr size_t helper_key = 64; /* bytes of a share's key */
inline constexpr u64 bell_count_at = 16; /* in the page of a bell: its count, a futex */

enum class slot_state : u32 { unused, posted, done };

struct helper_slot {
	u32 state;
	s32 status;   /* 0 or -errno; then text says why */
	u64 id, size; /* of memory that was opened */
	char text[232];
};
static_assert(sizeof(helper_slot) == 256);

struct alignas(64) helper_page {
	u32 beat;     /* by the helper: changes while it runs */
	u32 rings;    /* futex: something has changed; by both sides */
	u32 sleepers; /* threads of the program that sleep on it, or are about to */
	alignas(64) helper_slot slots[helper_slots];
};
static_assert(sizeof(helper_page) <= helper_head);

/*
 *   begin      id: helper_version; with descriptors: the memory, and if possible the program (pidfd)
 *   bell       with a descriptor of the program's bell (bell.h), which is rung after each word that a peer sets
 *   offer      key, offset, length, open; with a descriptor of the memory, if peers may open it: result: id
 *   withdraw   key: no one can open it from now on, or connect to it
 *   open       host, where it is, key: result: id, size. local, local_offset: in memory of an offer, where the
 *              reason is stored (-errno, 8 bytes) if the connection to it is lost
 *   listen     key; with a socket by which connections of peers to the key come
 *   dial       where it is (port 0: any of the range for control connections), key; with a socket by which the
 *              connection comes
 *   close      id
 *   put, get   id, offset, length: with the slot's part
 *   fill       id, offset, length, pattern
 *   send       id, offset, length: as put, of data in memory of an offer (local, local_offset), or of none; then the
 *              word at `signal` becomes 1 there. The first word of local counts those that have arrived,
 *              or cannot any more
 *
 * begin, bell, withdraw, close and send have no result, and no slot.
 */
enum class helper_op : u32 { begin = 1, offer, withdraw, open, close, put, get, fill, bell, listen, dial, send };

/* Where a helper listens; family: 4, 6 or 0. */
struct net_address {
	u8 address[16]; /* in the order of the network; IPv4: the first four */
	u16 port;
	u8 family;
	u8 reserved[5];
};

struct helper_request {
	u32 op;
	u32 slot;
	u64 id, offset, length;
	u64 pattern;
	u32 pattern_size;
	u32 open; /* for all processes, also of other machines */
	u8 host[16];
	net_address at;
	char key[helper_key];
	u64 local, local_offset, signal;
};
static_assert(sizeof(helper_request) == 176);

} // namespace usdma::core
