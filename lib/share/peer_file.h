/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that another process offers by a descriptor number below its /proc/PID/fd. The process chooses the
 * file behind it: a FIFO whose open blocks, a device or a terminal whose open has side effects, a file on a
 * file system that it serves itself. So only memfds are opened, and only those sealed against shrinking.
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#include <sys/types.h>

#pragma GCC visibility push(default)
namespace usdma {

struct peer_file {
	unique_fd fd;
	u64 size; /* lower bound: it is sealed against shrinking */
	uid_t owner;
	mode_t mode;
};

/*
 * access: O_RDONLY or O_RDWR. -ENOENT: no such process or descriptor, or no memfd. -EINVAL: not sealed. -EACCES:
 * the text names the kernel's condition that is not met. Others: from open(2).
 */
int peer_file_open(const char *proc, unsigned pid, unsigned fd, int access, peer_file *out);

/* The user IDs of a process. */
struct peer_user {
	uid_t real, effective, saved;

	bool only(uid_t u) const { return real == u && effective == u && saved == u; }
	bool any(uid_t u) const { return real == u || effective == u || saved == u; }
};
/* -ENOENT: no such process (any more). -EOPNOTSUPP: it lives, but this /proc does not show it. Others: from open(2). */
int peer_user_of(const char *proc, unsigned pid, peer_user *out);

} // namespace usdma
#pragma GCC visibility pop
