/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From an address to the range that holds it, for up to hundreds of thousands
 * of disjoint ranges: a page-table-like tree whose depth does not depend on how
 * many there are.  Readers take no lock; writers exclude each other.
 *
 * Entries are type-stable: the caller keeps a removed entry's memory readable
 * (a slab) for as long as readers may run.  A reader that meets a writer tries
 * again, so it never sees a half-made change.  A late reader may still load base,
 * size and the links of a removed entry: who uses its memory again stores these
 * four by store_relaxed.
 *
 * The tree resolves 9 address bits a level down to pages of 4 KiB; a range that
 * covers a whole block of a level (2 MiB, 1 GiB, …) has one slot for it.  Ranges
 * that share a page hang on a list through the entries themselves.
 */
#pragma once

#include "driver/base/types.h"

#include <mutex>

namespace usdma {

struct range_entry {
	u64 base = 0;
	u64 size = 0;
	range_entry *next_first = nullptr; /* others in the page where this one begins … */
	range_entry *next_last = nullptr;  /* … and in the page where it ends */
};

class range_map {
public:
	range_map() = default;
	~range_map();
	range_map(const range_map &) = delete;
	range_map &operator=(const range_map &) = delete;

	/* 0; -EEXIST: overlaps a present one; -ENOMEM; -EINVAL: empty or beyond 2^57. */
	int insert(range_entry *e);
	void remove(range_entry *e);

	/*
	 * The entry with base <= addr < base + size, or nullptr; copies base and size as they were.  Takes no
	 * lock, unless a writer was put to sleep in the middle of a change.
	 */
	range_entry *find(u64 addr, u64 *base, u64 *size) const;

	/* For writers: the lowest entry with an address in [first, last], or nullptr. */
	range_entry *first_in(u64 first, u64 last) const;

	/* Grows with every change: a result of find may be kept as long as this stays the same. */
	u64 generation() const { return __atomic_load_n(&seq_, __ATOMIC_ACQUIRE); }
	size_t count() const { return __atomic_load_n(&count_, __ATOMIC_RELAXED); }
	/* Of memory, beside the entries; never shrinks. */
	size_t bytes() const;

private:
	struct node;

	int reserve_nodes();
	node *take_node();
	void give_node(node *n);
	void change_begins();
	void change_ends(size_t count);
	void put(node *n, unsigned shift, range_entry *e, u64 first, u64 last);
	void take(node *n, unsigned shift, range_entry *e, u64 first, u64 last);
	range_entry *walk(u64 addr, u64 seq, u64 *base, u64 *size) const;

	/* Even: stable; odd: a writer is at work. */
	u64 seq_ = 0;
	node *root_ = nullptr;
	node *free_ = nullptr; /* spare nodes; a reader may still be in one, so they go back only at the end */
	node *all_ = nullptr;
	unsigned spare_ = 0; /* nodes in free_ */
	size_t nodes_ = 0;
	size_t count_ = 0;
	mutable std::mutex write_lock_;
};

} // namespace usdma
