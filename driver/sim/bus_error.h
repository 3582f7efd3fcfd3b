/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client may shorten a file that it mapped for the device; touching what is
 * gone then raises SIGBUS in the server.  With the guard, the unit finds a page
 * of zeros of its own there instead, and the descriptor fails.
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::sim {

/* Takes SIGBUS over for the whole process: for usdma-sim, not for a library inside somebody's program. */
int guard_bus_errors();

/* Pages that this thread found gone. */
extern constinit thread_local u32 bus_errors __attribute__((tls_model("initial-exec")));

} // namespace usdma::sim
