/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a sequence number of a hardware queue: spin for a budget that adapts, then
 * arm the interrupt, look again, sleep in io_uring on its eventfd.  Of several
 * that sleep on one hardware queue the first reads the eventfd and wakes the others.
 */
#pragma once

#include "lib/core/device/device.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* 0: completed >= seq; -ETIMEDOUT; -ENODEV or -ETIMEDOUT's kin: the device is dead (its text says why). */
int hwq_wait(hw_queue *l, u64 seq, deadline until, wait_mode mode);
/* Looks for about a microsecond; takes no lock.  True: completed >= seq. */
bool hwq_spin(hw_queue *l, u64 seq);
/* For closing: all that is posted has ended; false: it has not, for long, or the device is dead. */
bool hwq_drain(hw_queue *l, deadline until);

inline bool hwq_done(const hw_queue *l, u64 seq)
{
	return dma::completed(l->ch) >= seq;
}

/* Its ring waits for something outside, perhaps for what this very thread will do next. */
inline bool hwq_in_wait(const hw_queue *l)
{
	return dma::completed(l->ch) < load_relaxed(&l->wait_seq);
}

/* Its ring waits, or is yet to wait, for parts of a copy in helpers' rings (stripe.h). */
inline bool hwq_joins(const hw_queue *l)
{
	return load_relaxed(&l->join_seq) > dma::completed(l->ch);
}

/* One of the hardware queues that only parts of copies are in. */
bool helper_halted(const device *dev);

/* Its channel halted, or one that it may wait for. */
inline bool hwq_halted(const hw_queue *l)
{
	return dma::halted(l->ch) || unlikely(hwq_joins(l) && helper_halted(l->dev));
}

/* By then what hangs was reset, or is given up (recover.cpp): each step takes USDMA_HANG_MS. */
inline u64 hang_over_ms()
{
	return 4 * u64(config_get().hang_ms);
}

/* Handles channels that halted (reports to their streams, resumes); called from slow paths of every wait. */
void device_check_faults(device *dev);

/* What this floor asks of those above it: lib/core/upcalls.cpp. */
struct channel_upcalls {
	/* hwq_check_fault(), watch_all() and device_alive(). */
	void (*check_fault)(hw_queue *l);
	void (*watch)();
	int (*alive)(device *dev);
};
extern const channel_upcalls channel_up;

} // namespace usdma::core
#pragma GCC visibility pop
