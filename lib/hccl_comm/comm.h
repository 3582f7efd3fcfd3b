/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators. Each rank has a slot in its device's memory for each peer, and two notifies of its own for each: the
 * peer records `arrived` when it has written its slot, and `taken` when it has read what this rank wrote into the
 * peer's. A transfer is
 *
 *	sender                          receiver
 *	copies into the peer's slot
 *	records the peer's arrived      waits for arrived
 *	                                copies or reduces out of the slot
 *	waits for taken                 records the sender's taken
 *
 * all of it in the ranks' streams. When an operation's last wait is over, no peer will touch this rank's memory or
 * notifies until the next operation: so each operation starts with clear notifies, and a communicator can be destroyed
 * without another rank.
 */
#pragma once

#include "driver/base/log.h"
#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#include <hccl.h>

#include <memory>
#include <mutex>
#include <pthread.h>

namespace usdma::hccl_comm {

inline constexpr u32 max_ranks = 64;
inline constexpr size_t key_len = 65;

/* What a rank sends to its peers; addresses and handles are for peers in the same process. */
struct rank_info {
	u32 rank;
	s32 pid, device;
	u64 slot_bytes;
	void *memory;
	char key[key_len];
};

/* Notifies of one rank for one peer. */
struct pair_info {
	aclrtNotify arrived, taken;
	char arrived_key[key_len], taken_key[key_len];
};

struct peer {
	rank_info is;
	pair_info mine;
	aclrtNotify arrived = nullptr, taken = nullptr; /* the peer's for this rank */
	char *slot = nullptr;                           /* in the peer's memory, for this rank */
	void *memory = nullptr;                         /* the peer's, if it is imported from another process */
};

/* The stream of an operation, and the context to which that belongs. */
struct operation {
	aclrtStream stream = nullptr;
	aclrtContext context = nullptr;
};

struct comm {
	u32 rank = 0, size = 0;
	s32 device = 0;
	aclrtContext context = nullptr;
	char name[COMM_NAME_MAX_LENGTH] = {};
	u64 slot_bytes = 0; /* the smallest of all ranks': the largest piece of a transfer */
	u32 wait_s = 0;
	char *memory = nullptr; /* slots, one a rank */
	rank_info own{};
	std::unique_ptr<peer[]> peers; /* by rank; the own one is unused */

	void *reducer = nullptr;   /* an HcclDispatcher */
	aclrtEvent done = nullptr; /* recorded at the end of each operation */
	bool owns_device = false;  /* HcclCommInitAll() set it */

	std::mutex order;                /* of operations */
	std::mutex state;                /* the next ones; innermost */
	HcclResult error = HCCL_SUCCESS; /* the first */
	operation active, last;          /* being put into its stream; complete there when done is */
	u64 due = 0;                     /* when the last operation has taken too long */
	bool idle = true;                /* the monitor sleeps without a time limit */

	/* The rank that accepts: a socket for each rank; the others: one, to that rank. */
	std::unique_ptr<unique_fd[]> sockets;
	u32 socket_count = 0; /* length of the array */
	unique_fd wake;       /* of the monitor: an operation has begun, or the end */
	bool stop = false;    /* under state */
	pthread_t monitor{};

	HcclComm handle = nullptr; /* a number that no other one had, or will have */
	comm *next = nullptr;      /* of the table */
};

/* ---- table.cpp ---------------------------------------------------------------------------------------- */

/* nullptr: no communicator of this process. It stays until HcclCommDestroy(), which no operation may run beside. */
comm *find_comm(HcclComm handle);
/* Calls f under the table's lock, which HcclCommDestroy() takes too: for calls that any thread may make at any time. */
HcclResult with_comm(HcclComm handle, HcclResult (*f)(comm *c, void *arg), void *arg);
HcclComm publish(comm *c);
/* nullptr: it is none. */
comm *withdraw(HcclComm handle);

/* ---- resources.cpp ------------------------------------------------------------------------------------ */

/* Memory, notifies and the event of this rank; pairs: what it sends to each peer. */
HcclResult make_resources(comm *c, u64 bytes, pair_info *pairs);
/* all: of each rank; pairs: of each rank for this one. */
HcclResult import_peers(comm *c, const rank_info *all, const pair_info *pairs);
void drop_resources(comm *c);
/* Logs the cause. */
HcclResult acl_failed(const char *call, aclError code);

/* ---- join.cpp ----------------------------------------------------------------------------------------- */

/* What HcclRootInfo holds. */
struct root_info {
	char magic[8];
	u8 boot_id[16], cookie[16];
	char name[64]; /* of a socket */
};

HcclResult make_root(HcclRootInfo *out);
/* Makes the resources, meets the other ranks, and imports theirs. */
HcclResult join(comm *c, const root_info &root, u64 bytes);

/* ---- monitor.cpp ---------------------------------------------------------------------------------------- */

/* Starts the thread that notices when another rank is lost, or an operation takes too long. */
HcclResult monitor_start(comm *c);
/* Stops it, if it runs: it aborts what is not complete, and notifies the others that this rank leaves. */
void monitor_end(comm *c);
/* Registers an operation of this thread's context; the group's error. */
HcclResult operation_begin(comm *c, aclrtStream stream);
/* done is recorded, unless ret is an error. The group's error, or ret. */
HcclResult operation_end(comm *c, HcclResult ret);

/* ---- exchange.cpp ------------------------------------------------------------------------------------- */

struct transfer {
	u32 peer;
	char *at;
	u64 bytes;
};

struct reduction {
	HcclDataType type;
	HcclReduceOp op;
	u64 element;
};

/* At most one transfer to and one from each peer. by: incoming data is reduced into `at`, not copied. */
HcclResult exchange(comm *c, aclrtStream stream, const transfer *out, u32 outs, const transfer *in, u32 ins,
		    const reduction *by = nullptr);
HcclResult reduce_into(comm *c, aclrtStream stream, char *dst, const char *src, u64 bytes, const reduction &by);
HcclResult copy_local(aclrtStream stream, void *dst, const void *src, u64 bytes);

} // namespace usdma::hccl_comm
