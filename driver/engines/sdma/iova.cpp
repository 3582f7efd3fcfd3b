/* SPDX-License-Identifier: BSD-3-Clause */
#include "driver/engines/sdma/sdma.h"

#include "driver/base/grow.h"
#include "driver/base/page.h"

#include <algorithm>

namespace usdma::sdma {

int iova_space::init(const vfio::address_limits &limits)
{
	page_size_ = std::max(limits.page_size, os_page_size());
	usable_.clear();
	for (const vfio::range &r : limits.usable) {
		const u64 start = std::max(r.start, low), last = std::min(r.last, high - 1);

		if (start <= last && !try_push(usable_, vfio::range{start, last}))
			return no_memory("the device's addresses");
	}
	return 0;
}

bool iova_space::reserve()
{
	return try_reserve(taken_, taken_.size() + 1);
}

/* The lowest start of [at, at + size) that overlaps no range in taken. */
static u64 past_occupied(const std::vector<vfio::range> &taken, u64 at, u64 size, u64 align)
{
	for (const vfio::range &t : taken)
		if (t.start < at + size && at <= t.last)
			at = align_up(t.last + 1, align);
	return at;
}

u64 iova_space::find(u64 size, u64 from) const
{
	for (const vfio::range &u : usable_) {
		const u64 at = past_occupied(taken_, align_up(std::max(u.start, from), page_size_), size, page_size_);

		if (at <= u.last && size - 1 <= u.last - at)
			return at;
	}
	return 0;
}

void iova_space::take(u64 iova, u64 size)
{
	const vfio::range r = {iova, iova + size - 1};
	const auto before = [](const vfio::range &a, const vfio::range &b) { return a.start < b.start; };

	const auto at = std::upper_bound(taken_.begin(), taken_.end(), r, before) - taken_.begin();

	push_reserved(taken_, r);
	std::rotate(taken_.begin() + at, taken_.end() - 1, taken_.end());
}

void iova_space::give(u64 iova)
{
	std::erase_if(taken_, [iova](const vfio::range &r) { return r.start == iova; });
}

} // namespace usdma::sdma
