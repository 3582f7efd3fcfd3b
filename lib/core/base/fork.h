/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Detection of other processes that run with this one's state. A child of fork, _Fork or clone has a copy of the memory
 * but for the device's: it must not use the parent's devices. In the copy the kernel clears pages that are marked so
 * (MADV_WIPEONFORK), for which no handler has to run. A child of vfork, or of clone with CLONE_VM, has no copy: it
 * runs with the parent's memory as a thread of it, and only its process id differs.
 */
#pragma once

#include "driver/base/types.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* Pages that are zeros in a child with a copy of the memory, if the kernel can do that. nullptr: no memory. */
void *map_wiped(size_t size);

/* Installs the detection; idempotent. */
void install_fork_handlers();
/* True in a child with a copy of the memory, made after install_fork_handlers(). */
bool forked();
/* As forked(), or in a child that shares the memory; a system call. For calls that create descriptors or threads. */
bool is_other_process();
/* Sets the error text; returns -EPERM. */
int fail_forked();

} // namespace usdma::core
#pragma GCC visibility pop
