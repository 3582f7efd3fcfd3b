/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kind of descriptor that can come beside a message, or lie behind a key. */
#pragma once

#include "driver/base/types.h"

namespace usdma::fuzz {

inline constexpr u8 kinds = 24, silent_kind = 21;

/*
 * A new descriptor; -1: a number that is none (the last kind), or a kind that is unavailable here (which the
 * first call says).
 */
int descriptor_of(u8 kind);
/* Before descriptors are counted. */
void prepare_kinds();

} // namespace usdma::fuzz
