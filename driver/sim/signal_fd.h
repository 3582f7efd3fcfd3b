/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/types.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma::sim {

/*
 * Adds one to an eventfd that a peer holds as well; one that is full says what we
 * want to say.  The peer can still make it block: from engines alone, which are
 * interrupted then (interrupting.h), and with no lock held.  By a system call as
 * such: ThreadSanitizer in a program follows who hands a descriptor to whom, but not
 * the atomics of a library that is built without it, and would report a race.
 */
inline void signal_eventfd(int fd)
{
	const u64 one = 1;
	pollfd p = {fd, POLLOUT, 0};

	if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) && syscall(SYS_write, fd, &one, sizeof(one)) < 0) {
		/* Interrupted, or no eventfd at all: its owner misses its own signal. */
	}
}

/* One of our own that does not block: a counter that is full says what we want to say. */
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
