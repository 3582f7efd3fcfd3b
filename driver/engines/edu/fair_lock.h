/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/types.h"

#include <condition_variable>
#include <mutex>

namespace usdma::edu {

/*
 * A FIFO lock. The DMA engine's lock is held for 100 ms and re-acquired at once: with an unfair lock, a long
 * copy of one channel would starve all others until it ends.
 */
class fair_lock {
public:
	void lock()
	{
		std::unique_lock guard(inner_);
		const u64 mine = next_++;

		turn_.wait(guard, [&] { return serving_ == mine; });
	}
	bool try_lock()
	{
		std::lock_guard guard(inner_);

		if (serving_ != next_)
			return false;
		next_++;
		return true;
	}
	void unlock()
	{
		{
			std::lock_guard guard(inner_);

			serving_++;
		}
		turn_.notify_all();
	}

private:
	std::mutex inner_;
	std::condition_variable turn_;
	u64 next_ = 0, serving_ = 0;
};

} // namespace usdma::edu
