/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CPU copies, selected by size and by whether the source is cached, for the software device's engines and for
 * the staging of pageable memory. All tuning is here and in copy.cpp. The routine follows from the CPU's
 * features and vendor, or from a setting: equal machines copy alike.
 *
 * A copy that is long, or whose source is not in this CPU's caches, uses non-temporal stores, which do not read
 * the destination lines first, in the order that suits the CPU. A copy with a cached source uses ordinary loads
 * and stores.
 */
#pragma once

#include "driver/base/types.h"

#include <cstring>
#include <span>

#pragma GCC visibility push(default)
namespace usdma {

/*
 * How many pages a long copy works on in parallel (setting copy_rows): some CPUs prefetch several pages in
 * parallel, others slow down to a third (copy.cpp has figures).
 */
enum class copy_rows : u8 { automatic, one, two, four };

/* dst and src must not overlap. */
using copy_fn = void (*)(void *dst, const void *src, size_t len);

struct copy_tuning {
	size_t small_max;  /* up to here: inline memmove */
	size_t probe_min;  /* from here on it depends on whether the source is cached … */
	size_t stream_min; /* … and from here on always stream */
	u64 hot_ticks;     /* the source is cached if loading a few of its lines takes less */
	copy_fn medium;    /* for a cached source; leaves the destination in the caches */
	copy_fn fetch;     /* for an uncached source; leaves the destination in the caches */
	copy_fn stream;    /* non-temporal; its stores are ordered before later ones */
	/* Descriptions for users. */
	const char *medium_name, *fetch_name, *stream_name;
};

struct copy_routine {
	copy_fn copy;
	const char *name;
};

/* Candidates for copy_tuning::stream and ::fetch on this CPU. */
std::span<const copy_routine> stream_routines();
std::span<const copy_routine> fetch_routines();

/* The tuning for this CPU, whose features are read by the first call. */
const copy_tuning &copy_for_cpu(copy_rows rows = copy_rows::automatic);

/* Whether the source is in this CPU's own caches. */
bool source_is_local(const copy_tuning &t, const void *src, size_t len);

/* Whether the destination is read next, so should stay in the caches. */
enum class cache_hint : u8 { none, keep };

/* The routine for the pieces of one copy of total bytes, whose first piece is src[0, len). */
inline copy_fn copy_pick(const copy_tuning &t, u64 total, const void *src, size_t len, cache_hint hint)
{
	if (total < t.probe_min)
		return t.medium;
	if (total < t.stream_min && source_is_local(t, src, len))
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
