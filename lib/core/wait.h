/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a sequence number of a lane: spin for a budget that adapts, then
 * arm the interrupt, look again, sleep in io_uring on its eventfd.  Of several
 * that sleep on one lane the first reads the eventfd and wakes the others.
 */
#pragma once

#include "lib/core/device.h"

namespace usdma::core {

/* 0: completed >= seq; -ETIMEDOUT; -ENODEV or -ETIMEDOUT's kin: the device is dead (its text says why). */
int lane_wait(lane *l, u64 seq, deadline until, wait_mode mode);
/* Looks for about a microsecond; takes no lock.  True: completed >= seq. */
bool lane_spin(lane *l, u64 seq);
/* For closing: all that is posted has ended; false: it has not, for long, or the device is dead. */
bool lane_drain(lane *l, deadline until);

inline bool lane_done(const lane *l, u64 seq)
{
	return dma::completed(l->ch) >= seq;
}

/*
 * After the doorbell, with the lock held.  What was posted must be visible before this look at whether the device
 * sleeps.  The device sets asleep, then looks at the ring: one of the two sees the other.
 */
[[gnu::always_inline]] inline void lane_wake(lane *l)
{
	dma::channel *const ch = l->ch;

	if (likely(ch->asleep_ordered))
		barrier_light();
	else
		barrier_full();
	if (unlikely(load_relaxed(ch->asleep))) {
		ch->ops->wake(ch);
		__atomic_fetch_add(&l->count->wakes, 1, __ATOMIC_RELAXED);
	}
}

/* Its ring waits for something outside, perhaps for what this very thread will do next. */
inline bool lane_in_wait(const lane *l)
{
	return dma::completed(l->ch) < load_relaxed(&l->wait_seq);
}

/* Its ring waits, or is yet to wait, for parts of a copy in helpers' rings (stripe.h). */
inline bool lane_joins(const lane *l)
{
	return load_relaxed(&l->join_seq) > dma::completed(l->ch);
}

bool stripe_halted(const device *dev);

/* Its channel halted, or one that it may wait for. */
inline bool lane_halted(const lane *l)
{
	return dma::halted(l->ch) || unlikely(lane_joins(l) && stripe_halted(l->dev));
}

/* Tells the streams whose requests failed, and resumes. Takes the lane's lock, or those of helpers and of lanes that they help. */
void lane_check_fault(lane *l);
/* The channel's alone, with the lock held; not for helpers. */
void lane_handle_fault(lane *l);

/*
 * As watch_all(), for this device alone, which may be closing: a sleeper looks after its own.
 * 0, or the errno with which the device is dead.
 */
int device_alive(device *dev);

/* By then what stands still was reset, or is given up (recover.cpp): each step takes USDMA_HANG_MS. */
inline u64 hang_over_ms()
{
	return 4 * u64(config_get().hang_ms);
}

/*
 * Sleeps until the eventfd is written or the time has come; takes the eventfd's
 * count. 0: written, -ETIMEDOUT, -EINTR.  io_uring, one ring a thread; ppoll
 * where io_uring is forbidden.
 */
int eventfd_sleep(int fd, u64 abs_ns);

} // namespace usdma::core
