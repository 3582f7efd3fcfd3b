/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses for device pointers.  The address alone says what a pointer names,
 * so nothing else may lie where a device pointer points, and a CPU that touches
 * one must fault: the addresses are reserved, mapped without any access.
 *
 * They are reserved as they are used, a device's memory or a virtual range at a
 * time.  One reservation of many TiB for all would be simpler, but a limit on
 * address space refuses it, valgrind keeps notes on each of its pages, and beside
 * the shadow memory of a sanitizer there is no room for it.  Where they lie is the
 * kernel's decision: it is asked for a place in the window first, which programs
 * leave free as a rule, then for a few others, then for any.
 */
#pragma once

#include "driver/base/types.h"
#include "lib/core/config/config.h"

#pragma GCC visibility push(default)
namespace usdma::core {

/* Where device pointers lie if nothing else does: slot i's at window_base + i * window_slot, ranges behind all slots.
 */
inline constexpr u64 window_base = 0x100000000000, window_size = u64(1) << 43; /* 16 … 24 TiB */
inline constexpr u64 window_grain = 2 * MiB;

/* For the memory of the device in this slot. -ENOMEM: the text says what is in the way. */
int window_take_slot(unsigned slot, u64 size, u64 *base);
/*
 * For a range: size and align of the grain, expect 0 or the address wanted. -EEXIST: something is there. -ENOMEM.
 * -ENOBUFS: no memory to keep track of it.
 */
int window_take(u64 size, u64 align, u64 expect, u64 *base);
void window_give(u64 base);

/*
 * A device pointer, allocated or not: it lies in what is reserved, or in the window or one of its other places where
 * nothing is mapped.  The latter is one that runs far past its memory.  Takes a lock.
 */
bool in_window(u64 addr);
/* Any of it is reserved. */
bool window_overlaps(u64 addr, u64 size);

} // namespace usdma::core
#pragma GCC visibility pop
