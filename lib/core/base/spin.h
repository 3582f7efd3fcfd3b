/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adaptive spin time of a hybrid wait, based on earlier waits.
 *
 * Waits of a hardware queue are classified by the bytes submitted since the last one, as short and long copies
 * differ. Each class has a moving average of its durations. A wait that is expected to end within the budget
 * spins; others sleep at once. spin_us should be about twice the cost of sleeping (usdma-perf --calibrate):
 * spinning that long and then sleeping takes at most three times the optimum.
 */
#pragma once

#include "driver/base/barrier.h"
#include "driver/base/types.h"

#include <algorithm>
#include <bit>

namespace usdma::core {

class wait_history {
public:
	static constexpr unsigned kinds = 8;
	/* One of this many long waits spins anyway, as the average of sleeping waits is an estimate. */
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
		history &k = of_[kind];
		const u64 mean = load_relaxed(&k.mean);

		if (mean <= most) /* 0: no sample yet */
			return mean ? std::min(most, 2 * mean + most / 4) : most;
		const u32 n = load_relaxed(&k.long_ones) + 1;
		store_relaxed(&k.long_ones, n);
		return n % probe_every ? 0 : most;
	}

	/* Adds a wait's duration; for one that slept, less the wake-up latency, about half of most. */
	void note(unsigned kind, u64 took, bool slept, u64 most)
	{
		u64 &mean = of_[kind].mean;
		const u64 real = std::max<u64>(1, slept ? took - std::min(took, most / 2) : took);
		const u64 before = load_relaxed(&mean);

		/* A race may lose one sample, which is harmless. */
		store_relaxed(&mean, before ? (before * 3 + real) / 4 : real);
	}

private:
	/* Atomic. */
	struct history {
		u64 mean = 0; /* ns */
		u32 long_ones = 0;
	};
	history of_[kinds];
};

} // namespace usdma::core
