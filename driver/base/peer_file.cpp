/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/peer_file.h"

#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/foreign_fd.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace usdma {

static bool same_mount(const struct statx &st, unsigned flags)
{
	const unique_fd own(memfd_create("usdma-probe", MFD_CLOEXEC | flags));
	struct statx mine;

	return own.valid() && !stat_file(own.get(), &mine) && mine.stx_dev_major == st.stx_dev_major &&
	       mine.stx_dev_minor == st.stx_dev_minor;
}

/* The kernel keeps memfds in internal mounts, one for each page size, which hold no other files. */
static bool is_memfd(const struct statx &st)
{
	if (!S_ISREG(st.stx_mode))
		return false;
	return same_mount(st, 0) || same_mount(st, MFD_HUGETLB | MFD_HUGE_2MB) ||
	       same_mount(st, MFD_HUGETLB | MFD_HUGE_1GB);
}

/* O_NONBLOCK: does not wait for the holder of a lease. */
static int reopen(int fd, int access)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd_above_stdio(open(path, access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

static int fail_open(unsigned pid, unsigned fd)
{
	if (errno == ENOENT || errno == ESRCH)
		return fail(ENOENT, "process %u has no open file %u: it has exited or closed the file", pid, fd);
	return fail_errno("file %u of process %u (both must run as the same user)", fd, pid);
}

/*
 * Opens for reading first, which has no side effect; the seals show that it is memory, which is safe to open
 * for writing.
 */
static int open_sealed(int path_fd, unsigned pid, unsigned fd, int access, peer_file *out)
{
	out->fd.reset(reopen(path_fd, O_RDONLY));
	if (!out->fd.valid())
		return fail_open(pid, fd);
	const int seals = fcntl(out->fd.get(), F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return fail(EINVAL, "file %u of process %u is not sealed against shrinking", fd, pid);
	if (access == O_RDONLY)
		return 0;
	out->fd.reset(reopen(path_fd, access));
	return out->fd.valid() ? 0 : fail_open(pid, fd);
}

int peer_file_open(const char *proc, unsigned pid, unsigned fd, int access, peer_file *out)
{
	char path[512];
	struct statx st;

	snprintf(path, sizeof(path), "%s/%u/fd/%u", proc, pid, fd);
	const unique_fd path_fd(open(path, O_PATH | O_CLOEXEC));
	if (!path_fd.valid() || stat_file(path_fd.get(), &st))
		return fail_open(pid, fd);
	if (!is_memfd(st))
		return fail(ENOENT, "file %u of process %u is not a memfd", fd, pid);
	const int err = open_sealed(path_fd.get(), pid, fd, access, out);
	if (err)
		return err;
	/* The size is read after the seal check: it cannot shrink any more. */
	if (stat_file(path_fd.get(), &st))
		return fail_errno("file %u of process %u", fd, pid);
	out->size = st.stx_size;
	out->owner = st.stx_uid;
	out->mode = st.stx_mode;
	return 0;
}

int peer_user_of(const char *proc, unsigned pid, peer_user *out)
{
	char path[512], text[4096];

	snprintf(path, sizeof(path), "%s/%u/status", proc, pid);
	const unique_fd fd(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	const ssize_t n = fd.valid() ? read(fd.get(), text, sizeof(text) - 1) : -1;
	if (n <= 0)
		return fail(ENOENT, "process %u does not exist (any more)", pid);
	text[n] = '\0';
	/*
	 * At the start of a line: the process chooses its name, which comes before, but that cannot contain a
	 * newline.
	 */
	const char *line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %u %u %u", &out->real, &out->effective, &out->saved) != 3)
		return fail(ENOENT, "%s has no Uid line", path);
	return 0;
}

} // namespace usdma
