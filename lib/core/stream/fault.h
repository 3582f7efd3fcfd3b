/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles a halted channel: reports the fault to the stream and resumes the channel. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

/* Takes the lock of the hardware queue. */
void hwq_check_fault(hw_queue *l);
/* A reset of its device has ended all its requests: notes an error on each affected stream. With its lock held. */
void hwq_note_reset(hw_queue *l);
/* As hwq_check_fault() with its lock held. */
void hwq_handle_fault(hw_queue *l);

} // namespace usdma::core
