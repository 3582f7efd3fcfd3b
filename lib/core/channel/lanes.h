/* SPDX-License-Identifier: BSD-3-Clause */
/* Which lane a stream, or a part of a copy, gets. */
#pragma once

#include "lib/core/device/device.h"

#include <algorithm>

namespace usdma::core {

/* For all that a server is asked at opening, of the device or a channel, or at closing: none of them takes it long. */
inline u64 turns_ms()
{
	return std::max<u64>(3 * config_get().reply_ms, 5000);
}

/* A lane for a new stream: one of its own while there are some, else the least used shared one. */
int lane_get(device *dev, lane **out);
void lane_put(lane *l);
/* A lane of this unit that no stream has, and none gets from now on: dev->helper[unit]. -EBUSY: there is none now. */
int lane_get_helper(device *dev, u32 unit);

} // namespace usdma::core
