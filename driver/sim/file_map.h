/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that one client gave with DMA_MAP, each mapped once however many areas
 * are cut out of it: a client behind a virtual IOMMU maps by single pages.
 */
#pragma once

#include "driver/base/mapping.h"
#include "driver/base/unique_fd.h"
#include "driver/sim/bus_error.h"

#include <deque>
#include <map>
#include <sys/stat.h>

namespace usdma::sim {

/* A part of a file in this process's memory; of many areas. */
struct file_piece : guarded {
	u64 offset = 0; /* in the file */
	u64 serial = 0; /* of all pieces: tells one from an earlier one at the same place */
	u64 areas = 0;
	u8 *populated = nullptr; /* a byte for each block of populate_block: done */
	u64 present = 0;         /* bytes that may be mapped in advance: as many as the file had */
	struct client_file *file = nullptr;
	file_piece *next = nullptr; /* of the file's, or free */
};

struct file_bounds {
	u32 pieces = 24576;          /* mappings of this process, which the kernel counts (vm.max_map_count: 65530) */
	u64 populate = u64(8) << 30; /* bytes of page tables' reach that are filled in advance */
	bool any_file = false;       /* also such as can be neither sealed nor trusted to be memory */
};

/* All calls from one thread, the one that maps. */
class file_map {
public:
	explicit file_map(const file_bounds &most) : most_(most) {}
	~file_map();
	file_map(const file_map &) = delete;
	file_map &operator=(const file_map &) = delete;

	/*
	 * [offset, offset + size) of the file, for reading and, with vfio::dma_write, writing.  The piece that
	 * holds it is the caller's to give back; the descriptor is taken over.
	 */
	int get(unique_fd fd, u64 offset, u64 size, u32 prot, file_piece **out, u8 **host);
	/* Nobody touches the area any more. */
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
	std::deque<file_piece> slab_; /* never shrinks: a late reader may look at a piece that is gone */
	file_piece *free_ = nullptr;
	u32 pieces_ = 0, kept_ = 0;
	u64 serial_ = 0, populated_ = 0;
};

/* One of the client's files, for as long as there are pieces of it. */
struct client_file {
	unique_fd fd; /* to know it again; none: it is not known again, and its areas have pieces of their own */
	bool writable = false;
	struct stat seen = {};
	file_piece *pieces = nullptr;
	std::multimap<std::pair<dev_t, ino_t>, client_file>::iterator self;
};

} // namespace usdma::sim
