/* SPDX-License-Identifier: BSD-3-Clause */
/* What is lost, halted or hung: who waits or polls looks after it. */
#pragma once

#include "lib/core/device/device.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* Says that a device is gone or hung: every pending and later call on it ends with this errno. */
void device_fail(device *dev, int err, const char *why);
/*
 * Looks after every open device, at most once a millisecond: notices the loss of one, has halted channels go on,
 * and resets what hangs.  Everyone who waits or polls calls it, for a ring may wait for another one, of another
 * device.  Takes the locks of devices and hardware queues.
 */
void watch_all();
/* Of that the losses alone, and at once; a look at one word when there is none. */
void devices_note_loss();
/*
 * As watch_all(), for this device alone, which may be closing: a sleeper looks after its own.
 * 0, or the errno with which the device is dead.
 */
int device_alive(device *dev);

} // namespace usdma::core
#pragma GCC visibility pop
