/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write(2) on an eventfd whose counter is full waits, and O_NONBLOCK is a flag
 * that all who hold it share.  The kernel's own way to signal one does not wait:
 * that of the end of an aio request.  The request is a poll of the eventfd, which
 * is always ready for one thing or the other and so ends at once.
 */
#include "driver/base/eventfd.h"

#include <cstdio>
#include <linux/aio_abi.h>
#include <string_view>

namespace usdma {

/* One for the process, for good: to released one takes the kernel tens of milliseconds.  0: none is to be had. */
static aio_context_t aio_context()
{
	static const aio_context_t context = [] {
		aio_context_t made = 0;

		return syscall(SYS_io_setup, 64, &made) ? 0 : made;
	}();

	return context;
}

static bool submit(aio_context_t context, iocb *request)
{
	return syscall(SYS_io_submit, context, 1L, &request) == 1;
}

/* Their ends are kept until somebody looks. */
static void forget_ended(aio_context_t context)
{
	const timespec now = {0, 0};
	io_event ended[64];

	syscall(SYS_io_getevents, context, 0L, long(std::size(ended)), ended, &now);
}

/*
 * Works without /proc.  For IOCB_FLAG_RESFD the kernel first checks that fd is an eventfd, then refuses the unknown
 * read flags with EOPNOTSUPP, so nothing is submitted.
 */
static bool accepted_as_resfd(int fd)
{
	const aio_context_t context = aio_context();
	iocb request{};

	request.aio_lio_opcode = IOCB_CMD_PREAD;
	request.aio_fildes = u32(fd);
	request.aio_rw_flags = -1;
	request.aio_flags = IOCB_FLAG_RESFD;
	request.aio_resfd = u32(fd);
	if (!context)
		return false;
	/* Requests that have ended occupy the context until their events are read. */
	forget_ended(context);
	return !submit(context, &request) && errno == EOPNOTSUPP;
}

bool is_eventfd(int fd)
{
	char path[64], what[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	const ssize_t n = readlink(path, what, sizeof(what));
	if (n < 0 && errno == ENOENT)
		return accepted_as_resfd(fd);
	return n > 0 && std::string_view(what, size_t(n)) == "anon_inode:[eventfd]";
}

bool eventfd_raise(int fd)
{
	const aio_context_t context = aio_context();
	iocb request{};

	request.aio_lio_opcode = IOCB_CMD_POLL;
	request.aio_fildes = u32(fd);
	request.aio_buf = POLLIN | POLLOUT;
	request.aio_flags = IOCB_FLAG_RESFD;
	request.aio_resfd = u32(fd);
	if (!context)
		return false;
	/* A few: others use the room that is made as well. */
	for (unsigned tries = 0; tries < 4; tries++) {
		if (submit(context, &request))
			return true;
		if (errno != EAGAIN)
			return false;
		forget_ended(context);
	}
	return false;
}

} // namespace usdma
