/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of memory that another process may get: none that has one mapped is to be killed by who cuts it short. */
#pragma once

#include "driver/base/types.h"

#include <fcntl.h>
#include <unistd.h>

namespace usdma {

/* Of its present size for good, whoever holds it.  0; -1 with errno. */
inline int memfd_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

/* Of this size for good.  fd was made with MFD_ALLOW_SEALING. */
inline int memfd_set_size(int fd, u64 size)
{
	return ftruncate(fd, off_t(size)) ? -1 : memfd_seal(fd);
}

} // namespace usdma
