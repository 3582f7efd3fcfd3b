/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A channel: one ring, executed in order, one submitter at a time.
 *
 * Sequence numbers are 64-bit and never wrap: the n-th request posted on a channel has number start + n.
 * Completion is a number in host memory: when record->completed >= s, request s and all before it have
 * completed, and their writes are visible. The reference engine stores it; of devices with a record of their own kind
 * the driver derives it, in each call of completed(). A request that fails halts the channel *before* completed reaches
 * it: the owner reads the fault, notifies its submitter, and resumes.
 *
 * Locking: post, doorbell, cancel, resume, arm, withdraw and last_use are called under the owner's lock; wake under it
 * or after it is released; the record and posted may be read by any thread at any time.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/dma/request.h"

namespace usdma::dma {

class [[gnu::visibility("default")]] engine; /* as in its header */
struct channel;

enum : u32 { state_running = 0, state_halted = 1 };

/* Written by the device (or by an engine's driver) into host memory; has a cache line of its own. */
struct alignas(64) completion_record {
	u64 completed; /* sequence number of the last request that completed (or was skipped by resume) */
	u32 state;     /* state_*; written after the fault fields */
	u32 reason;    /* fault_reason, while halted */
	u64 fault_seq; /* the request that failed; == completed + 1 */
	u64 fault_address;
	u64 fault_cookie;
	u64 heartbeat; /* grows while the device progresses within a long request or polls in a WAIT; 0: not reported */
	u64 reserved[2];
};
static_assert(sizeof(completion_record) == 64);

struct fault {
	u64 seq;
	fault_reason reason;
	u64 address;
	u64 cookie;
};

/* What a watchdog samples: pending work hangs if neither number changes. */
struct progress {
	u64 completed, heartbeat;
	bool halted; /* no progress is due: it waits for read_fault() and resume() */
};

/*
 * Kinds of interrupts. completion: for rings of the program, which take it as "completed": raised exactly once for each
 * arm() that is met, and not by a halt. No two channels share it; see completion_fd().
 */
enum : unsigned { irq_waiter = 0, irq_service = 1, irq_completion = 2, irq_slots = 3 };

struct channel_ops {
	/* Hot path. Builds up to n requests in the ring, in order, and advances ch->posted; returns how many fitted. */
	unsigned (*post)(channel *ch, const request *r, unsigned n);
	/* Hot path. Notifies the device of posted requests, which are visible before the doorbell. */
	void (*doorbell)(channel *ch);
	/*
	 * Hot path. post() and doorbell() for a single copy of at most submit_max bytes, whose arguments stay in
	 * registers. Only while posted != post_limit; cookie as in a request. nullptr: the engine has no such fast
	 * path.
	 */
	void (*submit_copy)(channel *ch, u32 spaces, u64 src, u64 dst, u64 len, u64 cookie);
	/*
	 * Wakes a sleeping device; called when *ch->asleep was read as set after a full barrier (or without one:
	 * asleep_ordered), and claim_wake() returned true.
	 */
	void (*wake)(channel *ch);

	/*
	 * The device raises interrupt slot (irq_*) once completed >= seq, or when the channel halts (but for
	 * irq_completion). One request per slot: a later one replaces it. Includes the full barrier: the caller
	 * re-reads the record afterwards and sleeps only if seq is not complete.
	 */
	void (*arm)(channel *ch, unsigned slot, u64 seq);
	/*
	 * After arm() of irq_completion, if seq is complete already. True: withdrawn, the interrupt does not come.
	 * False: it comes, or has come.
	 */
	bool (*withdraw)(channel *ch, u64 seq);
	/*
	 * The eventfd of irq_completion, made at the first call, as most channels need none, and stored in irq_fd; -1:
	 * there is none now. May be a message to the device's server, and wait a second for it: several threads may
	 * call it at once, and hold no lock. nullptr: the engine has no such interrupt.
	 */
	int (*completion_fd)(channel *ch);
	/* While halted: turns posted requests of the cookie's owner that have not run into NOPs; returns how many. */
	unsigned (*cancel)(channel *ch, u64 cookie);
	/* While halted: continues after the failed request (which counts as completed), or at it after a stop. */
	int (*resume)(channel *ch);
	/*
	 * Stops between requests, or inside a WAIT or a long copy; returns once halted with reason stopped (or
	 * another).
	 */
	int (*stop)(channel *ch);
	/*
	 * Disables a hung channel in mid-request: it appears halted, with reason reset (or stopped, if it made
	 * progress meanwhile); resume re-enables it after that request. -EAGAIN: it runs a WAIT, or nothing; -errno:
	 * nothing has changed, or the device does not obey. nullptr: not supported.
	 */
	int (*abort)(channel *ch);
	/*
	 * After engine::reset: re-enables the channel, empty; all posted requests count as completed. nullptr: not
	 * supported.
	 */
	int (*restart)(channel *ch);
	/*
	 * 1: the device has begun the first request that is not completed; 0: it has not, another channel's work
	 * comes first; -errno. May read registers. nullptr: not supported.
	 */
	int (*begun)(const channel *ch);
	/*
	 * True: the channel executes a WAIT, or one is next, and all requests before it have completed. May read
	 * registers. nullptr: the engine has no such state.
	 */
	bool (*in_wait)(const channel *ch);
	/* If channel::collects, any thread: brings record->completed up to the device's own record. */
	void (*collect)(const channel *ch) = nullptr;
	/* For the message about a hung channel: its state as text; may read registers. nullptr: as above. */
	void (*describe)(const channel *ch, char *buf, size_t size);
	/*
	 * The last posted request that has not completed and may access the host memory; false: there is none. What the
	 * channel does not know counts as such an access.
	 */
	bool (*last_use)(const channel *ch, const iova_range &where, u64 *seq);
	/* Closes and frees the channel; the device does not write to host memory after it returns. */
	void (*close)(channel *ch);
};

inline constexpr u32 cpu_unknown = 0;

/* Of *channel::asleep. each: wake it after each post. once: who replaces it by awake wakes it, for all others. */
enum : u32 { awake = 0, asleep_each = 1, asleep_once = 2 };

struct alignas(64) channel {
	const channel_ops *ops;
	const completion_record *record;
	u32 *asleep;         /* written by the device; non-zero: call claim_wake() after posting */
	bool asleep_ordered; /* the device orders its sleep: no barrier is needed between posting and reading asleep */
	bool collects = false; /* ops->collect is to be called before record->completed is read */
	u64 posted;     /* last sequence number posted; atomic: stored under the owner's lock, read by any thread */
	u64 post_limit; /* posted may grow to this without reading the record again */
	u32 ring_size;
	u32 index;
	engine *eng;
	int irq_fd[irq_slots]; /* eventfds, owned by the channel or the engine; channels may share one; -1: none */
	/* 1 + the CPU of this system on which a software engine runs, or last ran; 0: unknown. A hint. */
	const u32 *engine_cpu = &cpu_unknown;
	u64 record_iova; /* IOVA of record->completed, for a WAIT on another channel's progress; 0: not reachable */
	u64 submit_max = ~u64(0); /* longest copy of submit_copy(), beside engine_limits::max_len */
};

inline u64 completed(const channel *ch)
{
	if (unlikely(ch->collects))
		ch->ops->collect(ch);
	/* A completed copy's data is read after its completion. */
	return load_device(&ch->record->completed);
}

/*
 * *ch->asleep was read as set. True: the caller wakes the device. False: another thread does, or the device woke. What
 * that one finds when it is awake, and before it sleeps again, includes the caller's post.
 */
inline bool claim_wake(channel *ch)
{
	u32 was = asleep_once;

	return cmpxchg_acq_rel(ch->asleep, &was, u32(awake)) || was != awake;
}

inline bool halted(const channel *ch)
{
	return load_device(&ch->record->state) != state_running;
}

/* The halted channel's fault; false while it runs. */
[[gnu::visibility("default")]] bool read_fault(const channel *ch, fault *out);
/* For channel_ops::last_use: of the requests that are not completed, which get(seq) returns. */
template <class F> bool find_last_use(const channel *ch, const iova_range &where, u64 *seq, const F &get)
{
	const u64 pending = ch->posted - completed(ch);

	*seq = ch->posted;
	/* The device may report any number. */
	for (u64 left = pending < ch->ring_size ? pending : ch->ring_size; left; left--, --*seq)
		if (may_access(get(*seq), where))
			return true;
	return false;
}

/* Called under the owner's lock. */
[[gnu::visibility("default")]] progress read_progress(const channel *ch);

} // namespace usdma::dma
