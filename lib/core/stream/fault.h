/* SPDX-License-Identifier: BSD-3-Clause */
/* What a stream does at a fault of its hardware queue: functions of queue_listener. */
#pragma once

#include "lib/core/device/device.h"

namespace usdma::core {

/* Its stream has stopped, or stops at a failure. */
bool stream_cancels_after(const hw_queue *l, const dma::fault &f);
/* Notes a failure on its stream. */
void stream_note_fault(const hw_queue *l, const dma::fault &f);
/* Notes an error on each affected stream. */
void streams_note_reset(hw_queue *l);

} // namespace usdma::core
