/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that one client passed with DMA_MAP. Each is mapped once for all areas in it: a client behind a
 * virtual IOMMU maps single pages.
 */
#pragma once

#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "driver/sim/bus_error.h"

#include <deque>
#include <map>
#include <sys/stat.h>

namespace usdma::sim {

/* A mapped part of a file, shared by many areas. */
struct file_piece : guarded {
	u64 offset = 0; /* in the file */
	u64 areas = 0;
	u8 *populated = nullptr; /* a flag for each block of populate_block */
	u64 present = 0;         /* bytes that may still be prefaulted, of the file's blocks */
	struct client_file *file = nullptr;
	file_piece *next = nullptr; /* in the file's list or the free list */
};

struct file_bounds {
	u32 pieces = 24576;          /* mappings of this process, limited by the kernel (vm.max_map_count: 65530) */
	u64 populate = u64(8) << 30; /* most bytes that are prefaulted */
	bool any_file = false;       /* also files other than memfds, tmpfs and hugetlbfs */
};

/* Mapping thread only. */
class file_map {
public:
	explicit file_map(const file_bounds &most) : most_(most) {}
	~file_map();
	file_map(const file_map &) = delete;
	file_map &operator=(const file_map &) = delete;

	/*
	 * Maps [offset, offset + size) of the file for reading and, with vfio::dma_write, writing. Takes the descriptor
	 * over; the caller releases the piece by put().
	 */
	int get(unique_fd fd, u64 offset, u64 size, u32 prot, file_piece **out, u8 **host);
	/* No engine accesses the area any more. */
	void put(file_piece *p);

	u32 pieces() const { return pieces_; }

private:
	int check(int fd, u64 offset, u64 size, bool writes, struct stat *out) const;
	client_file *find_file(const struct stat &st, bool writes);
	client_file *add_file(unique_fd *fd, const struct stat &st, bool writes);
	int add_piece(client_file *f, int fd, u64 offset, u64 size, const struct stat &st, file_piece **out);
	file_piece *new_piece();
	void free_piece(file_piece *p);
	void drop_file(client_file *f);
	void populate(file_piece *p, u64 offset, u64 size);

	file_bounds most_;
	std::multimap<std::pair<dev_t, ino_t>, client_file> files_;
	std::deque<file_piece> slab_; /* never shrinks: a late reader may access a removed piece */
	file_piece *free_ = nullptr;
	u32 pieces_ = 0, held_ = 0;
	u64 populated_ = 0;
};

/* A file of the client; exists while it has pieces. */
struct client_file {
	unique_fd fd; /* to recognise the file; none: not recognised, each area has a piece of its own */
	bool writable = false;
	struct stat seen = {};
	file_piece *pieces = nullptr;
	std::multimap<std::pair<dev_t, ino_t>, client_file>::iterator self;
};

} // namespace usdma::sim
