/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "tools/perf/machine.h"

namespace usdma::perf {

enum class wake_by { eventfd, io_uring };

/* Median ns from before the write to an eventfd until the thread that slept on it runs. 0: unavailable. */
double wake_latency(const machine &m, wake_by how);

} // namespace usdma::perf
