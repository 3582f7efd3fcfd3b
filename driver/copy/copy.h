/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies by size and temperature, for whoever moves bytes with a CPU: the software
 * device's engines, and the staging of pageable memory.  Everything that one would
 * tune is here and in copy.cpp.  Which routine is used follows from the CPU's features
 * and its maker, or from a setting: equal machines copy alike.
 *
 * A copy that is long, or whose source is not in this CPU's caches, goes past them:
 * then stores that do not read the lines first are what is fast, in the order that
 * suits the CPU.  One whose source is near is done by loads and stores.
 */
#pragma once

#include "driver/base/types.h"

#include <cstring>
#include <span>

#pragma GCC visibility push(default)
namespace usdma {

/*
 * Over how many pages a long copy goes at a time, as the setting copy_rows says: some CPUs
 * prefetch several pages side by side, others slow down to a third (copy.cpp has figures).
 */
enum class copy_rows : u8 { automatic, one, two, four };

/* dst and src may not overlap; where they do the result is undefined. */
using copy_fn = void (*)(void *dst, const void *src, size_t len);

struct copy_tuning {
	size_t small_max;  /* up to here: memmove in line */
	size_t probe_min;  /* from here on the source's temperature decides … */
	size_t stream_min; /* … and from here on nothing but stream */
	u64 hot_ticks;     /* the source is near if a look at a few of its lines takes less */
	copy_fn medium;    /* for a source that is near; leaves the destination in the caches */
	copy_fn fetch;     /* for a source that is far; leaves the destination in the caches */
	copy_fn stream;    /* non-temporal; orders its stores before any later one */
	/* How they copy, for people. */
	const char *medium_name, *fetch_name, *stream_name;
};

struct copy_routine {
	copy_fn copy;
	const char *name;
};

/* What copy_tuning::stream and ::fetch may be on this CPU. */
std::span<const copy_routine> stream_routines();
std::span<const copy_routine> fetch_routines();

/* What suits this CPU; its features are read by the first call. */
const copy_tuning &copy_for_cpu(copy_rows rows = copy_rows::automatic);

/* True: the source lies in this CPU's own caches. */
bool source_is_near(const copy_tuning &t, const void *src, size_t len);

/* What becomes of the destination: read next, so that it should stay in the caches, or not. */
enum class cache_hint : u8 { none, keep };

/* The routine for the pieces of one copy of total bytes, whose first piece is src[0, len). */
inline copy_fn copy_pick(const copy_tuning &t, u64 total, const void *src, size_t len, cache_hint hint)
{
	if (total < t.probe_min)
		return t.medium;
	if (total < t.stream_min && source_is_near(t, src, len))
		return t.medium;
	return hint == cache_hint::keep ? t.fetch : t.stream;
}

inline void copy_bytes(const copy_tuning &t, void *dst, const void *src, size_t len, cache_hint hint = cache_hint::none)
{
	if (likely(len <= t.small_max))
		memmove(dst, src, len);
	else
		copy_pick(t, len, src, len, hint)(dst, src, len);
}

} // namespace usdma
#pragma GCC visibility pop
