/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Address ranges for device pointers. A device pointer must be distinguishable by its value, and a CPU access
 * to one must fault: the ranges are reserved with PROT_NONE.
 *
 * Each device's memory or virtual range is reserved on demand. One reservation of many TiB would be simpler,
 * but exceeds a limit on address space, makes valgrind track every page, and does not fit beside the shadow
 * memory of a sanitizer. The first choice is the window, which programs usually leave free, then a few other
 * bases, then any address that the kernel returns. A virtual range may be larger than the window: unused
 * addresses cost nothing.
 */
#pragma once

#include "driver/base/types.h"
#include "lib/core/config/config.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* Default layout: slot i at window_base + i * window_slot, virtual ranges after all slots. */
inline constexpr u64 window_base = 0x100000000000, window_size = u64(1) << 43; /* 16 … 24 TiB */
inline constexpr u64 window_grain = 2 * MiB;

/* For the memory of the device in this slot. -ENOMEM: the text names the conflicting mapping. */
int window_take_slot(unsigned slot, u64 size, u64 *base);
/*
 * For a virtual range: size and align are multiples of the grain, expect is 0 or the requested address.
 * -EEXIST: address in use. -ENOMEM. -ENOBUFS: no memory for the table.
 */
int window_take(u64 size, u64 align, u64 expect, u64 *base);
void window_give(u64 base);

/*
 * True for a device pointer, allocated or not: inside a reservation, or unmapped inside the window or one of
 * its other bases (a pointer well past the end of its memory). Takes a lock. In a child of fork, which cannot take it,
 * also for other memory.
 */
bool in_window(u64 addr);
/* True: overlaps a reservation. */
bool window_overlaps(u64 addr, u64 size);

} // namespace usdma::core
#pragma GCC visibility pop
