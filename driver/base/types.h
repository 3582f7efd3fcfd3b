/* SPDX-License-Identifier: BSD-3-Clause */
/* Fixed-width types and common helpers. */
#pragma once

#include <cstddef>
#include <cstdint>

namespace usdma {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using ull = unsigned long long; /* what printf's %llu and %llx print */

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

inline constexpr size_t cache_line = 64;
inline constexpr u64 KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

template <class T> constexpr T align_up(T v, T a)
{
	return (v + a - 1) / a * a;
}

template <class T> constexpr T align_down(T v, T a)
{
	return v / a * a;
}

constexpr bool is_pow2(u64 v)
{
	return v && !(v & (v - 1));
}

/* True when [base, base + len) lies in [0, size) and does not wrap. */
constexpr bool range_within(u64 base, u64 len, u64 size)
{
	return len <= size && base <= size - len;
}

} // namespace usdma
