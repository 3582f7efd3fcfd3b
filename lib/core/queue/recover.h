/* SPDX-License-Identifier: BSD-3-Clause */
/* Detection and recovery of lost, halted or hung devices; run by threads that wait or poll. */
#pragma once

#include "lib/core/device/device.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* Marks a device as lost or hung: every pending and later call on it fails with this errno. */
void device_fail(device *dev, int err, const char *why);
/*
 * Checks every open device, at most once a millisecond: detects loss, resumes halted channels, resets hung
 * ones. Every waiter and poller calls it, as a ring may wait for a ring of another device. Takes the locks of
 * devices and hardware queues.
 */
void devices_poll();
/* A word that a stream waits for may be written by any request: devices that hold their work run it soon. */
void devices_arm_held();
/* Detects losses only, without rate limit; reads one word if there is none. */
void devices_note_loss();
/* Changes with each device that is lost, and each hang: what is then over raises no interrupt. */
u32 devices_failures();
/*
 * As devices_poll() for one device, which may be closing; sleepers call it for their own device. 0, or -errno
 * if the device is dead.
 */
int device_alive(device *dev);

/* By then a hang was reset or the device lost: each step takes USDMA_HANG_MS. */
inline u64 hang_over_ms()
{
	return 4 * u64(config_get().hang_ms);
}

/* Its ring is in a WAIT, perhaps for an action that the calling thread is yet to take. */
inline bool hwq_in_wait(const hw_queue *l)
{
	return dma::completed(l->ch) < load_relaxed(&l->wait_seq);
}

} // namespace usdma::core
#pragma GCC visibility pop
