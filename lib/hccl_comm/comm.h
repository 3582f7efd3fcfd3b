/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators. Each rank has slots in its device's memory for each peer, and two notifies of its own for each slot of
 * each peer: the peer records `arrived` when it has written its slot, and `taken` when it has read what this rank wrote
 * into the peer's. A transfer consists of pieces of a slot each, which use a peer's slots in turn. A piece is
 *
 *	sender                          receiver
 *	waits for taken of the slot's
 *	piece before, if there was one
 *	copies into the peer's slot
 *	records the peer's arrived      waits for arrived
 *	                                copies or reduces out of the slot
 *	                                records the sender's taken
 *
 * all of it in the ranks' streams. At the end of an operation are waits for the slots that were not waited for. From
 * then on no peer will touch this rank's memory or notifies until the next operation: so each operation starts with
 * clear notifies, and a communicator can be destroyed without another rank.
 *
 * Of ranks on other machines remote.h has the slots and words.
 */
#pragma once

#include "driver/base/log.h"
#include "driver/base/types.h"
#include "driver/base/unique_fd.h"
#include "lib/hccl_comm/cause.h"
#include "lib/hccl_comm/remote.h"

#include <hccl.h>

#include <memory>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace usdma::hccl_comm {

inline constexpr u32 max_ranks = 64, no_rank = 0xff;
inline constexpr size_t key_len = 65;
/* Slots a peer: the copies of one piece run while another is taken, whichever rank is ahead. */
inline constexpr u32 depth = 2;

/* What a rank sends to its peers; addresses and handles are for peers in the same process. */
struct rank_info {
	u32 rank;
	s32 pid, device;
	u64 process; /* random: in another PID namespace another process may have the same pid */
	u64 slot_bytes, buffer_bytes;
	u8 host[16]; /* lib/share/fabric.h */
	void *memory;
	char key[key_len];
};

inline bool same_process(const rank_info &a, const rank_info &b)
{
	return a.pid == b.pid && a.process == b.process;
}

/* Notifies of one rank for one slot of one peer. */
struct slot_info {
	aclrtNotify arrived, taken;
	char arrived_key[key_len], taken_key[key_len];
};

/* The same for all slots of one peer. */
struct pair_info {
	slot_info slots[depth];
	remote_info remote; /* to ranks of other machines */
};

/* Pieces so far, in both directions of a pair: of one operation, or of all with a rank of another machine. */
struct flow {
	u8 sent = 0, got = 0; /* modulo depth: the next slot */
	u8 owed = 0;          /* bits: slots whose taken has not been waited for */
};

struct peer {
	rank_info is;
	pair_info mine;
	aclrtNotify arrived[depth] = {}, taken[depth] = {}; /* the peer's for this rank */
	char *slots = nullptr;                              /* in the peer's memory, for this rank */
	void *memory = nullptr;                             /* the peer's, if it is imported from another process */

	/* Of another machine: remote.h. */
	bool remote = false, is_open = false;
	u32 here = 0, there = 0,
	    there_peers = 0; /* its number among this rank's such peers, and this rank's among its */
	u64 opened = 0;
	core::net_address at{};
	flow pieces; /* under order */
};

/* The stream of an operation, and the context to which that belongs. */
struct operation {
	aclrtStream stream = nullptr;
	aclrtContext context = nullptr;
	bool replayed = false;
};

/* The last one of a stream, at whose end the event is recorded. */
struct stream_end {
	operation last;
	aclrtEvent done = nullptr;
};

/* A symmetric window: memory of this rank that the program has registered. */
struct window {
	HcclCommSymWindow handle;
	const char *at;
	u64 size;
};

/* What a group is, to those who make it. */
struct root_info {
	char magic[8];
	u8 boot_id[16], cookie[16];
	char name[64];        /* of a socket */
	bool fixed_name;      /* all ranks know it beforehand: rank 0 listens */
	core::net_address at; /* where ranks of other machines connect; family 0: they do not */
};

/* What one-sided operations keep of a communicator (lib/hcomm). */
struct one_sided {
	virtual ~one_sided() = default;
	/* Memory is bound: the communicator must stay. */
	virtual bool has_bound() = 0;
};

/* Ranks by machine, if there are several with as many ranks each; else rows is 0. */
struct grid {
	u32 rows = 0, columns = 0, row = 0, column = 0; /* the last two: of this rank */
	u32 ranks[max_ranks] = {};
};

struct comm {
	u32 rank = 0, size = 0;
	s32 device = 0;
	aclrtContext context = nullptr;
	char name[COMM_NAME_MAX_LENGTH] = {};
	root_info root{};       /* of the group's first meeting, … */
	u8 first_host[16] = {}; /* … which says where rank 0 is */
	core::net_address first_at{};
	u32 meetings = 0; /* HcclCommResume() has made; changed under state */
	u64 buffer_bytes = 0;
	u64 slot_bytes = 0; /* the smallest of all ranks': the largest piece of a transfer */
	grid at;
	u64 remote_slot = 0;    /* 0: all ranks are on one machine; else the same on all ranks */
	u32 wait_s = 0;         /* 0: no limit */
	void *block = nullptr;  /* device memory, with */
	char *memory = nullptr; /* the slots, `depth` for each peer */
	rank_info own{};
	std::unique_ptr<peer[]> peers;        /* by rank; the own one is unused */
	std::unique_ptr<remote_group> remote; /* this rank has peers on other machines */

	void *reducer = nullptr;  /* an HcclDispatcher */
	bool owns_device = false; /* HcclCommInitAll() set it */

	std::mutex monitoring;           /* starts and stops of the monitor; outside state */
	std::mutex order;                /* of operations */
	bool touched = false;            /* under order: the operation has submitted something */
	u32 about = no_rank;             /* the monitor's: the rank that is lost */
	std::mutex state;                /* the next ones; innermost */
	HcclResult error = HCCL_SUCCESS; /* the first */
	cause why;                       /* of error */
	operation active;                /* being put into its stream */
	std::vector<stream_end> streams; /* of those whose last one may not be complete; the newest is the last */
	u64 due = 0;                     /* when the last operation has taken too long */
	bool idle = true;                /* the monitor sleeps without a time limit */
	bool suspended = false;
	bool ended = false;               /* HcclCommDestroy() was called */
	std::unique_ptr<one_sided> sided; /* made once */

	/* The rank that accepts: a socket for each rank; the others: one, to that rank. */
	std::unique_ptr<unique_fd[]> sockets;
	u32 socket_count = 0; /* length of the array */
	unique_fd wake;       /* of the monitor: an operation has begun, or the end */
	bool stop = false;    /* under state */
	pthread_t monitor{};

	/* Under the table's lock. */
	HcclComm handle = nullptr; /* a number that no other one had, or will have */
	u32 users = 0;             /* calls in progress; the end waits for them */
	std::vector<window> windows;
	comm *next = nullptr;
};

/* Index of a peer's slots in this rank's memory. */
inline u32 index_of(u32 peer, u32 rank)
{
	return peer < rank ? peer : peer - 1;
}

/* ---- table.cpp ---------------------------------------------------------------------------------------- */

/* A communicator of this process, which is not freed while this exists. */
class comm_use {
public:
	explicit comm_use(HcclComm handle);
	/* By its name; the newest, if several have it. */
	explicit comm_use(const char *name);
	~comm_use();
	comm_use(const comm_use &) = delete;
	comm_use &operator=(const comm_use &) = delete;
	comm *get() const { return c_; }
	comm *operator->() const { return c_; }
	operator comm *() const { return c_; }

private:
	comm *c_;
};

HcclComm publish(comm *c);
/* nullptr: it is none. Calls in progress may still use it. */
comm *withdraw(HcclComm handle);
/* Until none does. */
void wait_unused(comm *c);
bool name_in_use(const char *name, s32 device);
/* HCCL_E_PARA: overlaps another; HCCL_E_MEMORY. */
HcclResult add_window(comm *c, const void *at, u64 size, HcclCommSymWindow *out);
bool remove_window(HcclCommSymWindow handle);
/* The window that holds all of the range. */
bool find_window(comm *c, const void *at, u64 size, window *out);

/* ---- comm.cpp ------------------------------------------------------------------------------------------ */

/* What of a configuration is used. */
struct options {
	u64 bytes = 0;
	u32 wait_s = 0;
	char name[COMM_NAME_MAX_LENGTH] = {};
};
/* The configuration, or nullptr; then the environment, then the defaults. */
HcclResult read_options(const HcclCommConfig *config, options *o);
/* For later; the program's may be shorter than this version's. */
HcclCommConfig copy_config(const HcclCommConfig *config);
/* Joins as a rank of the thread's device. other_name: if the options have none. */
HcclResult make_comm(u32 size, u32 rank, const root_info &root, const options &o, const char *other_name,
		     HcclComm *out);

/* ---- resources.cpp ------------------------------------------------------------------------------------ */

/* Memory, notifies and the event of this rank. */
HcclResult make_resources(comm *c);
/* pairs: what it sends to each peer, with keys for those of other processes only: an exported notify is slower. */
HcclResult export_pairs(comm *c, const rank_info *all, pair_info *pairs);
/* all: of each rank; pairs: of each rank for this one. */
HcclResult import_peers(comm *c, const rank_info *all, const pair_info *pairs);
void drop_resources(comm *c);
/* A random number of this process, the same each time; false: there is none. */
bool process_id(u64 *out);
/* Peer access between two devices of this process, in both directions: the other side may not have come to this. */
HcclResult enable_both(s32 own, s32 other);

/* ---- join.cpp ----------------------------------------------------------------------------------------- */

/* remote: ranks of other machines may come. */
HcclResult make_root(HcclRootInfo *out, bool remote);
/* Where the first of these ranks of the group is, if it accepts those of a new one. */
HcclResult find_root(const comm *c, const u32 *ranks, u32 count, root_info *root);
/* The same of all ranks, whatever has become of the group. */
HcclResult find_root(const comm *c, root_info *root);
/* Of a group whose ranks know its name beforehand: the cookie is a hash of the parts. */
root_info fixed_root(std::initializer_list<std::pair<const void *, size_t>> parts);
/* HCCL_CONNECT_TIMEOUT. */
u64 connect_seconds();
/* Makes the resources, meets the other ranks, and imports theirs. */
HcclResult join(comm *c, const root_info &root);

/* ---- monitor.cpp ---------------------------------------------------------------------------------------- */

/* Starts the thread that notices when another rank is lost, or an operation takes too long. */
HcclResult monitor_start(comm *c);
/* Stops it, if it runs: it aborts what is not complete, and notifies the others that this rank leaves. */
void monitor_end(comm *c);
/* Registers an operation of this thread's context; the group's error, also if the last replay has no end. */
HcclResult operation_begin(comm *c, aclrtStream stream, bool replayed = false);
/* done is recorded, unless ret is an error. The group's error, or ret, which is the group's if something was submitted.
 */
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

/* An operation that is being put into a stream. */
struct work {
	comm *c;
	aclrtStream stream;
	flow flows[max_ranks] = {};
};

/* At most one transfer to and one from each peer. by: incoming data is reduced into `at`, not copied. */
HcclResult exchange(work *w, const transfer *out, u32 outs, const transfer *in, u32 ins, const reduction *by = nullptr);
/* Each rank's bytes, which fit a slot, reduced in the order of ranks: one exchange less than by shares. */
HcclResult reduce_in_slots(work *w, char *dst, char *src, u64 bytes, const reduction &by);
/* The waits at the end of an operation. */
HcclResult drain(work *w);
HcclResult copy_local(work *w, void *dst, const void *src, u64 bytes);

/* ---- capture.cpp --------------------------------------------------------------------------------------- */

/* The stream records a graph. */
bool capturing(aclrtStream stream);
/* Into the graph: what operation_begin() and operation_end() do, at each replay. */
HcclResult capture_begin(comm *c, aclrtStream stream);
HcclResult capture_end(comm *c, aclrtStream stream);
/* Recording failed: the capture has failed. Returns ret. */
HcclResult capture_failed(aclrtStream stream, HcclResult ret);

/* ---- order.cpp ----------------------------------------------------------------------------------------- */

/* Behind the last operation; before the next one. */
HcclResult wait_for_last(comm *c, aclrtStream stream);
HcclResult record_done(comm *c, aclrtStream stream);
/* Whether the newest one is complete; an error: one has failed. Under state. */
HcclResult check_streams(const comm *c, bool *complete);
/*
 * The one that is active, then those that are not complete, the newest first: each comes before what it waits for. None
 * of them: no stream. False: no more.
 */
bool next_pending(comm *c, u32 i, operation *out);
/* Their events. */
void drop_streams(comm *c);

} // namespace usdma::hccl_comm
