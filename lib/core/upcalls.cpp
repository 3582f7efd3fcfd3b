/* SPDX-License-Identifier: BSD-3-Clause */
/* Fills in the functions that each layer calls in the layers above it. */
#include "lib/core/copy/copy.h"
#include "lib/core/memory/memory.h"
#include "lib/core/open.h"
#include "lib/core/stream/fault.h"
#include "lib/core/queue/fault.h"
#include "lib/core/queue/recover.h"
#include "lib/core/queue/wait.h"

namespace usdma::core {

constinit const device_upcalls device_up = {.open = device_open, .close = device_close};
constinit const memory_upcalls memory_up = {.gated_last = stream_gated_last,
					    .gated_posted = stream_gated_posted,
					    .gated_await = stream_gated_await,
					    .last_use = hwq_last_use,
					    .zero = zero_device,
					    .alive = device_alive};
constinit const queue_listener queue_up = {
	.cancels_after = stream_cancels_after, .on_fault = stream_note_fault, .on_reset = streams_note_reset};

} // namespace usdma::core
