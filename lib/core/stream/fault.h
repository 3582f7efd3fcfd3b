/* SPDX-License-Identifier: BSD-3-Clause */
/* A channel that halted: the streams whose requests failed are told, and it goes on. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

/* Takes the hardware queue's lock, or those of helpers and of hardware queues that they help. */
void hwq_check_fault(hw_queue *l);
/* The channel's alone, with the lock held; not for helpers. */
void hwq_handle_fault(hw_queue *l);

} // namespace usdma::core
