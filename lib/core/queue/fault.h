/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles halted channels: reports the fault to the listener, and resumes the channel. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

/* Handles the queue's fault, if its channel has halted. Takes its lock. */
void hwq_check_fault(hw_queue *l);
/* As hwq_check_fault() with its lock held. */
void hwq_handle_fault(hw_queue *l);
/* Removes the pending requests with this cookie; with its lock held. On an error none was removed. */
int hwq_cancel(hw_queue *l, u64 cookie);

/* Functions of the stream layer that this layer calls, with the queue's lock held: lib/core/upcalls.cpp. */
struct queue_listener {
	/* True: no later request with the fault's cookie may run. */
	bool (*cancels_after)(const hw_queue *l, const dma::fault &f);
	/* A request failed, or its channel was stopped. */
	void (*on_fault)(const hw_queue *l, const dma::fault &f);
	/* A reset of the device has ended all its requests. */
	void (*on_reset)(hw_queue *l);
};
extern const queue_listener queue_up;

} // namespace usdma::core
