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

static bool lies_with(const struct statx &st, unsigned flags)
{
	const unique_fd own(memfd_create("usdma-look", MFD_CLOEXEC | flags));
	struct statx mine;

	return own.valid() && !look_at_file(own.get(), &mine) && mine.stx_dev_major == st.stx_dev_major &&
	       mine.stx_dev_minor == st.stx_dev_minor;
}

/* The kernel keeps memfds in mounts of its own, one a size of pages, into which nobody else puts a file. */
static bool is_memfd(const struct statx &st)
{
	if (!S_ISREG(st.stx_mode))
		return false;
	return lies_with(st, 0) || lies_with(st, MFD_HUGETLB | MFD_HUGE_2MB) ||
	       lies_with(st, MFD_HUGETLB | MFD_HUGE_1GB);
}

/* Not for ever where it is leased (O_NONBLOCK). */
static int open_again(int fd, int access)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return keep_fd(open(path, access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

static int fail_open(unsigned pid, unsigned fd)
{
	if (errno == ENOENT || errno == ESRCH)
		return fail(ENOENT, "process %u has nothing open as %u: it has ended or closed it", pid, fd);
	return fail_errno("file %u of process %u (both must run as the same user)", fd, pid);
}

/* Read only, which is no act; then it is known to be memory, and may be opened for more. */
static int open_sealed(int look, unsigned pid, unsigned fd, int access, peer_file *out)
{
	out->fd.reset(open_again(look, O_RDONLY));
	if (!out->fd.valid())
		return fail_open(pid, fd);
	const int seals = fcntl(out->fd.get(), F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return fail(EINVAL, "file %u of process %u could be cut short: it is not sealed", fd, pid);
	if (access == O_RDONLY)
		return 0;
	out->fd.reset(open_again(look, access));
	return out->fd.valid() ? 0 : fail_open(pid, fd);
}

int peer_file_open(const char *proc, unsigned pid, unsigned fd, int access, peer_file *out)
{
	char path[512];
	struct statx st;

	snprintf(path, sizeof(path), "%s/%u/fd/%u", proc, pid, fd);
	const unique_fd look(open(path, O_PATH | O_CLOEXEC));
	if (!look.valid() || look_at_file(look.get(), &st))
		return fail_open(pid, fd);
	if (!is_memfd(st))
		return fail(ENOENT, "file %u of process %u is no memfd", fd, pid);
	const int err = open_sealed(look.get(), pid, fd, access, out);
	if (err)
		return err;
	/* Sealed: no shorter from now on. */
	if (look_at_file(look.get(), &st))
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
		return fail(ENOENT, "there is no process %u (any more)", pid);
	text[n] = '\0';
	/* Behind a line end: a process chooses its name, which stands before, but not line ends in it. */
	const char *line = strstr(text, "\nUid:");
	if (!line || sscanf(line, "\nUid: %u %u %u", &out->real, &out->effective, &out->saved) != 3)
		return fail(ENOENT, "%s does not say whose process it is", path);
	return 0;
}

} // namespace usdma
