/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From an address to the range that holds it, for up to hundreds of thousands
 * of disjoint ranges: a page-table-like tree whose depth does not depend on how
 * many there are.  Readers take no lock; writers exclude each other.
 *
 * Entries are type-stable: the caller keeps a removed entry's memory readable
 * (a slab) for as long as readers may run.  A reader that meets a writer tries
 * again, so it never sees a half-made change.
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

	/* The entry with base <= addr < base + size, or nullptr; copies base and size as they were. Lock-free. */
	range_entry *find(u64 addr, u64 *base, u64 *size) const;

	/* Grows with every change: a result of find may be kept as long as this stays the same. */
	u64 generation() const { return __atomic_load_n(&seq_, __ATOMIC_ACQUIRE); }
	size_t count() const { return count_; }

private:
	struct node;
	/* Even: stable; odd: a writer is at work. */
	u64 seq_ = 0;
	node *root_ = nullptr;
	size_t count_ = 0;
	mutable std::mutex write_lock_;
};

} // namespace usdma
