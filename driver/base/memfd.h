/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of memory that another process may get: none that has one mapped is to be killed by who cuts it short. */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#include <linux/memfd.h>

namespace usdma {

/*
 * Of this size for good, whoever holds it, and without pages yet.  flags: MFD_HUGETLB and its like.  0; -ENOMEM where
 * a limit of the process is met; -errno.
 */
int memfd_make(const char *name, u64 size, unsigned flags, unique_fd *out);

} // namespace usdma
