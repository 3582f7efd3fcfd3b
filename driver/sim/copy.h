/* SPDX-License-Identifier: BSD-3-Clause */
/* How the model's units move bytes.  Everything that one would tune stands here. */
#pragma once

#include "driver/base/types.h"

#include <cstring>

namespace usdma::sim {

struct copy_tuning {
	size_t small_max;     /* up to here: memmove in line */
	size_t stream_min;    /* from here on: stores that go past the caches, where the CPU has them */
	void (*medium)(void *dst, const void *src, size_t len);
	void (*stream)(void *dst, const void *src, size_t len); /* orders its stores before any later one */
};

/* What suits this CPU; chosen once. */
const copy_tuning &copy_for_cpu();

/*
 * The routine for pieces of one copy of so many bytes in all.  dst and src may
 * not overlap; where they do the result is undefined, as the device says.
 */
using copy_fn = void (*)(void *dst, const void *src, size_t len);

inline copy_fn copy_pick(const copy_tuning &t, u64 total)
{
	return total < t.stream_min ? t.medium : t.stream;
}

inline void copy_bytes(const copy_tuning &t, void *dst, const void *src, size_t len)
{
	if (likely(len <= t.small_max))
		memmove(dst, src, len);
	else
		copy_pick(t, len)(dst, src, len);
}

} // namespace usdma::sim
