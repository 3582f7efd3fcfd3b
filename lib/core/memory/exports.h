/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory that other processes may map. An importer locks its part of the memory's file (fcntl(2),
 * F_OFD_SETLK). The kernel drops the lock when the open file is neither a descriptor nor mapped any more, also if the
 * process dies. A freed block is reused only once no part of it is locked.
 */
#pragma once

#include "lib/core/device/device.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* The file of a device's memory, and where offset 0 of the memory is in it. -1: other processes cannot map it. */
int device_memory_fd(device *dev, u64 *offset);

/*
 * Marks the block of device memory at this offset as exported. closed (or nullptr): this word is set to 1 when the
 * block is freed or the device is closed, until device_unexport(). -ENOENT: no block starts there. -ENOMEM.
 */
int device_export(device *dev, u64 block, u32 *closed);
/* *closed is not accessed any more after this call. dev is only compared: it may be closed already. */
void device_unexport(const device *dev, u64 block, const u32 *closed);
/* Called without a lock when exported memory was freed. */
void exports_set_ended(void (*fn)());

} // namespace usdma::core
#pragma GCC visibility pop
