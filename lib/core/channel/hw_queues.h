/* SPDX-License-Identifier: BSD-3-Clause */
/* Which hardware queue a stream, or a part of a copy, gets. */
#pragma once

#include "lib/core/device/device.h"

#include <algorithm>

namespace usdma::core {

/* For all that a server is asked at opening, of the device or a channel, or at closing: none of them takes it long. */
inline u64 turns_ms()
{
	return std::max<u64>(3 * config_get().reply_ms, 5000);
}

/* A hardware queue for a new stream: one of its own while there are some, else the least used shared one. */
int hwq_get(device *dev, hw_queue **out);
void hwq_put(hw_queue *l);
/*
 * A hardware queue of this engine that no stream has, and none gets from now on: dev->helper[engine]. -EBUSY:
 * there is none now.
 */
int hwq_get_helper(device *dev, u32 engine);

} // namespace usdma::core
