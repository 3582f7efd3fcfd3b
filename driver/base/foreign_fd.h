/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that another process sent. close(2) of one may wait for that process, uninterruptibly: for the
 * reply of a file system that it serves (FUSE), for a socket whose peer it holds (SO_LINGER). Such a descriptor
 * is closed by a thread of its own, which may block forever.
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#include <sys/stat.h>

#pragma GCC visibility push(default)
namespace usdma {

/* Cached attributes only: a request to its file system may never be answered if a hostile process serves it. */
int stat_file(int fd, struct statx *st);

/*
 * True for memory, an eventfd or the like, a pipe, a file on a disk or on the root's file system; anything else
 * may block.
 */
bool closes_at_once(int fd);

/* Returns at once; the descriptor is closed now or soon. */
void close_foreign(unique_fd fd);
/* Call before a sandbox removes the paths. */
void foreign_fd_prepare();

/* Too many closes are pending: accept no more descriptors. */
bool foreign_full();

} // namespace usdma
#pragma GCC visibility pop
