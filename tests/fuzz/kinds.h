/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kind of descriptor that a message can carry, or a key can refer to. */
#pragma once

#include "driver/base/types.h"

namespace usdma::fuzz {

inline constexpr u8 kinds = 24, silent_kind = 21;

/*
 * A new descriptor; -1: an invalid descriptor (the last kind), or a kind that is unavailable here (which the first
 * call prints).
 */
int descriptor_of(u8 kind);
/* Opens the descriptors that stay open: call it before descriptors are counted. */
void prepare_kinds();

} // namespace usdma::fuzz
