/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread sleeps on an eventfd. */
#pragma once

#include "driver/base/types.h"

namespace usdma::core {

/*
 * Sleeps until the eventfd is written or the time has come; takes the eventfd's
 * count. 0: written, -ETIMEDOUT, -EINTR.  io_uring, one ring a thread; ppoll
 * where io_uring is forbidden.
 */
int eventfd_sleep(int fd, u64 abs_ns);

} // namespace usdma::core
