/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/types.h"

#include <condition_variable>
#include <mutex>

namespace usdma::dma {

/*
 * A FIFO lock. One that is held for long and acquired again at once, as by the steps of a long copy, would starve all
 * others until it is done.
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

} // namespace usdma::dma
