/* SPDX-License-Identifier: BSD-3-Clause */
/* Imported files: what a descriptor allows, and the descriptors that requests use. */
#include "lib/core/file/internal.h"

#include "driver/base/cancel.h"
#include "driver/base/error.h"
#include "driver/base/fd.h"
#include "driver/base/foreign_fd.h"
#include "lib/core/base/section.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <iterator>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace usdma::core {

inline constexpr size_t max_files = 65536;
static constinit no_destructor<slab<file, max_files, handle_kind::file>> files;

file *file_enter(const void *handle)
{
	return files->ref(handle, file_leave);
}

void file_leave(file *f)
{
	file_unref(f, true);
}

/* close(2) may wait for the file system's process (FUSE): the file thread leaves it to another one. */
void file_unref(file *f, bool closes)
{
	if (fetch_sub_acq_rel(&f->refs, 1) != 1)
		return;
	if (!closes) {
		close_foreign(std::move(f->fd));
		close_foreign(std::move(f->direct));
	}
	files->put(f);
}

static u32 unfinished_writes[1024]; /* atomic */

void file_writes_add(const file *f, u32 n)
{
	fetch_add_acq_rel(&unfinished_writes[f->group], n);
}

bool file_has_writes(const file *f)
{
	return load_acquire(&unfinished_writes[f->group]) != 0;
}

static u32 group_of(const struct statx &st)
{
	return u32((st.stx_ino * 31 + st.stx_dev_minor * 7 + st.stx_dev_major) % std::size(unfinished_writes));
}

/* ---- descriptors ---------------------------------------------------------------------------------------- */

/* Not its other flags: with O_TMPFILE it would be a new file. */
static int open_again(int fd, int flags)
{
	static constexpr int reopened = O_ACCMODE | O_APPEND | O_DIRECT | O_NOATIME | O_NONBLOCK | O_SYNC;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd_above_stdio(open(path, (flags & reopened) | O_CLOEXEC | O_NOCTTY));
}

static int check_kind(int fd, const struct statx &st)
{
	switch (st.stx_mode & S_IFMT) {
	case S_IFREG:
	case S_IFBLK:
		return 0;
	case S_IFDIR:
		return fail(EISDIR, "file descriptor %d is a directory", fd);
	}
	return fail(ESPIPE, "file descriptor %d has no offsets: it must be a regular file or a block device", fd);
}

/* Without STATX_DIOALIGN (before Linux 6.1): a page. */
static u64 direct_align(int fd, bool is_direct)
{
	struct statx st = {};

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_DIOALIGN, &st) || !(st.stx_mask & STATX_DIOALIGN))
		return is_direct ? os_page_size() : 0;
	/* The memory of pieces is aligned to pages. */
	if (!st.stx_dio_offset_align || st.stx_dio_mem_align > os_page_size() || st.stx_dio_offset_align > 64 * KiB)
		return 0;
	/* Not less than a page: no page is written directly and through the cache. */
	return std::max<u64>(st.stx_dio_offset_align, os_page_size());
}

/* f->fd is buffered, f->direct is not. */
static int open_both(file *f, int fd, int flags, file_access access)
{
	const bool is_direct = flags & O_DIRECT;
	unique_fd same(fd_copy(fd));

	if (!same.valid())
		return fail_errno("file descriptor %d", fd);
	if (is_direct) {
		f->fd.reset(open_again(fd, flags & ~O_DIRECT));
		if (!f->fd.valid())
			return fail_errno("opening file descriptor %d without O_DIRECT, for unaligned bytes", fd);
	}
	f->align = access == file_access::buffered ? 0 : direct_align(fd, is_direct);
	if (!is_direct)
		f->fd = std::move(same);
	else if (f->align)
		f->direct = std::move(same);
	if (f->align && !is_direct)
		f->direct.reset(open_again(fd, flags | O_DIRECT));
	if (access != file_access::direct || f->direct.valid())
		return 0;
	return f->align ? fail_errno("opening file descriptor %d with O_DIRECT", fd) :
			  fail(EOPNOTSUPP, "file descriptor %d: its file system has no direct access", fd);
}

/* The others' pages are read without waiting; these have no such call, and are always there. */
static bool is_in_memory(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 && (st.f_type == TMPFS_MAGIC || st.f_type == HUGETLBFS_MAGIC);
}

static int file_open(file *f, int fd, file_access access)
{
	const int flags = fcntl(fd, F_GETFL);
	struct statx st;

	if (flags < 0)
		return fail_errno("file descriptor %d", fd);
	if (flags & O_PATH)
		return fail(EBADF, "file descriptor %d was opened with O_PATH", fd);
	if (stat_file(fd, &st))
		return fail_errno("file descriptor %d", fd);
	if (const int err = check_kind(fd, st))
		return err;
	f->group = group_of(st);
	f->reads = (flags & O_ACCMODE) != O_WRONLY;
	f->writes = (flags & O_ACCMODE) != O_RDONLY && !(flags & O_APPEND);
	f->prefers_direct = access == file_access::direct || (access == file_access::automatic && flags & O_DIRECT);
	f->in_memory = is_in_memory(fd);
	f->may_choose = access == file_access::automatic;
	return open_both(f, fd, flags, access);
}

int file_import(device *dev, int fd, file_access access, void **out)
{
	if (is_other_process())
		return fail_forked();
	file *f = files->get();

	if (!f)
		return files->fail_full(ENOMEM, "files");
	f->slot = dev->slot;
	if (const int err = file_open(f, fd, access)) {
		const saved_error why;

		files->put(f);
		return why.again(err);
	}
	files->publish(f);
	*out = reinterpret_cast<void *>(f->alive);
	return 0;
}

int file_close(const void *handle)
{
	const no_cancel scope;

	if (is_other_process())
		return fail_forked();
	file *f = files->find(handle);
	if (!f || !handle_end(f, handle))
		return fail(EBADF, "the file is NULL, unknown, or closed already");
	file_leave(f);
	return 0;
}

} // namespace usdma::core
