/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps descriptors of the library above 2.  In a program whose standard streams
 * are closed, the kernel would reuse the numbers 0 to 2, and a printf() would write
 * into device memory or signal an eventfd.
 */
#pragma once

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace usdma {

/* A duplicate above 2; -1 with errno. Of a limit of 3 and less the kernel says EINVAL (fcntl(2)). */
inline int fd_copy(int fd)
{
	const int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (copy < 0 && errno == EINVAL)
		errno = EMFILE;
	return copy;
}

/*
 * Every descriptor that the library opens, receives or imports goes through this: fd, or its duplicate above 2.
 * fd < 0 is returned as it is, with errno. If none above 2 is free, fd is closed: -1 with errno.
 */
inline int fd_above_stdio(int fd)
{
	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	const int up = fd_copy(fd), err = errno;

	close(fd);
	errno = err;
	return up;
}

/*
 * At program start: opens /dev/null for each closed standard stream, so that nothing else gets its number. Writes to
 * standard output fail with EBADF, as those to a closed one do.
 */
inline void open_closed_streams()
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return;
}

} // namespace usdma
