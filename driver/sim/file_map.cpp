/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/sim/file_map.h"

#include "driver/base/error.h"
#include "driver/base/grow.h"
#include "driver/base/madvise.h"
#include "driver/vfio/device.h"

#include <algorithm>
#include <cinttypes>
#include <fcntl.h>
#include <linux/memfd.h>

namespace usdma::sim {

/* Files are mapped in aligned pieces of this size, or of an area's where that is longer. */
static constexpr u64 piece_size = GiB;
/* Resident pages are prefaulted in blocks of this size; not for an area longer than populate_max. */
static constexpr u64 populate_block = 2 * MiB, populate_max = 256 * MiB;
/* Most descriptors held open, of those that this process may have (RLIMIT_NOFILE, often 1024). */
static constexpr u32 most_held = 400;

file_map::~file_map()
{
	for (auto &[key, f] : files_)
		while (file_piece *p = f.pieces) {
			f.pieces = p->next;
			free_piece(p);
		}
}

int file_map::check(int fd, u64 offset, u64 size, bool writes, struct stat *out) const
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return fail_errno("sim: DMA_MAP: the descriptor");
	/*
	 * The pages and the length of any other file may be under its owner's control, and accesses may block for ever
	 * (FUSE, network).
	 */
	if (flags & O_PATH || (!most_.any_file && fcntl(fd, F_GET_SEALS) < 0))
		return fail(
			EINVAL,
			"sim: DMA_MAP: the descriptor is neither a memfd nor of tmpfs or hugetlbfs: usdma-sim takes "
			"other files with --any-file");
	if (fstat(fd, out))
		return fail_errno("sim: DMA_MAP: the descriptor");
	/*
	 * Regular files only: mapping a device node has side effects, and may reach memory that the client does not
	 * own.
	 */
	if (!S_ISREG(out->st_mode))
		return fail(EINVAL, "sim: DMA_MAP: the descriptor is neither memory nor a file");
	if ((flags & O_ACCMODE) != O_RDWR && ((flags & O_ACCMODE) != O_RDONLY || writes))
		return fail(EACCES, "sim: DMA_MAP: the descriptor's access mode does not allow what the mapping does");
	if (!range_within(offset, size, u64(out->st_size)))
		return fail(EINVAL, "sim: DMA_MAP: the file has %" PRIu64 " bytes and the area ends at %" PRIu64,
			    u64(out->st_size), offset + size);
	return 0;
}

static bool same_time(const timespec &a, const timespec &b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool alike(const struct stat &a, const struct stat &b)
{
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
	       same_time(a.st_ctim, b.st_ctim) && same_time(a.st_mtim, b.st_mtim);
}

/*
 * Inode numbers wrap after 2^32: two files may have the same one at the same time. The same file has equal fstat
 * fields, either as it was when last seen, or as it is now.
 */
static bool same_file(client_file *f, const struct stat &st)
{
	return alike(f->seen, st) || (!fstat(f->fd.get(), &f->seen) && alike(f->seen, st));
}

client_file *file_map::find_file(const struct stat &st, bool writes)
{
	const auto [begin, end] = files_.equal_range({st.st_dev, st.st_ino});

	for (auto it = begin; it != end; ++it) {
		client_file &f = it->second;

		/*
		 * A file that changed in between is taken for another one: it is mapped once more, which is harmless.
		 */
		if (f.fd.valid() && f.writable == writes && same_file(&f, st))
			return &f;
	}
	return nullptr;
}

/* Takes the descriptor, unless too many are held already. */
client_file *file_map::add_file(unique_fd *fd, const struct stat &st, bool writes)
{
	client_file *made = nullptr;

	if (!fits([&] {
		    const auto it = files_.emplace(std::pair{st.st_dev, st.st_ino}, client_file());

		    made = &it->second;
		    made->self = it;
	    }))
		return nullptr;
	made->writable = writes;
	made->seen = st;
	if (held_ < most_held) {
		made->fd = std::move(*fd);
		held_++;
	}
	return made;
}

void file_map::drop_file(client_file *f)
{
	held_ -= f->fd.valid();
	files_.erase(f->self);
}

file_piece *file_map::new_piece()
{
	file_piece *p = free_;

	if (!p)
		return try_push(slab_) ? &slab_.back() : nullptr;
	free_ = p->next;
	return p;
}

void file_map::free_piece(file_piece *p)
{
	guard_remove(p);
	munmap(reinterpret_cast<void *>(p->base), p->size);
	delete[] p->populated;
	p->populated = nullptr;
	p->next = free_;
	free_ = p;
	pieces_--;
}

/* Not beyond the end of the file, which a mapping of huge pages would extend. */
int file_map::add_piece(client_file *f, int fd, u64 offset, u64 size, const struct stat &st, file_piece **out)
{
	const bool own = !f->fd.valid();
	const u64 page = os_page_size();
	const u64 begin = align_down(offset, own ? page : piece_size);
	const u64 end = own ? align_up(offset + size, page) :
			      std::min(align_up(offset + size, piece_size), align_up(u64(st.st_size), page));
	const int rights = f->writable ? PROT_READ | PROT_WRITE : PROT_READ;

	if (pieces_ >= most_.pieces)
		return fail(
			ENOSPC,
			"sim: DMA_MAP: %u pieces of files are mapped, the limit of this device: map fewer files, or "
			"larger areas of them",
			most_.pieces);
	file_piece *p = new_piece();
	if (!p)
		return no_memory("a piece of the client's file");
	void *at = mmap(nullptr, end - begin, rights, MAP_SHARED | MAP_NORESERVE, fd, off_t(begin));
	int err = at == MAP_FAILED ?
			  fail_errno("sim: DMA_MAP: cannot map %" PRIu64 " bytes of the client's file", end - begin) :
			  0;
	if (!err) {
		store_relaxed(&p->base, reinterpret_cast<u64>(at));
		store_relaxed(&p->size, end - begin);
		store_release(&p->dead, 0u);
		p->offset = begin;
		p->areas = 0;
		p->file = f;
		p->present = u64(st.st_blocks) * 512;
		madvise(at, end - begin, MADV_DONTFORK);
		madvise(at, end - begin, MADV_DONTDUMP); /* client memory belongs in the client's core dump */
		p->populated = new (std::nothrow) u8[(end - begin) / populate_block + 1]{};
		err = guard_add(p);
	}
	if (err) {
		if (at != MAP_FAILED)
			munmap(at, end - begin);
		delete[] p->populated;
		p->populated = nullptr;
		p->next = free_;
		free_ = p;
		return err;
	}
	pieces_++;
	p->next = f->pieces;
	f->pieces = p;
	*out = p;
	return 0;
}

/*
 * Prefaults the resident pages of a block; others are not allocated for the client. For a file that this user may
 * not write mincore() reports all pages as resident; left then limits them to the file's blocks.
 */
static void populate_present(u8 *at, u64 size, bool writable, u64 *left)
{
	unsigned char in_memory[populate_block / os_page_least];
	const u64 page = os_page_size();
	const size_t n = size / page;

	if (mincore(at, size, in_memory))
		return;
	for (size_t i = 0, run; i < n; i = run + 1) {
		for (run = i; run < n && in_memory[run] & 1 && *left >= page; run++)
			*left -= page;
		if (run > i &&
		    madvise(at + i * page, (run - i) * page, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
			return;
	}
}

/* Like the pinning of a real IOMMU driver: the first copy takes no page fault. */
void file_map::populate(file_piece *p, u64 offset, u64 size)
{
	u8 *const base = reinterpret_cast<u8 *>(p->base);

	if (!p->populated || size > populate_max)
		return;
	for (u64 block = offset / populate_block; block * populate_block < offset + size; block++) {
		const u64 at = block * populate_block, len = std::min(populate_block, p->size - at);

		if (p->populated[block] || populated_ + len > most_.populate)
			continue;
		p->populated[block] = 1;
		populated_ += len;
		populate_present(base + at, align_down(len, os_page_size()), p->file->writable, &p->present);
	}
}

static file_piece *find_piece(const client_file &f, u64 offset, u64 size)
{
	for (file_piece *p = f.pieces; p; p = p->next)
		if (!is_dead(p) && offset >= p->offset && range_within(offset - p->offset, size, p->size))
			return p;
	return nullptr;
}

int file_map::get(unique_fd fd, u64 offset, u64 size, u32 prot, file_piece **out, u8 **host)
{
	const bool writes = prot & vfio::dma_write;
	struct stat st;

	if (const int err = check(fd.get(), offset, size, writes, &st))
		return err;
	const int number = fd.get();
	client_file *f = find_file(st, writes);
	file_piece *p = f ? find_piece(*f, offset, size) : nullptr;
	if (!f)
		f = add_file(&fd, st, writes);
	if (!f)
		return no_memory("the client's file");
	if (!p)
		if (const int err = add_piece(f, number, offset, size, st, &p)) {
			if (!f->pieces)
				drop_file(f);
			return err;
		}
	p->areas++;
	populate(p, offset - p->offset, size);
	*out = p;
	*host = reinterpret_cast<u8 *>(p->base) + (offset - p->offset);
	return 0;
}

void file_map::put(file_piece *p)
{
	client_file *const f = p->file;

	if (--p->areas)
		return;
	for (file_piece **at = &f->pieces; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	free_piece(p);
	if (!f->pieces)
		drop_file(f);
}

} // namespace usdma::sim
