/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eventfds, written and taken without blocking: the other end may be another
 * process, which can fill the counter or switch O_NONBLOCK off, also between a
 * question and the act.  By system calls as such, which are no cancellation
 * points: they are made under locks.
 */
#pragma once

#include "driver/base/types.h"

#include <cerrno>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace usdma {

inline bool eventfd_ready(int fd, short events)
{
	pollfd p = {fd, events, 0};
	const timespec now = {0, 0};

	return syscall(SYS_ppoll, &p, 1, &now, nullptr, 0) == 1 && p.revents & events;
}

/* It is one; what a descriptor says of itself here is the kernel's word, and no file's name looks like it. */
bool is_eventfd(int fd);

/*
 * Adds one; nothing that another process does to this eventfd makes it block.  A counter that is full stays so.
 * False: fd is no eventfd, or nothing here can do that (no aio in this kernel, or a filter forbids it).
 */
bool eventfd_raise(int fd);

/*
 * One whose other end is trusted.  False: its counter is full (then whoever waits for it is awake), or it is no
 * eventfd.
 */
inline bool eventfd_signal(int fd)
{
	const u64 one = 1;

	return eventfd_ready(fd, POLLOUT) && syscall(SYS_write, fd, &one, sizeof(one)) == long(sizeof(one));
}

/* What it held; 0: nothing. */
inline u64 eventfd_clear(int fd)
{
	u64 count;
	const iovec to = {&count, sizeof(count)};
	const long n = syscall(SYS_preadv2, fd, &to, 1, -1L, -1L, RWF_NOWAIT);

	if (n >= 0 || errno == EAGAIN)
		return n == long(sizeof(count)) ? count : 0;
	/* Before Linux 5.8: a peer that takes the count in between holds this thread until the next one comes. */
	return eventfd_ready(fd, POLLIN) && syscall(SYS_read, fd, &count, sizeof(count)) == long(sizeof(count)) ?
		       count :
		       0;
}

} // namespace usdma
