/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memfds that are shared with other processes: sealed, since truncation would kill a process that has one
 * mapped (SIGBUS).
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#include <linux/memfd.h>

#pragma GCC visibility push(default)
namespace usdma {

/*
 * Creates a memfd sealed to this size, without pages yet. flags: MFD_HUGETLB and the like. 0; -ENOMEM: exceeds
 * a limit of the process; -errno.
 */
int memfd_make(const char *name, u64 size, unsigned flags, unique_fd *out);

} // namespace usdma
#pragma GCC visibility pop
