/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleeps that end otherwise than they should. Each has a limit, after which the thread checks by itself, so that a
 * lost signal costs some milliseconds: without a count it is never seen.
 */
#pragma once

#include "driver/base/barrier.h"

namespace usdma {

struct wake_counts {
	/* Sleeps whose limit passed: what the thread waits for had happened, and no thread had signalled it. */
	u64 lost;
	u64 idle; /* sleeps that were ended for nothing, hundreds in a row */
};

/* Atomic; in the statistics of the process (lib/core/base/stats.h) once it has opened a device. */
extern wake_counts *wakes;
/*
 * How late a signal may be until it counts as lost; atomic. 0, or what a test says: on a busy machine the thread that
 * signals may have lost its CPU between the two.
 */
extern u64 wake_late_ns;

void wake_count(u64 wake_counts::*what);
/* The limit of a sleep has passed, and what it waits for has happened: counts it, unless the eventfd is raised. */
void wake_missed(int fd);
/* The same for a sleep on a futex: counts it if the word stays the same. */
void wake_missed(u32 *word, u32 asleep);

/*
 * futex_wait_until() with a limit of recheck_ns, or of wake_late_ns, after which the caller checks by itself: counts it
 * if the word has the value then that is signalled (any: another one).
 */
constexpr u32 any_value = ~0u;
int futex_wait_checked(u32 *word, u32 expected, u32 signalled, u64 abs_ns, u64 recheck_ns);

/* Of one thread in one wait. */
class idle_sleeps {
public:
	/* Before the next sleep. */
	void note(bool for_nothing)
	{
		n_ = for_nothing ? n_ + 1 : 0;
		if (unlikely(n_ == most))
			wake_count(&wake_counts::idle);
	}

private:
	static constexpr unsigned most = 256;

	unsigned n_ = 0;
};

} // namespace usdma
