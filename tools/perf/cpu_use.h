/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/types.h"

namespace usdma::perf {

/* CPU time of the calling thread, and of all engines of embedded devices. */
u64 thread_cpu_ns();
u64 engine_cpu_ns();
/* Of the whole process. */
u64 process_cpu_ns();

} // namespace usdma::perf
