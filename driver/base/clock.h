/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time in nanoseconds, and deadlines: every wait has one. */
#pragma once

#include "driver/base/types.h"

#include <ctime>

namespace usdma {

inline constexpr u64 ns_per_us = 1000, ns_per_ms = 1000000, ns_per_s = 1000000000;

inline u64 now_ns()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return u64(t.tv_sec) * ns_per_s + u64(t.tv_nsec);
}

class deadline {
public:
	static deadline in_ns(u64 ns) { return deadline(sat_add(now_ns(), ns)); }
	static deadline in_ms(u64 ms) { return in_ns(ms > ~u64(0) / ns_per_ms ? ~u64(0) : ms * ns_per_ms); }
	static deadline never() { return deadline(~u64(0)); }
	/* ns: as at(). */
	static deadline at_ns(u64 ns) { return deadline(ns); }

	bool passed() const { return at_ != ~u64(0) && now_ns() >= at_; }
	bool is_never() const { return at_ == ~u64(0); }
	u64 at() const { return at_; }
	u64 left_ns() const
	{
		const u64 now = now_ns();

		return at_ == ~u64(0) ? at_ : at_ > now ? at_ - now : 0;
	}
	/* Milliseconds for poll(2), rounded up, at most cap. */
	int left_ms(int cap) const
	{
		const u64 ms = left_ns() / ns_per_ms + 1;

		return left_ns() == 0 ? 0 : ms < u64(cap) ? int(ms) : cap;
	}
	static deadline sooner(deadline a, deadline b) { return a.at_ < b.at_ ? a : b; }

private:
	explicit deadline(u64 at) : at_(at) {}
	static u64 sat_add(u64 a, u64 b) { return a + b < a ? ~u64(0) : a + b; }
	u64 at_;
};

} // namespace usdma
