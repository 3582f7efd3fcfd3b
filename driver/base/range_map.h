/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Maps an address to the range that contains it, for up to hundreds of thousands of disjoint ranges: a radix
 * tree like a page table, of fixed depth. Readers take no lock; writers exclude each other.
 *
 * Entries are type-stable: the caller keeps a removed entry's memory readable (a slab) for as long as readers
 * may run. A reader that collides with a writer retries, so it never sees a partial change. A late reader may
 * still load base, size and the links of a removed entry: code that reuses its memory stores these four by
 * store_relaxed.
 *
 * The tree resolves 9 address bits per level down to pages of 4 KiB; a range that covers a whole block of a
 * level (2 MiB, 1 GiB, …) has one slot for it. Ranges that share a page are linked through the entries
 * themselves.
 */
#pragma once

#include "driver/base/barrier.h"

#include <mutex>

#pragma GCC visibility push(default)
namespace usdma {

struct range_entry {
	u64 base = 0;
	u64 size = 0;
	range_entry *next_first = nullptr; /* other entries in this range's first page */
	range_entry *next_last = nullptr;  /* … and in its last page */
};

class range_map {
public:
	range_map() = default;
	~range_map();
	range_map(const range_map &) = delete;
	range_map &operator=(const range_map &) = delete;

	/* 0; -EEXIST: overlaps an entry; -ENOMEM; -EINVAL: empty or beyond 2^57. */
	int insert(range_entry *e);
	void remove(range_entry *e);

	/*
	 * The entry with base <= addr < base + size, or nullptr; copies its base and size. Lock-free, unless a writer
	 * is descheduled in the middle of a change.
	 */
	range_entry *find(u64 addr, u64 *base, u64 *size) const;

	/* For writers: the lowest entry with an address in [first, last], or nullptr. */
	range_entry *first_in(u64 first, u64 last) const;

	/* Grows with every change: a result of find() may be cached while this stays the same. */
	u64 generation() const { return load_acquire(&seq_); }
	/* Makes cached results invalid. */
	void renew();
	size_t count() const { return load_relaxed(&count_); }
	/* Memory used, without the entries; never shrinks. */
	size_t bytes() const;

private:
	struct node;

	int reserve_nodes();
	node *take_node();
	void give_node(node *n);
	void change_begin();
	void change_end(size_t count);
	void put(node *n, unsigned shift, range_entry *e, u64 first, u64 last);
	void take(node *n, unsigned shift, range_entry *e, u64 first, u64 last);
	range_entry *walk(u64 addr, u64 seq, u64 *base, u64 *size) const;

	/* Sequence number; odd: a change is in progress. */
	u64 seq_ = 0;
	node *root_ = nullptr;
	node *free_ =
		nullptr; /* spare nodes; readers may still access them, so they are freed only by the destructor */
	node *all_ = nullptr;
	unsigned spare_ = 0; /* nodes in free_ */
	size_t nodes_ = 0;
	size_t count_ = 0;
	mutable std::mutex write_lock_;
};

} // namespace usdma
#pragma GCC visibility pop
