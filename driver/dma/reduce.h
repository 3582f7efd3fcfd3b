/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include "driver/dma/request.h"

namespace usdma::dma {

/*
 * dst[i] = op(dst[i], src[i]). Integers wrap. f16 and bf16 are computed in f32 and rounded to nearest, ties to
 * even. A NaN in either operand makes sum, prod, max and min NaN, and equals nothing. equal gives 1 or 0 of the
 * type.
 */
using reduce_fn = void (*)(void *dst, const void *src, size_t bytes);

/* nullptr: no such reduction. */
reduce_fn find_reduction(u8 arg);

u16 f16_from_f32(float v);
float f32_from_f16(u16 v);
u16 bf16_from_f32(float v);
float f32_from_bf16(u16 v);

} // namespace usdma::dma
