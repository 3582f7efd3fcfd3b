/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that nothing has written since it was allocated. Bounded: what would need more ranges counts as written, and
 * is counted.
 */
#pragma once

#include "lib/core/check/access_map.h"

namespace usdma::core {

class unwritten_ranges {
public:
	static constexpr size_t default_ranges = 1 << 16;

	explicit unwritten_ranges(size_t max_ranges = default_ranges) : max_ranges_(max_ranges) {}

	/* Was allocated. */
	void add(byte_range r);
	/* Was written, or may have been. */
	void remove(byte_range r);
	void clear() { ranges_.clear(); }
	/* The first part of r in here; empty: there is none. */
	byte_range first_in(byte_range r) const;
	size_t ranges() const { return ranges_.size(); }
	u64 forgotten() const { return forgotten_; }

private:
	void insert(byte_range r);

	std::map<u64, u64> ranges_; /* end by first byte; without overlaps */
	size_t max_ranges_;
	u64 forgotten_ = 0;
};

} // namespace usdma::core
