/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/base/foreign_fd.h"

#include "driver/base/barrier.h"
#include "driver/base/thread.h"

#include <cstdint>
#include <fcntl.h>
#include <linux/memfd.h>

namespace usdma {

static constexpr u32 most_slow = 64;
static u32 slow; /* not closed yet; atomic */

int stat_file(int fd, struct statx *st)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, st);
}

/* Read once: a sandbox may have no paths. */
static const struct statx &root_directory()
{
	static const struct statx root = [] {
		struct statx st {};

		return statx(AT_FDCWD, "/", AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) ? decltype(st){} : st;
	}();

	return root;
}

void foreign_fd_prepare()
{
	root_directory();
}

/* Major number 0 is that of file systems without a block device, FUSE and network file systems among them. */
static bool is_on_disk(const struct statx &st)
{
	const struct statx &root = root_directory();

	return st.stx_dev_major ||
	       (root.stx_dev_minor == st.stx_dev_minor && !root.stx_dev_major && root.stx_dev_minor);
}

/* A socket's queue may hold other descriptors; a device's release is up to its driver. */
bool closes_at_once(int fd)
{
	const int flags = fcntl(fd, F_GETFL);
	struct statx st;

	if (flags < 0 || flags & O_PATH || fcntl(fd, F_GET_SEALS) >= 0)
		return true;
	if (stat_file(fd, &st))
		return false;
	switch (st.stx_mode & S_IFMT) {
	case 0: /* anonymous inodes */
	case S_IFIFO:
		return true;
	case S_IFREG:
	case S_IFDIR:
		return is_on_disk(st);
	}
	return false;
}

static void *close_it(void *fd)
{
	thread_name("usdma-close");
	close(int(reinterpret_cast<intptr_t>(fd)));
	fetch_sub_relaxed(&slow, 1);
	return nullptr;
}

void close_foreign(unique_fd fd)
{
	if (!fd.valid() || closes_at_once(fd.get()))
		return;
	fetch_add_relaxed(&slow, 1);
	/* If no thread can be started, fd leaks, which blocks no one, and counts as slow. */
	thread_start_detached("usdma-close", close_it, reinterpret_cast<void *>(intptr_t(fd.get())));
	(void)fd.release();
}

bool foreign_full()
{
	return load_relaxed(&slow) >= most_slow;
}

} // namespace usdma
