/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of other machines. Each program's usdma-net (lib/share/helper.h) writes into memory of the other one: a rank
 * that has such peers has a block of host memory, which engines can access, with slots for each of them:
 *
 *	a count of what has arrived at peers
 *	words of each peer: arrived and taken, as the notifies of comm.h; whether it has left, whether it is lost
 *	slots of each peer, into which it writes
 *	slots of each peer, out of which this rank's usdma-net reads
 *
 * A piece goes into an own slot, then a gate of the stream hands it to usdma-net, and opens at once: the slot is free
 * when the peer has set taken. Data and word are one message.
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"
#include "lib/hccl_comm/cause.h"
#include "lib/share/helper.h"

namespace usdma::hccl_comm {

struct comm;
struct peer;
struct rank_info;
struct reduction;
struct work;

/* Slots of a peer; a piece is a message of usdma-net, and several are in flight. */
inline constexpr u32 remote_depth = 8;
inline constexpr u64 remote_piece = core::helper_part;

struct remote_words {
	u64 arrived[remote_depth], taken[remote_depth];
	u64 left; /* by the peer, before it leaves */
	u64 lost; /* by the own usdma-net: -errno */
	u64 unused[32 - 2 * remote_depth - 2];
};
static_assert(sizeof(remote_words) == 256);

/* What a rank sends to peers of other machines. */
struct remote_info {
	core::net_address at;
	char key[core::helper_key];
};

struct remote_group {
	core::helper *by = nullptr;
	core::helper_pulse pulse; /* the monitor's */
	u32 peers = 0;
	u64 slot = 0, size = 0; /* bytes of a slot, of the block */
	char *block = nullptr;
	bool registered = false;
	u64 local = 0;
	u64 sent = 0;  /* messages; atomic */
	u32 gates = 0; /* in streams; atomic */
	remote_info own{};
};

/* Of memory of a rank with so many peers: where the words of the nth peer are, its slots for it, and its own. */
u64 remote_words_at(u32 n);
u64 remote_slot_at(u32 peers, u64 slot_bytes, u32 n, u32 slot);
u64 remote_own_at(u32 peers, u64 slot_bytes, u32 n, u32 slot);

/* Slots for ranks of other machines, if there are any; all: of each rank. */
HcclResult remote_make(comm *c, const rank_info *all);
HcclResult remote_import(comm *c, const rank_info *all, peer *p, const remote_info &theirs);
/* Says to peers that this rank leaves, when they have what was sent; waits for that, with a limit. */
void remote_leave(comm *c);
void remote_drop(comm *c);
/* Whether all peers can be reached; an error: the group has failed. */
HcclResult remote_check(comm *c);
/* "" or " (host 10.0.0.2)", of a rank of another machine. */
struct remote_name {
	char text[64];
};
remote_name remote_host(const comm *c, u32 rank);
remote_name remote_address(const core::net_address &at);

/* The steps of exchange.cpp, in the stream. */
HcclResult remote_put(work *w, const peer &p, u32 slot, const char *from, u64 len);
HcclResult remote_set_taken(work *w, const peer &p, u32 slot);
HcclResult remote_wait_arrived(work *w, const peer &p, u32 slot);
HcclResult remote_wait_taken(work *w, const peer &p, u32 slot);
/* As aclrtReduceAsync(), which takes no host memory. */
HcclResult remote_reduce(work *w, char *dst, const char *src, u64 bytes, const reduction &by);
/* Where the peer's data is. */
char *remote_arrived(const comm *c, const peer &p, u32 slot);

/* ---- connections: remote_join.cpp ------------------------------------------------------------------------- */

struct root_info;

/* Where this process can be reached. */
HcclResult remote_here(core::net_address *out);
HcclResult remote_listen(const root_info &root, unique_fd *out);
/* Whether it can be reached at all. */
HcclResult remote_possible(const root_info &root);
/* Connects to the process that listens. later: none does, yet; then there is no text. */
HcclResult remote_connect(const root_info &root, unique_fd *out, bool *later);
/* A connection that has come; invalid: none. */
HcclResult remote_accept(int listening, unique_fd *out);

} // namespace usdma::hccl_comm
