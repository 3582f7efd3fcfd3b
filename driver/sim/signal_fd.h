/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/await_fds.h"
#include "driver/base/types.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma::sim {

/*
 * Adds one to an eventfd that a peer holds too; a full counter signals as well. The peer can still make it block,
 * so only engines call this, which can be interrupted (interrupting.h), with no lock held. A raw system call:
 * ThreadSanitizer in a program tracks which thread passes a descriptor to which, but not the atomics of a library
 * that is built without it, and would report a race.
 */
inline void signal_eventfd(int fd)
{
	const u64 one = 1;
	pollfd p = {fd, POLLOUT, 0};

	if (await_fds(&p, 1, 0) == 1 && (p.revents & POLLOUT) && syscall(SYS_write, fd, &one, sizeof(one)) < 0) {
		/* Interrupted, or not an eventfd: only its owner misses the signal. */
	}
}

/* The same of a client in this process, which can only make itself wait. */
inline void signal_own_eventfd(int fd)
{
	const u64 one = 1;

	if (syscall(SYS_write, fd, &one, sizeof(one)) < 0) {
	}
}

/* Our own nonblocking eventfd; a full counter signals as well. */
inline void eventfd_add(int fd)
{
	const u64 one = 1;

	if (write(fd, &one, sizeof(one)) < 0) {
	}
}

inline void eventfd_take(int fd)
{
	u64 count;

	if (read(fd, &count, sizeof(count)) < 0) {
	}
}

} // namespace usdma::sim
