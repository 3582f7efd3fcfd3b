/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who accessed which bytes last: the last write of each range, and the reads since. Ranges are split where accesses
 * begin and end, and joined again by a write that covers them.
 *
 * Bounded: when there are more ranges than the limit, an eighth of them is forgotten, and counted.
 */
#pragma once

#include "lib/core/check/vector_clock.h"

#include <map>

namespace usdma::core {

/* An access: the context, its time, and a number that the caller gave the operation. */
struct access_stamp {
	context_id context = 0;
	u32 operation = 0;
	u64 time = 0; /* 0: none */
};

struct byte_range {
	u64 begin, end;
};

/* Two accesses without an order, at least one of them a write. */
struct access_conflict {
	byte_range where;
	bool first_writes, second_writes;
	access_stamp first, second;
	bool unwritten = false; /* there was no first: nothing has written what the second reads */
};

/* Limits, and what exceeded them. */
struct access_counts {
	u64 ranges_forgotten = 0, readers_forgotten = 0, no_memory = 0;
};

class access_map {
public:
	static constexpr size_t default_ranges = 1 << 20;
	static constexpr size_t max_readers = 32; /* of one range */
	using report = void (*)(void *arg, const access_conflict &c);

	explicit access_map(size_t max_ranges = default_ranges) : max_ranges_(max_ranges) {}

	/*
	 * Adds an access by what is at the clock, and reports the accesses that it conflicts with, once for each range
	 * of the map.
	 */
	void read(byte_range r, const access_stamp &by, const vector_clock &clock, report found, void *arg);
	void write(byte_range r, const access_stamp &by, const vector_clock &clock, report found, void *arg);
	/* The bytes are not in use any more. */
	void forget(byte_range r);

	/* f(range, stamp) of each last write in r. */
	template <class F> void each_write(byte_range r, const F &f) const
	{
		for (map::const_iterator it = find(r.begin); it != ranges_.end() && it->first < r.end; ++it)
			if (it->second.written.time)
				f(byte_range{it->first, it->second.end}, it->second.written);
	}

	size_t ranges() const { return ranges_.size(); }
	const access_counts &counts() const { return counts_; }

private:
	struct range {
		u64 end = 0;
		access_stamp written;
		std::vector<access_stamp> readers;
	};
	using map = std::map<u64, range>;

	/* Programs access the same ranges again and again: where those are that begin at an address. */
	struct entry {
		u64 begin = ~u64(0);
		map::iterator at;
	};
	static constexpr size_t entries = 1 << 12;

	static size_t entry_of(u64 begin) { return begin * 0x9e3779b97f4a7c15 >> 52; }
	map::const_iterator find(u64 begin) const;
	map::iterator erase(map::iterator it);
	void erase(map::iterator from, map::iterator to);
	bool split(map::iterator it, u64 at);
	bool prepare(byte_range r, bool fill, map::iterator *first);
	void add_reader(range *e, const access_stamp &by, const vector_clock &clock);
	void limit();

	map ranges_;               /* by first byte */
	std::vector<entry> index_; /* entries, or none yet */
	size_t max_ranges_;
	u64 next_victim_ = 0;
	access_counts counts_;
};

} // namespace usdma::core
