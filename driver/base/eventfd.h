/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eventfds, written and taken without blocking: the other end may be another
 * process, which can fill the counter or switch O_NONBLOCK off.  By system calls
 * as such, which are no cancellation points: they are made under locks.
 */
#pragma once

#include "driver/base/types.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace usdma {

inline bool eventfd_ready(int fd, short events)
{
	pollfd p = {fd, events, 0};
	const timespec now = {0, 0};

	return syscall(SYS_ppoll, &p, 1, &now, nullptr, 0) == 1 && p.revents & events;
}

/* False: its counter is full (then whoever waits for it is awake), or it is no eventfd. */
inline bool eventfd_signal(int fd)
{
	const u64 one = 1;

	return eventfd_ready(fd, POLLOUT) && syscall(SYS_write, fd, &one, sizeof(one)) == long(sizeof(one));
}

/* False: nothing was there. */
inline bool eventfd_clear(int fd)
{
	u64 count;

	return eventfd_ready(fd, POLLIN) && syscall(SYS_read, fd, &count, sizeof(count)) == long(sizeof(count));
}

} // namespace usdma
