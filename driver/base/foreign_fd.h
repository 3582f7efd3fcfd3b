/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that another process sent.  close(2) of one may wait for that
 * process, and no signal ends the wait: for the answer of a file system that it
 * serves (FUSE), for a socket whose other end it holds (SO_LINGER).  Such a one
 * is closed by a thread of its own, which may stay.
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#include <sys/stat.h>

#pragma GCC visibility push(default)
namespace usdma {

/* What is known of a file without asking its file system, which its owner may serve, and never answer. */
int look_at_file(int fd, struct statx *st);

/*
 * Memory, an eventfd and its like, a pipe, a file of a disk or of the root's file system; of anything else it
 * is not known.
 */
bool closes_at_once(int fd);

/* Returns at once; the number is free, or soon. */
void close_foreign(unique_fd fd);
/* Before a sandbox takes the paths away. */
void foreign_fd_prepare();

/* So many have not been closed that nobody should send more. */
bool foreign_full();

} // namespace usdma
#pragma GCC visibility pop
