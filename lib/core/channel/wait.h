/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a sequence number of a hardware queue: spin for an adaptive budget, then arm the interrupt,
 * recheck, and sleep in io_uring on its eventfd. If several threads sleep on one hardware queue, the first
 * reads the eventfd and wakes the others.
 */
#pragma once

#include "lib/core/device/device.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* 0: completed >= seq; -ETIMEDOUT; another error: the device is dead (see error_text()). */
int hwq_wait(hw_queue *l, u64 seq, deadline until, wait_mode mode);
/* Polls for about a microsecond; takes no lock. True: completed >= seq. */
bool hwq_spin(hw_queue *l, u64 seq);
/* For closing: waits for all posted requests. False: timed out, or the device is dead. */
bool hwq_drain(hw_queue *l, deadline until);

inline bool hwq_done(const hw_queue *l, u64 seq)
{
	return dma::completed(l->ch) >= seq;
}

/* Its ring is in a WAIT, perhaps for an action that the calling thread is yet to take. */
inline bool hwq_in_wait(const hw_queue *l)
{
	return dma::completed(l->ch) < load_relaxed(&l->wait_seq);
}

/* Its ring has a pending WAIT for parts in helpers' rings (stripe.h). */
inline bool hwq_joins(const hw_queue *l)
{
	return load_relaxed(&l->join_seq) > dma::completed(l->ch);
}

/* True: a helper of the device has halted. */
bool member_halted(const device *dev);

/* Its channel has halted, or a helper that it may wait for. */
inline bool hwq_halted(const hw_queue *l)
{
	return dma::halted(l->ch) || unlikely(hwq_joins(l) && member_halted(l->dev));
}

/* By then a hang was reset or the device lost (recover.cpp): each step takes USDMA_HANG_MS. */
inline u64 hang_over_ms()
{
	return 4 * u64(config_get().hang_ms);
}

/* Handles halted channels (reports to their streams, resumes); called from the slow paths of every wait. */
void device_check_faults(device *dev);

/* Functions of upper layers that this layer calls: lib/core/upcalls.cpp. */
struct channel_upcalls {
	/* hwq_check_fault(), devices_poll() and device_alive(). */
	void (*check_fault)(hw_queue *l);
	void (*poll_devices)();
	int (*alive)(device *dev);
};
extern const channel_upcalls channel_up;

} // namespace usdma::core
#pragma GCC visibility pop
