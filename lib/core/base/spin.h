/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a hybrid wait spins before it sleeps, learned from the waits before it.
 *
 * Waits of a hardware queue are told apart by how many bytes were submitted since the last
 * one: a wait for 64 bytes says nothing about a wait for a gigabyte.  Of each
 * kind the mean of the latest waits is kept.  What is expected to end within the
 * budget is spun for; what is not, sleeps at once.  spin_us is to be about twice
 * what sleeping costs (usdma-perf --calibrate): spinning so long and then
 * sleeping is never more than three times the best that could be done.
 */
#pragma once

#include "driver/base/types.h"

#include <algorithm>
#include <atomic>
#include <bit>

namespace usdma::core {

class wait_history {
public:
	static constexpr unsigned kinds = 8;
	/* Of so many waits that are expected to be long one spins all the same: the mean of sleepers is a guess. */
	static constexpr unsigned probe_every = 16;

	/* Up to 4 KiB, 32 KiB, … 1 GiB, more. */
	static unsigned kind_of(u64 bytes)
	{
		const unsigned bits = unsigned(std::bit_width(bytes ? bytes - 1 : 0));

		return bits <= 12 ? 0 : std::min((bits - 10) / 3, kinds - 1);
	}

	/* ns to spin; 0: sleep at once. */
	u64 budget(unsigned kind, u64 most)
	{
		kept &k = of_[kind];
		const u64 mean = k.mean.load(std::memory_order_relaxed);

		if (mean <= most) /* 0: nothing is known */
			return mean ? std::min(most, 2 * mean + most / 4) : most;
		const u32 n = k.long_ones.load(std::memory_order_relaxed) + 1;
		k.long_ones.store(n, std::memory_order_relaxed);
		return n % probe_every ? 0 : most;
	}

	/* A wait took so long; of one that slept the wake-up, about half of most, is no part of it. */
	void note(unsigned kind, u64 took, bool slept, u64 most)
	{
		std::atomic<u64> &mean = of_[kind].mean;
		const u64 real = std::max<u64>(1, slept ? took - std::min(took, most / 2) : took);
		const u64 before = mean.load(std::memory_order_relaxed);

		/* Two at a time may lose one of both: it is a mean. */
		mean.store(before ? (before * 3 + real) / 4 : real, std::memory_order_relaxed);
	}

private:
	struct kept {
		std::atomic<u64> mean{0}; /* ns */
		std::atomic<u32> long_ones{0};
	};
	kept of_[kinds];
};

} // namespace usdma::core
