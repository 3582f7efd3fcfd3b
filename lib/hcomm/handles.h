/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects by numbers that are never used again. An object lives until its last user lets it go. */
#pragma once

#include "driver/base/grow.h"
#include "driver/base/types.h"
#include "lib/core/base/slab.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

namespace usdma::hcomm {

/* Mark: the low byte of its handles. */
template <class T, u64 Mark> class handles {
public:
	/* 0: no memory. */
	u64 add(std::shared_ptr<T> object)
	{
		const std::lock_guard hold(lock_);
		const u64 handle = (last_ + 1) << 8 | Mark;

		if (!object || !try_emplace(all_, handle, std::move(object)))
			return 0;
		last_++;
		return handle;
	}
	std::shared_ptr<T> find(u64 handle)
	{
		const std::lock_guard hold(lock_);
		const auto at = all_.find(handle);

		return at == all_.end() ? nullptr : at->second;
	}
	std::shared_ptr<T> take(u64 handle)
	{
		const std::lock_guard hold(lock_);
		const auto at = all_.find(handle);
		std::shared_ptr<T> object;

		if (at != all_.end()) {
			object = std::move(at->second);
			all_.erase(at);
		}
		return object;
	}
	/* The first that matches(object); 0: none does. */
	template <class F> u64 find_if(F matches)
	{
		const std::lock_guard hold(lock_);
		const auto at = std::find_if(all_.begin(), all_.end(),
					     [&](const auto &e) { return matches(*e.second); });

		return at == all_.end() ? 0 : at->first;
	}

private:
	std::mutex lock_;
	u64 last_ = 0;
	std::map<u64, std::shared_ptr<T>> all_;
};

template <class P> u64 number_of(P *handle)
{
	return reinterpret_cast<u64>(handle);
}

inline void *pointer_of(u64 handle)
{
	return reinterpret_cast<void *>(handle);
}

} // namespace usdma::hcomm
