/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that another process offers by the number of a descriptor of its own,
 * below /proc/PID/fd.  It chose the number, so it chose what lies there: a FIFO
 * whose open never returns, a device or a terminal for which open is an act, a
 * file of a file system that it serves itself.  What is not a memfd is not
 * opened, and neither is one that somebody could cut short.
 */
#pragma once

#include "driver/base/types.h"
#include "driver/base/unique_fd.h"

#include <sys/types.h>

#pragma GCC visibility push(default)
namespace usdma {

struct peer_file {
	unique_fd fd;
	u64 size; /* at least, for good: it is sealed against shrinking */
	uid_t owner;
	mode_t mode;
};

/*
 * access: O_RDONLY or O_RDWR.  -ENOENT: no such process, number, or no memfd.  -EINVAL: not sealed.  -EACCES and
 * others: as open(2) says.
 */
int peer_file_open(const char *proc, unsigned pid, unsigned fd, int access, peer_file *out);

/* The user as whom a process runs. */
struct peer_user {
	uid_t real, effective, saved;

	bool only(uid_t u) const { return real == u && effective == u && saved == u; }
	bool any(uid_t u) const { return real == u || effective == u || saved == u; }
};
/* -ENOENT: it is not there (any more). */
int peer_user_of(const char *proc, unsigned pid, peer_user *out);

} // namespace usdma
#pragma GCC visibility pop
