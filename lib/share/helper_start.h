/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts usdma-net. */
#pragma once

#include "driver/base/unique_fd.h"
#include "lib/share/helper_channel.h"

namespace usdma::core {

/* memory: shared with it. *socket: its end is that of the helper; *at: where it listens. -errno, as helper_get(). */
int helper_start(int memory, unique_fd *socket, net_address *at);
inline constexpr u64 helper_send_ms = 1000;
/*
 * A request, with at most two descriptors. -ECONNRESET: the helper has ended. -EAGAIN: it has not read for that time.
 * Others: the system is short of something.
 */
int helper_send(int socket, const helper_request &r, const int *fds, unsigned n, u64 wait_ms = helper_send_ms);

} // namespace usdma::core
