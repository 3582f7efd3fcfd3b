/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a CPU and an engine that runs on another one hand staging buffers over: each leaves
 * them in its caches for the other, or writes past the caches, and the other reads memory.
 *
 * Which is faster is a matter of the way between their caches, and a hypervisor moves virtual
 * CPUs about: 64 MiB out took 12 GB/s by the caches and 10 past them while the two were near
 * each other, 5 and 12 while they were far.  So both are tried, now and then, and timed by laps:
 * the time in which every buffer was used once.
 */
#pragma once

#include "driver/base/types.h"

namespace usdma::core {

class hand_over {
public:
	/* A copy begins, in which lap() will be called so many times. */
	void begin(u64 now, u64 laps)
	{
		lap_began_ = now;
		left_ = laps;
		/* A trial that the end of the copy before cut short is over. */
		way_ = best_;
		mixed_ = true;
		try_if_due();
	}

	/* One has ended. */
	void lap(u64 now)
	{
		const u64 ns = now - lap_began_;

		lap_began_ = now;
		left_ -= left_ ? 1 : 0;
		/* Half of it went the way of the lap before, or it filled the buffers first. */
		if (mixed_)
			mixed_ = false;
		else
			learn(ns);
	}

	/* What is handed over now goes past the caches. */
	bool past() const { return way_ == past_caches; }

private:
	enum : unsigned { by_caches, past_caches };
	/* Laps from one trial to the next, and when something has changed. */
	static constexpr unsigned every = 64, soonest = 8;

	void learn(u64 ns)
	{
		const u64 usual = cost_[way_];

		if (way_ != best_) {
			cost_[way_] = ns;
			best_ = ns + ns / 8 < cost_[best_] ? way_ : best_;
			take(best_);
			since_ = 0;
			return;
		}
		/* One lap that was disturbed counts for half. */
		cost_[way_] = usual ? (usual + ns) / 2 : ns;
		changed_ = usual && ns > usual + usual / 2;
		since_++;
		try_if_due();
	}

	void try_if_due()
	{
		const unsigned due = !cost_[!best_] ? 1 : changed_ ? soonest : every;

		/* Two laps, of which the second counts. */
		if (cost_[best_] && since_ >= due && left_ >= 2)
			take(!best_);
	}

	void take(unsigned way)
	{
		mixed_ = mixed_ || way != way_;
		way_ = way;
	}

	u64 lap_began_ = 0, left_ = 0;
	u64 cost_[2] = {}; /* ns of a lap */
	unsigned way_ = by_caches, best_ = by_caches, since_ = 0;
	bool mixed_ = true, changed_ = false;
};

} // namespace usdma::core
