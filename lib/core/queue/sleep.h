/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on an eventfd. */
#pragma once

#include "driver/base/types.h"

namespace usdma::core {

/*
 * Sleeps until the eventfd is written or abs_ns has passed; resets the eventfd. 0: written, -ETIMEDOUT, -EINTR.
 * Uses one io_uring a thread, or ppoll where io_uring is unavailable.
 */
int eventfd_sleep(int fd, u64 abs_ns);

} // namespace usdma::core
