/* SPDX-License-Identifier: BSD-3-Clause */
#include "lib/core/check/unwritten.h"

namespace usdma::core {

void unwritten_ranges::insert(byte_range r)
{
	if (ranges_.size() >= max_ranges_ || !fits([&] { ranges_.insert_or_assign(r.begin, r.end); }))
		forgotten_++;
}

void unwritten_ranges::add(byte_range r)
{
	remove(r);
	if (r.begin < r.end)
		insert(r);
}

void unwritten_ranges::remove(byte_range r)
{
	auto it = ranges_.upper_bound(r.begin);

	if (ranges_.empty() || r.begin >= r.end)
		return;
	if (it != ranges_.begin() && std::prev(it)->second > r.begin)
		--it;
	while (it != ranges_.end() && it->first < r.end) {
		const byte_range was = {it->first, it->second};

		if (was.begin < r.begin)
			it++->second = r.begin;
		else
			it = ranges_.erase(it);
		if (was.end > r.end)
			insert({r.end, was.end});
	}
}

byte_range unwritten_ranges::first_in(byte_range r) const
{
	auto it = ranges_.upper_bound(r.begin);

	if (it != ranges_.begin() && std::prev(it)->second > r.begin)
		--it;
	if (it == ranges_.end() || it->first >= r.end)
		return {};
	return {std::max(it->first, r.begin), std::min(it->second, r.end)};
}

} // namespace usdma::core
