/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel: one ring, run in order, one submitter at a time.
 *
 * Sequence numbers are 64-bit and never wrap: the n-th request posted on a
 * channel has number start + n.  Completion is a number in host memory: when
 * record->completed >= s, request s and all before it have ended, and what they
 * wrote is visible.  A request that fails halts the channel *before* completed
 * reaches it: the owner reads the fault, tells whom it concerns, and resumes.
 *
 * Locking: post, doorbell, cancel, resume and arm are called under the owner's
 * lock; wake after it is released; the record may be read by anyone at any time.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/dma/request.h"

namespace usdma::dma {

class engine;
struct channel;

enum : u32 { state_running = 0, state_halted = 1 };

/* Written by the device (or by an engine's driver) into host memory; one cache line of its own. */
struct alignas(64) completion_record {
	u64 completed; /* sequence number of the last request that ended well (or was skipped by resume) */
	u32 state;     /* state_*; written after the fault fields */
	u32 reason;    /* fault_reason, while halted */
	u64 fault_seq; /* the request that failed; == completed + 1 */
	u64 fault_address;
	u64 fault_cookie;
	u64 heartbeat; /* grows while the device makes progress within a long request or waits in a WAIT; 0 where it
			* does not tell
			*/
	u64 reserved[2];
};
static_assert(sizeof(completion_record) == 64);

struct fault {
	u64 seq;
	fault_reason reason;
	u64 address;
	u64 cookie;
};

enum : unsigned { irq_waiter = 0, irq_service = 1, irq_slots = 2 };

struct channel_ops {
	/* Hot.  Builds up to n requests in the ring, in order, and advances ch->posted; returns how many fitted. */
	unsigned (*post)(channel *ch, const request *r, unsigned n);
	/* Hot.  Tells the device how far the ring is filled.  Orders the requests before the doorbell. */
	void (*doorbell)(channel *ch);
	/*
	 * Hot.  post() and doorbell() for one copy, which most calls are: nothing of it goes by memory.  Only while
	 * posted != post_limit; cookie as in a request.  nullptr: the engine has no shorter path.
	 */
	void (*submit_copy)(channel *ch, u32 spaces, u64 src, u64 dst, u64 len, u64 cookie);
	/*
	 * Wakes a device that sleeps; called when *ch->asleep was seen set after a full barrier (or none:
	 * asleep_ordered).
	 */
	void (*wake)(channel *ch);

	/*
	 * The device shall raise interrupt slot (irq_*) once completed >= seq, or
	 * when the channel halts.  One request a slot: a later one replaces it.  Includes the full
	 * barrier: the caller re-reads the record afterwards and sleeps only if still short.
	 */
	void (*arm)(channel *ch, unsigned slot, u64 seq);
	/* While halted: turns the posted, not yet run requests with this cookie into NOPs; returns how many. */
	unsigned (*cancel)(channel *ch, u64 cookie);
	/* While halted: goes on behind the failed request (which counts as completed), or at it after a stop. */
	int (*resume)(channel *ch);
	/*
	 * Stops between requests, or inside a WAIT or a long copy; returns once halted with reason stopped (or
	 * another).
	 */
	int (*stop)(channel *ch);
	/*
	 * For a channel that hangs: switched off in mid-request, it looks halted, with reason reset (or
	 * stopped, if it got on meanwhile); resume switches it on again behind that.  -EAGAIN: it runs a WAIT, or
	 * nothing; -errno: nothing has changed, or the device does not obey.  nullptr: the engine cannot.
	 */
	int (*cut)(channel *ch);
	/* After engine::reset: on again, empty; what was posted before counts as completed.  nullptr: as above. */
	int (*restart)(channel *ch);
	/*
	 * 1: the device has begun the first request that is not completed; 0: it has not, for another channel's work is
	 * before it; -errno.  May ask the device.  nullptr: it cannot be known.
	 */
	int (*begun)(const channel *ch);
	/*
	 * True: it stands in a WAIT, or before one, and all before that has ended.  May ask the device.
	 * nullptr: it has none.
	 */
	bool (*in_wait)(const channel *ch);
	/* For the message about one that hangs: where it stands, in words; may ask the device.  nullptr: as above. */
	void (*describe)(const channel *ch, char *buf, size_t size);
	/* Ends and frees the channel; nothing is written to host memory after it returns. */
	void (*close)(channel *ch);
};

inline constexpr u32 cpu_unknown = 0;

struct alignas(64) channel {
	const channel_ops *ops;
	const completion_record *record;
	const u32 *asleep;   /* written by the device; non-zero: wake() after posting */
	bool asleep_ordered; /* no barrier is needed between posting and the look at asleep: the device sees to it */
	u64 posted;          /* last sequence number posted */
	u64 post_limit;      /* posted may grow to this without looking at the record again */
	u32 ring_size;
	u32 index;
	engine *eng;
	int irq_fd[irq_slots]; /* eventfds, owned by the channel or the engine: each may be one for several channels */
	/* 1 + the CPU of this system on which a software engine runs, or last ran; 0: unknown.  A hint. */
	const u32 *engine_cpu = &cpu_unknown;
	u64 record_iova; /* where record->completed lies for a WAIT on another channel's progress; 0: not reachable */
};

inline u64 completed(const channel *ch)
{
	/* Acquire: the data of a completed copy is read after its completion was seen. */
	return load_acquire(&ch->record->completed);
}

inline bool halted(const channel *ch)
{
	return load_acquire(&ch->record->state) != state_running;
}

/* The halted channel's fault; false while it runs. */
bool read_fault(const channel *ch, fault *out);

} // namespace usdma::dma
