/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/base/types.h"

namespace usdma {

constexpr u64 bit(unsigned n)
{
	return u64(1) << n;
}

} // namespace usdma
