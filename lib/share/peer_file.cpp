/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/share/peer_file.h"

#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/foreign_fd.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace usdma {

/* 1: it is; 0: not, or there are no such pages; -errno: no descriptor for the comparison. */
static int same_mount(const struct statx &st, unsigned flags)
{
	const unique_fd own(memfd_create("usdma-probe", MFD_CLOEXEC | flags));
	struct statx mine;

	if (!own.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return fail_errno("a memfd to compare with");
	return own.valid() && !stat_file(own.get(), &mine) && mine.stx_dev_major == st.stx_dev_major &&
	       mine.stx_dev_minor == st.stx_dev_minor;
}

/* The kernel keeps memfds in internal mounts, one for each page size, which hold no other files. As same_mount(). */
static int is_memfd(const struct statx &st)
{
	int is = 0;

	if (!S_ISREG(st.stx_mode))
		return 0;
	for (unsigned flags : {0u, MFD_HUGETLB | MFD_HUGE_2MB, MFD_HUGETLB | MFD_HUGE_1GB})
		if (!is)
			is = same_mount(st, flags);
	return is;
}

/* O_NONBLOCK: does not wait for the holder of a lease. */
static int reopen(int fd, int access)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd_above_stdio(open(path, access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

/* ---- /proc/PID/status ------------------------------------------------------------------------------ */

static int fail_status(const char *proc, unsigned pid)
{
	const int err = errno;
	const bool lives = !kill(pid_t(pid), 0) || errno == EPERM;

	if ((err == ENOENT || err == ESRCH) && !lives)
		return fail(ENOENT, "process %u does not exist (any more)", pid);
	if (err == ENOENT || err == ESRCH)
		return fail(EOPNOTSUPP,
			    "process %u exists, but %s does not show it: it is mounted with hidepid (ProtectProc= of a "
			    "systemd service)",
			    pid, proc);
	if (err == EACCES || err == EPERM)
		return fail(EOPNOTSUPP,
			    "%s/%u/status may not be read: a sandbox (Landlock, AppArmor, SELinux) has to allow that",
			    proc, pid);
	errno = err;
	return fail_errno("%s/%u/status", proc, pid);
}

static int read_status(const char *proc, unsigned pid, char *text, size_t size)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%u/status", proc, pid);
	const unique_fd fd(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	const ssize_t n = fd.valid() ? read(fd.get(), text, size - 1) : -1;
	if (n < 0)
		return fail_status(proc, pid);
	text[n] = '\0';
	return 0;
}

/*
 * At the start of a line: the process chooses its name, which comes before, but that cannot contain a newline.
 */
static const char *status_row(const char *text, const char *name)
{
	char start[32];

	snprintf(start, sizeof(start), "\n%s:", name);
	const char *const at = strstr(text, start);
	return at ? at + strlen(start) : nullptr;
}

int peer_user_of(const char *proc, unsigned pid, peer_user *out)
{
	char text[4096];
	const int err = read_status(proc, pid, text, sizeof(text));
	const char *const row = err ? nullptr : status_row(text, "Uid");

	if (err)
		return err;
	if (!row || sscanf(row, "%u %u %u", &out->real, &out->effective, &out->saved) != 3)
		return fail(ENOENT, "%s/%u/status has no Uid line", proc, pid);
	return 0;
}

static ull capabilities(const char *proc, unsigned pid, const char *name)
{
	char text[4096];
	const char *const row = read_status(proc, pid, text, sizeof(text)) ? nullptr : status_row(text, name);
	ull set;

	return row && sscanf(row, "%llx", &set) == 1 ? set : 0;
}

/* ---- /proc/PID/fd ---------------------------------------------------------------------------------- */

/* The kernel gives such a process's files in /proc to root. */
static bool is_dumpable(const char *proc, unsigned pid)
{
	char path[512];
	struct stat st;
	peer_user user;

	snprintf(path, sizeof(path), "%s/%u/fd", proc, pid);
	return stat(path, &st) || peer_user_of(proc, pid, &user) || st.st_uid == user.effective;
}

/* The kernel's conditions: ptrace(2), "Ptrace access mode checking". */
static int fail_access(const char *proc, unsigned pid, unsigned fd)
{
	if (!is_dumpable(proc, pid))
		return fail(
			EACCES,
			"process %u is not dumpable (it has changed its user, was started with file capabilities, or "
			"called prctl(PR_SET_DUMPABLE, 0)), so the kernel hides its files: call "
			"prctl(PR_SET_DUMPABLE, 1) there after that, or let systemd set the user and "
			"AmbientCapabilities=",
			pid);
	const ull more = capabilities(proc, pid, "CapPrm") & ~capabilities(proc, unsigned(getpid()), "CapEff");
	if (more)
		return fail(EACCES,
			    "process %u has capabilities (%#llx) that this one has not, so the kernel hides its files: "
			    "give both the same ones",
			    pid, more);
	return fail(
		EACCES,
		"file %u of process %u: both must run as the same user, and no sandbox (Landlock, AppArmor, SELinux) "
		"may separate them",
		fd, pid);
}

static int fail_open(const char *proc, unsigned pid, unsigned fd)
{
	if (errno == ENOENT || errno == ESRCH)
		return fail(ENOENT, "process %u has no open file %u: it has exited or closed the file", pid, fd);
	if (errno == EACCES || errno == EPERM)
		return fail_access(proc, pid, fd);
	return fail_errno("file %u of process %u", fd, pid);
}

/*
 * Opens for reading first, which has no side effect; the seals show that it is memory, which is safe to open
 * for writing.
 */
static int open_sealed(int path_fd, const char *proc, unsigned pid, unsigned fd, int access, peer_file *out)
{
	out->fd.reset(reopen(path_fd, O_RDONLY));
	if (!out->fd.valid())
		return fail_open(proc, pid, fd);
	const int seals = fcntl(out->fd.get(), F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return fail(EINVAL, "file %u of process %u is not sealed against shrinking", fd, pid);
	if (access == O_RDONLY)
		return 0;
	out->fd.reset(reopen(path_fd, access));
	return out->fd.valid() ? 0 : fail_open(proc, pid, fd);
}

int peer_file_open(const char *proc, unsigned pid, unsigned fd, int access, peer_file *out)
{
	char path[512];
	struct statx st;

	snprintf(path, sizeof(path), "%s/%u/fd/%u", proc, pid, fd);
	const unique_fd path_fd(open(path, O_PATH | O_CLOEXEC));
	if (!path_fd.valid() || stat_file(path_fd.get(), &st))
		return fail_open(proc, pid, fd);
	int err = is_memfd(st);
	if (err < 0)
		return err;
	if (!err)
		return fail(ENOENT, "file %u of process %u is not a memfd", fd, pid);
	err = open_sealed(path_fd.get(), proc, pid, fd, access, out);
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

} // namespace usdma
