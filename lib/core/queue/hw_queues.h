/* SPDX-License-Identifier: BSD-3-Clause */
/* Assignment of hardware queues to streams. */
#pragma once

#include "lib/core/device/device.h"

#include <algorithm>

namespace usdma::core {

/* Time limit for a server's replies while a device or channel is opened or closed; all of them are quick. */
inline u64 open_timeout_ms()
{
	return std::max<u64>(3 * config_get().reply_ms, 5000);
}

/*
 * A hardware queue for a new stream: an exclusive one if available, else the least used shared one. internal: one of a
 * synchronous copy, which has an exclusive one only for the time of its call.
 */
int hwq_get(device *dev, bool internal, hw_queue **out);
void hwq_put(hw_queue *l);
/* At the end of its device, without work or users. */
void hwq_close(hw_queue *l);

} // namespace usdma::core
