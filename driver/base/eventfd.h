/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eventfds, signalled and read without blocking: the peer may be another process, which can fill the counter or
 * clear O_NONBLOCK at any time, also between a check and the call after it. Uses raw system calls, which are no
 * cancellation points: callers hold locks.
 */
#pragma once

#include "driver/base/await_fds.h"
#include "driver/base/fd.h"
#include "driver/base/types.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>

namespace usdma {

inline bool eventfd_ready(int fd, short events)
{
	pollfd p = {fd, events, 0};

	return await_fds(&p, 1, 0) == 1 && p.revents & events;
}

/* A new one, above standard error; -1 with errno. */
inline int eventfd_make()
{
	return fd_above_stdio(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

/*
 * The same for one that an io_uring reads: blocking, because before Linux 5.15 a read of a non-blocking one fails with
 * -EAGAIN at once instead of waiting.
 */
inline int eventfd_make_for_ring()
{
	return fd_above_stdio(eventfd(0, EFD_CLOEXEC));
}

/* By /proc/self/fd, whose text for an eventfd no file name can imitate. */
[[gnu::visibility("default")]] bool is_eventfd(int fd);

/*
 * Adds one; never blocks, whatever another process does to this eventfd. A full counter is left unchanged.
 * False: fd is no eventfd, or aio is unavailable (not in this kernel, or forbidden by a filter).
 */
[[gnu::visibility("default")]] bool eventfd_raise(int fd);

/*
 * For an eventfd whose peer is trusted. False: the counter is full (so its reader is already woken), or fd is
 * no eventfd.
 */
inline bool eventfd_signal(int fd)
{
	const u64 one = 1;

	return eventfd_ready(fd, POLLOUT) && syscall(SYS_write, fd, &one, sizeof(one)) == long(sizeof(one));
}

/* Reads and resets the counter; 0: it was 0. */
inline u64 eventfd_clear(int fd)
{
	u64 count;
	const iovec to = {&count, sizeof(count)};
	const long n = syscall(SYS_preadv2, fd, &to, 1, -1L, -1L, RWF_NOWAIT);

	if (n >= 0 || errno == EAGAIN)
		return n == long(sizeof(count)) ? count : 0;
	/* Before Linux 5.8: if a peer reads the counter in between, this thread blocks until the next signal. */
	return eventfd_ready(fd, POLLIN) && syscall(SYS_read, fd, &count, sizeof(count)) == long(sizeof(count)) ?
		       count :
		       0;
}

} // namespace usdma
