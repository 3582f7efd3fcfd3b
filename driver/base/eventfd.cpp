/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * write(2) blocks on an eventfd whose counter is full, and O_NONBLOCK is a flag of the open file, shared by all
 * its holders. The kernel signals an eventfd without blocking when an aio request completes, so eventfd_raise()
 * submits one: a poll of the eventfd, which is always readable or writable, so it completes at once.
 */
#include "driver/base/eventfd.h"

#include <cstdio>
#include <linux/aio_abi.h>
#include <string_view>

namespace usdma {

/* One for the process, never destroyed: that takes the kernel tens of milliseconds. 0: unavailable. */
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

/* Completions occupy the context until they are read. */
static void reap_completed(aio_context_t context)
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
	reap_completed(context);
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
	/* Retry a few times only: other threads may take the slots that were freed. */
	for (unsigned tries = 0; tries < 4; tries++) {
		if (submit(context, &request))
			return true;
		if (errno != EAGAIN)
			return false;
		reap_completed(context);
	}
	return false;
}

} // namespace usdma
