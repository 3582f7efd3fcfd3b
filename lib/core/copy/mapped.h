/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the CPU fills through a mapping, by other means than a copy. */
#pragma once

#include "driver/base/types.h"

#include <sys/types.h>

namespace usdma::core {

/* Stores up to n bytes at `at`, which is held; their number, or -errno. */
using mapped_fill = ssize_t (*)(void *arg, u8 *at, u64 n);

/*
 * Calls fill once, for a first part of dst: host memory, or device memory to which the CPU makes the copies. -EAGAIN:
 * this memory is to be filled by a copy.
 */
ssize_t fill_mapped(void *dst, u64 len, mapped_fill fill, void *arg);

/* By the CPU alone, where it makes the copies of device memory. 1: not possible; a part may have been copied. */
int copy_mapped(void *dst, const void *src, u64 len);

} // namespace usdma::core
