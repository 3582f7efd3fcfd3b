/* SPDX-License-Identifier: BSD-3-Clause */
/* Bit fields of registers: a mask names the field, get/prep move values in and out. */
#pragma once

#include "driver/base/types.h"

namespace usdma {

constexpr u64 bit(unsigned n)
{
	return u64(1) << n;
}

/* Bits high … low set, as in the kernel's GENMASK. */
constexpr u64 genmask(unsigned high, unsigned low)
{
	return (~u64(0) >> (63 - high)) & (~u64(0) << low);
}

constexpr u64 field_get(u64 mask, u64 reg)
{
	return (reg & mask) >> __builtin_ctzll(mask);
}

constexpr u64 field_prep(u64 mask, u64 value)
{
	return (value << __builtin_ctzll(mask)) & mask;
}

} // namespace usdma
