/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/race_batch.h"

namespace usdma::core {

namespace {

/* Of the accesses before, by their begin, the one with the last end. */
struct furthest {
	const item_access *one = nullptr;

	bool reaches(const item_access &a) const
	{
		return one && one->item != a.item && one->what.where.end > a.what.where.begin;
	}
	void add(const item_access &a)
	{
		if (!one || a.what.where.end > one->what.where.end)
			one = &a;
	}
};

} // namespace

static item_overlap overlap_of(const item_access &a, const item_access &b)
{
	const byte_range where = {b.what.where.begin, std::min(a.what.where.end, b.what.where.end)};

	return a.item < b.item ? item_overlap{where, a, b} : item_overlap{where, b, a};
}

std::optional<item_overlap> find_overlap(std::span<item_access> all)
{
	furthest any, write;

	std::sort(all.begin(), all.end(), [](const item_access &a, const item_access &b) {
		return std::pair(a.what.where.begin, a.item) < std::pair(b.what.where.begin, b.item);
	});
	for (const item_access &a : all) {
		const furthest &before = a.what.writes ? any : write;

		if (a.what.where.begin >= a.what.where.end)
			continue;
		if (before.reaches(a))
			return overlap_of(*before.one, a);
		any.add(a);
		if (a.what.writes)
			write.add(a);
	}
	return std::nullopt;
}

} // namespace usdma::core
