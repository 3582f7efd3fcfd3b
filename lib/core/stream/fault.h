/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles a halted channel: reports the fault to the stream and resumes the channel. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

/* Takes the lock of the hardware queue, or those of helpers and their owners. */
void hwq_check_fault(hw_queue *l);
/* A reset of its device has ended all its requests: notes an error on each affected stream. With its lock held. */
void hwq_note_reset(hw_queue *l);
/* As hwq_check_fault() for this channel only, with its lock held; not for helpers. */
void hwq_handle_fault(hw_queue *l);

} // namespace usdma::core
