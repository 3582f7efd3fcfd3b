/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hardware queue's completion interrupt in a ring of the program: the ring waits on the eventfd that the device
 * signals, and no thread of the library is on the path.
 *
 * It has one user at a time: one completion, or a set of completions for as long as that exists. A completion is exact:
 * the device signals once for each number that is armed, when that has completed and not before, and the user is over
 * when the signal was consumed, by the ring or by signal_end(). What was not consumed then, or may still come (a late
 * interrupt), is owed: there is no next user before it has come.
 */
#pragma once

#include "driver/base/unique_fd.h"
#include "lib/core/device/device.h"

#pragma GCC visibility push(default)
namespace usdma::core {

struct ring_signal {
	static constexpr u64 nothing = ~u64(0);

	unique_fd fd; /* not the queue's own: the ring may use it after the queue was closed */

	std::mutex lock; /* protects the rest; nests inside a hardware queue's */
	bool used = false;
	bool is_set = false;          /* by a set */
	bool raised = false;          /* by the library, since it was armed last */
	const u64 *count = nullptr;   /* of a completion: as signal_arm() */
	u64 seq = nothing;            /* armed */
	u64 due = 0;                  /* signals of this use, that were written or will be … */
	u64 owed = 0;                 /* … and of earlier uses, that were not consumed */
	u64 arms = 0, seen_arms = 0;  /* so far, and at the last check; */
	u64 late_arms = 0;            /* at the check that found the signal late … */
	u64 used_ns = 0, late_ns = 0; /* … and when that was; when it was in use last */
	u32 refs = 1;                 /* the queue's and its user's; atomic */
};

enum class signalling : u8 {
	none,  /* no such interrupt, or it is in use: the progress thread signals */
	armed, /* *out is the caller's until signal_end() */
	done,  /* the work has ended */
	later, /* of a set: the signal of the number before has not come yet; when it has come, call again */
};

/* Its device has such an interrupt, and does not hold back work. */
bool signal_is_possible(const hw_queue *l);
/*
 * Before the first of the next three, without locks: connects the interrupt, which may take a second if the device's
 * server does not answer. Then the queue has none yet.
 */
void signal_prepare(hw_queue *l);
/*
 * The next three with the hardware queue's lock held. A signal once seq has completed, or the device is lost. The
 * ring's read stores in *count the signals that it took. It belongs to the caller, and is memory that is never
 * unmapped: the read of a program that finishes a completion before its CQE stores there at any later time.
 */
signalling signal_arm(hw_queue *l, u64 seq, const u64 *count, ring_signal **out);
/* For a set, until signal_release(); nullptr: none. */
ring_signal *signal_hold(hw_queue *l);
/* The next signal of that, after the one before has come, or its number has completed. done: there is none. */
signalling signal_next(hw_queue *l, ring_signal *s, u64 seq);

/* Consumes the signal; the user does not touch it any more. False: it has not come. */
bool signal_end(ring_signal *s);
/* Of a completion whose number has completed: its signal comes within a millisecond, or is replaced. */
void signal_await(ring_signal *s);
/* Of a set, of which nothing is outstanding. */
void signal_release(ring_signal *s);
/* Nothing of the set is outstanding. */
void signal_nothing(ring_signal *s);
/* A signal of the library's, to its user. */
void signal_raise(ring_signal *s);

/*
 * Of the progress thread, about each 50 ms: raises what a lost interrupt did not. idle: unused for a while, and
 * hw_queue::monitored was reset before any next use. late: check again in a millisecond.
 */
enum class signal_state : u8 { idle, used, late };
signal_state signal_check(hw_queue *l);
/* The device is dead. */
void signal_lost(hw_queue *l);
/* The channel was reset: what was raised has come, and what was armed is armed again. With the queue's lock held. */
void signal_rearm(hw_queue *l);
/* The queue is closed. */
void signal_close(hw_queue *l);

} // namespace usdma::core
#pragma GCC visibility pop
