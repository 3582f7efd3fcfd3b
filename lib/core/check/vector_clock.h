/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vector clocks. A context is what runs its operations one after the other: a host thread, or a stream. A clock holds,
 * for each context, the time up to which that context's operations happened before; contexts that it lacks are at 0.
 */
#pragma once

#include "driver/base/grow.h"
#include "driver/base/types.h"
#include "lib/core/config/race.h"

#include <algorithm>
#include <vector>

namespace usdma::core {

class vector_clock {
public:
	u64 at(context_id c) const
	{
		const auto it = find(c);

		return it != parts_.end() && it->context == c ? it->time : 0;
	}
	/* Raises one part. False: no memory. */
	[[nodiscard]] bool raise(context_id c, u64 time)
	{
		const auto it = find(c);

		if (it == parts_.end() || it->context != c)
			return try_insert(parts_, it, part{c, time});
		auto &old = parts_[size_t(it - parts_.begin())];
		old.time = std::max(old.time, time);
		return true;
	}
	/* What happened before either. False: no memory; some parts may be missing. */
	[[nodiscard]] bool join(const vector_clock &other)
	{
		for (const part &p : other.parts_)
			if (!raise(p.context, p.time))
				return false;
		return true;
	}
	void clear() { parts_.clear(); }
	size_t size() const { return parts_.size(); }

private:
	struct part {
		context_id context;
		u64 time;
	};

	std::vector<part>::const_iterator find(context_id c) const
	{
		return std::lower_bound(parts_.begin(), parts_.end(), c,
					[](const part &p, context_id wanted) { return p.context < wanted; });
	}

	std::vector<part> parts_; /* ascending */
};

} // namespace usdma::core
