/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the page cache holds: it is read straight into the memory, by one copy of the kernel's, without the disk's
 * requests. RWF_NOWAIT: such a read never waits for the disk.
 */
#include "lib/core/file/internal.h"

#include "driver/base/error.h"
#include "lib/core/copy/helper.h"
#include "lib/core/copy/mapped.h"
#include "lib/core/stream/guard.h"

#include <algorithm>
#include <climits>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace usdma::core {

/* ---- direct or not ---------------------------------------------------------------------------------------- */

/* cachestat(2), of Linux 6.5. */
struct cached_range {
	u64 off, len;
};
struct cached_pages {
	u64 cached, dirty, writeback, evicted, recently_evicted;
};
static constexpr long nr_cachestat = 451;

/* systemd since 254 knows it and has it in no group: a service with SystemCallFilter=@system-service would be killed.
 */
static bool may_be_filtered()
{
	return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER;
}

/* Shorter reads are faster through the page cache; so is a write, which is complete earlier. */
static constexpr u64 direct_from = 512 * KiB;

/* Up to the end of the file. Without a wait for the disk. */
static u64 in_file(const file *f, u64 offset, u64 len)
{
	constexpr int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
	struct statx st;

	if (statx(f->fd.get(), "", flags, STATX_TYPE | STATX_SIZE, &st) || !S_ISREG(st.stx_mode))
		return len;
	return offset < st.stx_size ? std::min<u64>(len, st.stx_size - offset) : 0;
}

/* Where at least half of it is, of what the file has. */
static read_source source_of(const file *f, u64 offset, u64 len)
{
	const cached_range range = {offset, len};
	cached_pages pages = {};
	const u64 page_len = os_page_size();

	if (f->in_memory)
		return read_source::cache;
	if (may_be_filtered() || syscall(nr_cachestat, f->fd.get(), &range, &pages, 0))
		return read_source::unknown;
	if (pages.cached < len / (2 * page_len) || !pages.cached)
		len = in_file(f, offset, len);
	const bool cached = !len || (pages.cached && pages.cached >= len / (2 * page_len));
	return cached ? read_source::cache : read_source::disk;
}

static bool is_direct(const operation *op)
{
	const file *f = op->r.f;
	const u64 left = op->r.len - op->landed;

	if (!f->direct.valid())
		return false;
	if (f->prefers_direct || !f->may_choose)
		return f->prefers_direct;
	return op->r.op == file_op::read && left >= direct_from &&
	       source_of(f, op->r.offset + op->landed, left) != read_source::cache;
}

void file_from_disk(operation *op)
{
	op->from = read_source::disk;
	op->direct = is_direct(op);
}

void file_choose_ahead(operation *op)
{
	if (source_of(op->r.f, op->r.offset, op->r.len) == read_source::cache)
		op->from = read_source::cache;
	else
		file_from_disk(op);
}

/* A read that does not wait makes the kernel read ahead into the page cache, which delays the direct one. */
bool file_begins_on_disk(const file_request &r, u64 landed)
{
	static constexpr u64 begin = 4 * MiB;
	const u64 left = r.len - landed;

	return r.f->may_choose && r.f->direct.valid() && left >= direct_from &&
	       source_of(r.f, r.offset + landed, std::min(left, begin)) == read_source::disk;
}

/* ---- reads without a disk ---------------------------------------------------------------------------------- */

namespace {

struct cached_read {
	file *f;
	u64 offset;
};

/* A range of a file, and where it is read to. */
struct file_range {
	file *f;
	u8 *mem;
	u64 offset;
	deadline until;
};

/* At most that much at once: in between, others have their turn. */
constexpr u64 shared_most = 16 * MiB, shared_part = 128 * KiB;

ssize_t read_now(void *arg, u8 *at, u64 n)
{
	const auto *c = static_cast<const cached_read *>(arg);
	const iovec v = {at, n};
	const ssize_t got = preadv2(c->f->fd.get(), &v, 1, off_t(c->offset), c->f->in_memory ? 0 : RWF_NOWAIT);

	if (got >= 0)
		return got;
	if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM)
		store_relaxed(&c->f->no_cached, 1u);
	return -errno;
}

/* RWF_NOWAIT may return 0 for what is not in memory (preadv2(2): Linux 5.9 and 5.10). */
bool is_past_end(const cached_read &c)
{
	return c.f->in_memory || !in_file(c.f, c.offset, 1);
}

} // namespace

bool file_reads_cached(const file *f)
{
	return !(f->prefers_direct && f->direct.valid()) && !load_relaxed(&f->no_cached);
}

/* Bytes of a first part, of 1 MiB at most; else as file_read_cached(). */
static ssize_t read_part(file *f, void *mem, u64 offset, u64 len)
{
	const slot_guard dev(f->slot);
	cached_read c = {f, offset};

	if (!dev || dev->lost())
		return -EAGAIN;
	const ssize_t n = fill_mapped(mem, len, read_now, &c);

	return n == 0 && len && !is_past_end(c) ? -EAGAIN : n;
}

/* Bytes of a range, as far as the page cache has it; else as file_read_cached(). */
static ssize_t read_range(const file_range &r, u64 from, u64 to)
{
	const u64 start = from;
	ssize_t n = 1;

	for (; from < to && n > 0; from += u64(std::max<ssize_t>(n, 0)))
		n = read_part(r.f, r.mem + from, r.offset + from, to - from);
	return from > start ? ssize_t(from - start) : n;
}

static int read_whole_part(void *arg, u64 from, u64 to)
{
	const file_range &r = *static_cast<const file_range *>(arg);

	return r.until.passed() || read_range(r, from, to) != ssize_t(to - from);
}

/*
 * With the helper. The first part alone: a read of what is not in memory makes the kernel read ahead, which the next
 * part of the helper would disturb.
 */
static ssize_t read_shared(file_range r, u64 len)
{
	shared_work w = {read_whole_part, &r, len, shared_part};
	const ssize_t n = read_range(r, 0, shared_part);

	if (n != ssize_t(shared_part))
		return n;
	w.next = shared_part;
	return ssize_t(helper_share(&w));
}

ssize_t file_read_cached(file *f, void *mem, u64 offset, u64 len, deadline until)
{
	const file_range r = {f, static_cast<u8 *>(mem), offset, until};

	return len < woken_from ? read_part(f, mem, offset, len) : read_shared(r, std::min(len, shared_most));
}

} // namespace usdma::core
